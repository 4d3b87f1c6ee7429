"""Runs in the virtual-time kernel beside an ideal network: as fast where nothing is held back, and with the cause's name where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import gradwire

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
    assert f"x fluid of p3 is {ratio['p3']:.3f}: sockets explain" in report
    assert "16 KiB may wait unsent (transport.unsent)" in report
    assert "Warning:" not in report
