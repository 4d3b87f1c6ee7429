"""A map with measured cells: estimates and runs of the same points meet in its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shared.command_line import gradwire_says

SCENARIO = """
title = "small question"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "toy"
layers = [
    {name = "a", size = ["4MB"], forward = "5ms", backward = "10ms"},
    {name = "b", size = ["4MB"], forward = "5ms", backward = "10ms"},
]
[strategy]
name = "ring"
[sweep]
"strategy.name" = ["ring", "kvstore"]
"""


def test_measured_cells_are_runs_and_are_near_their_estimates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "small.toml", tmp_path / "out"
    file.write_text(SCENARIO)
    over = ("--over", "fabric.rate=1gbit,10gbit", "--over", "cluster.workers=2,3")
    status, said, errors = gradwire_says(
        monkeypatch, capsys, "map", str(file), *over, "--measure", "2", "--out", str(out), "--jobs", "2"
    )
    assert status == 0, errors
    assert "Of 2 cells" in said
    cells = json.loads((out / "map.json").read_text())["cells"]
    measured = [cell for cell in cells if "measured" in cell]
    assert len(measured) == 2
    for cell in measured:
        assert cell["measured"]["invalid"] == {}
        assert len(cell["measured"]["times_s"]) == 2
        for name, time_s in cell["measured"]["times_s"].items():
            assert time_s == pytest.approx(cell["estimates_s"][name], rel=0.05)
    assert (out / "measured" / "report.html").exists()
    assert "drawn at random" in (out / "map.html").read_text()
