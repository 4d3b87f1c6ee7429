"""A user's run from scenario to report, on a real network in the virtual-time kernel."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.parameters import parameter_number
from gradwire.analysis.points import PointResult, pool_seeds
from gradwire.analysis.timeline.critical_path import critical_path
from gradwire.analysis.timeline.walk import TimeKind
from gradwire.datatypes.plan import OpKind
from gradwire.datatypes.records import OpLog
from gradwire.runs.stored.stored_run import StoredRun
from tests.shared.commands import gradwire_command
from tests.shared.parts import tells
from tests.shared.points_csv import read_points_csv

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
    return gradwire_command(*arguments)


def run(folder: Path, *settings: str) -> tuple[PointResult, str]:
    scenario = folder / "four.toml"
    scenario.write_text(SCENARIO)
    out = folder / "run"
    done = gradwire("run", str(scenario), "--out", str(out), *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = read_points_csv(out / "points.csv")
    return row, done.stdout


@dataclass(frozen=True)
class Made:
    """A run of four hosts that has ended."""

    folder: Path
    row: PointResult
    said: str


@pytest.fixture(scope="module")
def twice(virtual_kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Made]:
    """The same run in two folders."""
    one, other = (tmp_path_factory.mktemp(name) for name in ("one", "another, with a longer name"))
    return Made(one, *run(one)), Made(other, *run(other))


def test_a_run_writes_everything_and_is_not_repeated(twice: tuple[Made, Made]) -> None:
    row, said, out = twice[0].row, twice[0].said, twice[0].folder / "run"
    assert row.valid, row.verdict
    assert row.lower_bound_s <= row.iteration_time_s < 1.2 * row.lower_bound_s
    assert "first byte" in said
    (point,) = (out / "points").iterdir()
    for written in ("scenario.toml", "report.html", "table.md", "chart.png", "chart.svg"):
        assert (out / written).stat().st_size > 0, written
    for written in ("ops.npz", "iterations.csv", "verdict.json", "record.json", "log.txt"):
        assert (point / written).stat().st_size > 0, written
    again, said = run(twice[0].folder)
    assert "already there" in said
    assert again == row
    assert gradwire("report", str(out)).returncode == 0
    explained_from_its_logs(out, point, row)


def test_the_same_run_takes_the_same_nanoseconds_in_another_folder(twice: tuple[Made, Made]) -> None:
    logs = []
    for made in twice:
        (point,) = (made.folder / "run" / "points").iterdir()
        logs.append(OpLog.load(point / "ops.npz"))
    for column in fields(OpLog):
        first, second = (getattr(log, column.name) for log in logs)
        assert np.array_equal(first, second), column.name
    first, second = (made.row.iteration_time_s for made in twice)
    assert first == second


def explained_from_its_logs(out: Path, point: Path, row: PointResult) -> None:
    """The critical path of every iteration explains all of its time, and the timeline is a trace that viewers load."""
    stored = StoredRun(point)
    task, plan, log = stored.task(), stored.plan(), stored.log()
    times_s = iteration_times_s(plan, log, task.iterations)
    for iteration in range(task.iterations):
        path = critical_path(plan, log, iteration, task.fabric)
        assert path.duration_ns == round(times_s[iteration] * 1e9) == sum(path.kinds_ns.values())
        assert path.kinds_ns[TimeKind.UNEXPLAINED] == 0
        assert path.kinds_ns[TimeKind.LATENESS] < 1e-3 * path.duration_ns
        # What GPUs compute on a path is at most one worker's forward and backward pass.
        assert path.kinds_ns[TimeKind.COMPUTE] + path.kinds_ns[TimeKind.STRAGGLER] <= plan.compute_s * 1e9 * 1.001
    said = gradwire("why", str(out), "strategy=geryon")
    assert said.returncode == 0, said.stderr
    assert f"{max(times_s[task.warmup :]):.6f} s" in said.stdout
    exported = gradwire("trace", str(out), "geryon", "--iteration", "1", "--out", str(out / "trace.json"))
    assert exported.returncode == 0, exported.stderr
    events = json.loads((out / "trace.json").read_text())["traceEvents"]
    # A worker that is ahead of the others may have received some of it before the iteration begins for all.
    begin_ns = log.end_ns[(log.iteration == 0) & np.isin(log.op, plan.end_op)].max()
    ours = (log.iteration == 1) & (plan.ops.kind[log.op] == OpKind.RECV) & (log.end_ns >= begin_ns)
    drawn = [event for event in events if event.get("cat") == "receive" and event["args"]["iteration"] == 1]
    assert len(drawn) == int(ours.sum())
    assert {event["id"] for event in events if event["ph"] == "s"} == {e["id"] for e in events if e["ph"] == "f"}
    moved = [load_bytes(events, f"h{host} out:", row) for host in range(1, 5)]
    planned = plan.ops.size_bytes[plan.is_remote()].sum() / task.fabric.goodput_share()
    assert sum(moved) == pytest.approx(planned, rel=0.01)


def load_bytes(events: list[dict[str, Any]], name: str, row: PointResult) -> float:
    """Bytes on the line by a link's counter: its load over time."""
    counted = [(e["ts"] / 1e6, next(iter(e["args"].values())) / 100) for e in events if e.get("name") == name]
    rate_bps = parameter_number(row.parameters["rate"])
    assert rate_bps is not None
    busy_s = sum((later - at) * share for (at, share), (later, _) in pairwise(counted))
    return float(busy_s * rate_bps / 8)


def test_comparing_strategies_runs_and_ranks_them(tmp_path: Path) -> None:
    words = ["--model", "alexnet", "--workers", "3", "--rate", "25gbit", "--seeds", "2", "--out", str(tmp_path / "run")]
    chosen = [word for name in ("vanilla", "ring", "butterfly") for word in ("--strategy", name)]
    done = gradwire("compare", *words, *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row.parameters["strategy"]: row for row in pool_seeds(read_points_csv(tmp_path / "run" / "points.csv"))}
    assert set(rows) == {"vanilla", "ring"}
    assert all(row.valid for row in rows.values())
    speedup = rows["vanilla"].iteration_time_s / rows["ring"].iteration_time_s
    assert tells(done.stdout, "Ring is fastest", f"{rows['ring'].iteration_time_s:.4g} s", f"{speedup:.2f}x")
    assert tells(done.stdout, "butterfly left out", "cluster.workers = 3")
    assert (tmp_path / "run" / "chart.png").stat().st_size > 0


def test_leaf_spine_with_an_agent_a_host(tmp_path: Path) -> None:
    fabric = ["--set", "fabric.topology=leaf-spine", "--set", "fabric.leaves=2", "--set", "fabric.spines=2"]
    row, _ = run(tmp_path, *fabric, "--set", "transport.agents=per-host", "--set", "fabric.oversubscription=2")
    assert row.valid, row.verdict
    assert 0.846 < row.iteration_time_s < 1.2, "0.846 s is the model's compute time"
