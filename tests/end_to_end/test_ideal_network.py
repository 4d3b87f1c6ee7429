"""Runs in the virtual-time kernel beside an ideal network: as fast where nothing is held back, and with the cause's name where it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import gradwire
from gradwire.analysis.agreement.causes import Cause
from gradwire.inside.point_protocol import Event
from gradwire.runs.agreement import compared
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.vm.machines import Clock
from tests.shared.parts import tells
from tests.shared.random_points import random_points

RANDOM_POINTS, SEED = 3, 3
"""The first of the hundred that benchmarks/fluid_agreement.py runs."""

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SCENARIO = {
    "title": "two layers",
    "cluster": {"workers": 4},
    "fabric": {"rate": "10gbit"},
    "model": {
        "name": "toy",
        "batch": 1,
        "layers": [
            {"name": "conv", "kind": "conv", "size": ["1MB"], "forward": "1ms", "backward": "2ms"},
            {"name": "fc", "kind": "fc", "size": ["6MB"], "forward": "200us", "backward": "400us"},
        ],
    },
    "transport": {"send_ends": "buffered", "unsent": "16KiB"},
    "run": {"warmup": 1, "iterations": 3},
    "sweep": {"strategy.name": ["ring", "p3"]},
}


def test_a_ring_is_as_fast_and_p3_is_faster_because_of_its_sockets(tmp_path: Path) -> None:
    run = gradwire.run(SCENARIO, out=tmp_path / "run", progress=False)
    assert run.valid
    points = run.points.set_index("strategy")
    ratio = points["iteration_time_s"] / points["fluid_time_s"]
    assert ratio["ring"] == pytest.approx(1.0, abs=0.01)
    assert points.loc["ring", "fluid_cause"] == ""
    # 16 KiB may wait unsent, and TCP keeps up to a millisecond of each connection under way besides.
    assert 0.6 < ratio["p3"] < 0.9
    assert points.loc["p3", "fluid_cause"] == "sockets"
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert tells(report, "x fluid", "p3", f"{ratio['p3']:.3f}: sockets")
    assert tells(report, "16 KiB", "(transport.unsent)")
    assert "Warning:" not in report


class Unwatched:
    def started(self, planned: PlannedRun) -> None: ...

    def heard(self, planned: PlannedRun, event: Event) -> None: ...

    def ended(self, judged: JudgedRun) -> None: ...


def test_random_points_are_as_fast_or_have_a_cause(tmp_path: Path) -> None:
    planned = plan_runs(list(random_points(SEED, RANDOM_POINTS)), tmp_path, Clock())
    runs = compared(Campaign(planned, tmp_path, LocalPool(len(os.sched_getaffinity(0))), Unwatched()).run())
    assert len(runs) == RANDOM_POINTS
    for run in runs:
        assert run.result.valid, run.result.verdict
        assert run.result.fluid_ratio == pytest.approx(1.0, abs=0.05)
        assert run.agreement is not None
        assert run.agreement.cause is not Cause.UNEXPLAINED, run.agreement.sentence
