"""A user's run from scenario to report, on a real network in the virtual-time kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.points import PointResult, read_points_csv
from vm.machines import SOURCE_ROOT

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SCENARIO = """
title = "four hosts"

[cluster]
workers = 4

[fabric]
rate = "25gbit"

[model]
name = "alexnet"
device = "k40"

[strategy]
name = "geryon"

[run]
iterations = 2
"""


def gradwire(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradwire", *arguments]
    return subprocess.run(command, cwd=SOURCE_ROOT, capture_output=True, text=True, check=False, timeout=300)


def run(folder: Path, *settings: str) -> tuple[PointResult, str]:
    scenario = folder / "four.toml"
    scenario.write_text(SCENARIO)
    out = folder / "run"
    done = gradwire("run", str(scenario), "--out", str(out), *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = read_points_csv(out / "points.csv")
    return row, done.stdout


def test_a_run_writes_everything_and_is_not_repeated(tmp_path: Path) -> None:
    row, said = run(tmp_path)
    assert row.valid, row.verdict
    assert row.lower_bound_s <= row.iteration_time_s < 1.2 * row.lower_bound_s
    assert "boot to first byte" in said
    out = tmp_path / "run"
    (point,) = (out / "points").iterdir()
    for written in ("scenario.toml", "report.html", "table.md", "chart.png", "chart.svg"):
        assert (out / written).stat().st_size > 0, written
    for written in ("ops.npz", "iterations.csv", "verdict.json", "record.json", "log.txt"):
        assert (point / written).stat().st_size > 0, written
    again, said = run(tmp_path)
    assert "already there" in said
    assert again == row
    assert gradwire("report", str(out)).returncode == 0


def test_the_same_seed_gives_the_same_times(tmp_path: Path) -> None:
    times = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        times.append(run(tmp_path / name)[0].iteration_time_s)
    assert times[1] == pytest.approx(times[0], rel=0.001)


def test_leaf_spine_with_an_agent_a_host(tmp_path: Path) -> None:
    fabric = ["--set", "fabric.topology=leaf-spine", "--set", "fabric.leaves=2", "--set", "fabric.spines=2"]
    row, _ = run(tmp_path, *fabric, "--set", "transport.agents=per-host", "--set", "fabric.oversubscription=2")
    assert row.valid, row.verdict
    assert 0.846 < row.iteration_time_s < 1.2, "0.846 s is the model's compute time"
