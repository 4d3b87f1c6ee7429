"""What a scenario may not ask of a machine: refused when it is planned or before the first point, by the name of the key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwire.faults import InputFault, MachineFault
from gradwire.runs.launch.machine_trial import trial_on
from gradwire.runs.planned import plan_runs, virtual_clock
from gradwire.scenario.loading import Scenario, load_scenario
from gradwire.vm.machines import Clock
from gradwire.workloads import plan_size
from tests.shared.parts import in_order

TEXT = """
title = "A test"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "toy"
layers = [{ name = "a", size = ["4kB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
"""


def scenario(folder: Path, *settings: str) -> Scenario:
    (folder / "a.toml").write_text(TEXT)
    return load_scenario(folder / "a.toml", settings)


def test_logs_that_would_not_fit_in_memory_are_refused_and_what_fits_is_said(tmp_path: Path) -> None:
    loaded = scenario(tmp_path, "run.iterations=1000000", "run.memory_mb=512")
    with pytest.raises(InputFault, match=in_order("a.toml: run.iterations = 1000000:", "at most")) as refused:
        plan_runs(loaded.points, tmp_path, Clock())
    most = int(str(refused.value).partition("at most ")[2].split(" ")[0].replace(",", ""))
    (fits,) = plan_runs(scenario(tmp_path, f"run.iterations={most}", "run.memory_mb=512").points, tmp_path, Clock())
    assert fits.iterations == most + 1
    with pytest.raises(InputFault, match=r"run\.iterations"):
        plan_runs(scenario(tmp_path, f"run.iterations={most + 1}", "run.memory_mb=512").points, tmp_path, Clock())


def test_a_plan_that_grows_too_large_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_size, "MOST_OPS", 20)
    with pytest.raises(InputFault, match=r"a\.toml: .*'ring' .*[0-9,]+ ops, .*20: "):
        plan_runs(scenario(tmp_path, "cluster.workers=8").points, tmp_path, Clock())


def test_misfits_of_all_points_are_told_at_once(tmp_path: Path) -> None:
    loaded = scenario(
        tmp_path, "cluster.workers_per_host=[2,3]", "fabric.mtu_bytes=9000", 'fabric.gso=["9000B","10kB"]'
    )
    said = [
        f"{tmp_path / 'a.toml'}: fabric.gso = 9000: must be 9014 (one frame) to 65536 (the largest IPv4 packet)",
        f"{tmp_path / 'a.toml'}: cluster.workers_per_host = 3: must divide cluster.workers = 2",
    ]
    for refused_by in (lambda: virtual_clock(loaded.points), lambda: plan_runs(loaded.points, tmp_path, Clock())):
        with pytest.raises(InputFault) as refused:
            refused_by()
        assert sorted(str(refused.value).splitlines()) == sorted(said)


def test_the_wall_clock_is_refused_to_ordinary_users_before_the_first_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineFault, match="needs root"):
        trial_on(Clock("wall", 100))(512)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    trial_on(Clock("wall", 100))(512)
