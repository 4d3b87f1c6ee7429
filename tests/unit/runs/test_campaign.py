"""The outer run loop without a machine: keys, resuming, failures that affect only their point, and Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from rich.console import Console

from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.verdict import Verdict, failed_run
from gradwire.console.live_progress import LiveProgress
from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import AgentSummary, OpLog, PointRecord
from gradwire.faults import InputFault, MachineFault, UnfitMachine
from gradwire.inside.point_protocol import (
    Event,
    FirstByte,
    PointRecorded,
    PointTask,
    ReplayEnded,
    ReplayStarted,
    read_json,
    write_json,
)
from gradwire.network.fabric import Fabric
from gradwire.runs import campaign, judged
from gradwire.runs import point_machine as machine_module
from gradwire.runs.campaign import Campaign, running_order
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.judged import JudgedRun
from gradwire.runs.plan_work import PlanWork
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.runs.stored.run_folder import runs_of
from gradwire.runs.stored.stored_run import Completion, StoredRun, write_completion
from gradwire.runs.works import judge_kept, judge_stored
from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.overrides import apply_setting
from gradwire.vm.machines import Clock
from tests.shared.parts import tells

TEXT = """
title = "A test"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "vanilla"
[sweep]
"model.batch" = [64, 128]
"""
GOOD = Verdict(True, (Check("made up", "1", "1", True, "nothing was measured"),), "valid")

Job = Callable[[Path, Callable[[str], None]], int]


def planned_runs(out: Path, *settings: str, clock: Clock | None = None) -> list[PlannedRun]:
    document = tomllib.loads(TEXT)
    for setting in settings:
        apply_setting(document, setting)
    return plan_runs(resolve(document, "test.toml", "test").points, out, clock or Clock())


class Silent:
    """A watcher that records its calls."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.judged: list[JudgedRun] = []
        self.begun: list[PlannedRun] = []

    def started(self, planned: PlannedRun) -> None:
        self.begun.append(planned)

    def heard(self, planned: PlannedRun, event: Event) -> None:
        self.events.append(event)

    def ended(self, judged: JudgedRun) -> None:
        self.judged.append(judged)


def machine(monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    """Replaces the machine by `job`, which gets the folder and a taker of lines, and judging by a good verdict."""

    def run_job(module: str, folder: Path, clock: Clock, *, on_line: Callable[[str], None], **_: Any) -> int:
        assert module == "gradwire.inside.point"
        return job(folder, on_line)

    monkeypatch.setattr(machine_module, "run_job", run_job)
    monkeypatch.setattr(judged, "judge", lambda *_, **_kinds: GOOD)


def say(on_line: Callable[[str], None], event: str, **values: Any) -> None:
    on_line(json.dumps({"event": event, **values}))


def good_job(folder: Path, on_line: Callable[[str], None]) -> int:
    """Writes the files of a finished replay, in which every op of every iteration takes the same made-up time."""
    task = read_json(folder / "task.json", PointTask)
    label = task.plans[0].label
    plan = Plan.load(folder / task.plans[0].file)
    for event in ("first_byte", "replay", "replayed"):
        say(on_line, event)
    on_line("a line that is not an event")
    ops = np.tile(np.arange(len(plan.ops)), task.iterations)
    iterations = np.repeat(np.arange(task.iterations), len(plan.ops))
    start_ns = iterations * 1_000_000_000
    OpLog(iterations, ops, start_ns, start_ns, start_ns + 900_000_000).save(folder / "ops.npz")
    write_json(folder / "record.json", record(task.iterations, task.warmup))
    say(on_line, "done", plan=label)
    return 0


def record(iterations: int, warmup: int) -> PointRecord:
    counts = NetworkCounts((BandCount("h1-eth0", 1, 10, 1, 0),), 1, 0, 0, 0)
    agent = AgentSummary((0, 1), 1, 1, 1000, 1000, 0, 0)
    return PointRecord("virtual", iterations, warmup, (agent,), counts, 1.0, 0.0, "prio, fq")


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "points.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def run(out: Path, points: list[PlannedRun], jobs: int = 1) -> tuple[list[JudgedRun], Silent]:
    watcher = Silent()
    return Campaign(points, out, LocalPool(jobs), watcher).run(), watcher


def reported(out: Path, points: list[Point]) -> list[JudgedRun]:
    """The runs, judged as by `gradwire report`."""
    stored = runs_of(out, points)
    return [judge_stored(one, point) for one, point in zip(stored, points, strict=True)]


def kept(planned: PlannedRun) -> JudgedRun | None:
    return judge_kept(planned.stored, planned.point, planned.key)


def test_keys_are_stable_and_change_with_what_decides_a_result(tmp_path: Path) -> None:
    keys = {point.key for point in planned_runs(tmp_path)}
    assert len(keys) == 2
    assert keys == {point.key for point in planned_runs(tmp_path / "elsewhere")}
    for setting in (
        "run.seed=2",
        "run.iterations=4",
        "fabric.rate=25gbit",
        "transport.send_ends=departure",
        "transport.unsent=64KB",
        "cluster.workers=3",
    ):
        assert keys.isdisjoint(point.key for point in planned_runs(tmp_path, setting))
    # What senders do decides a result, and not who says so.
    for setting in (
        "run.time_limit=10s",
        "run.memory_mb=1024",
        "transport.send_ends=buffered",
        "transport.unsent=1MiB",
    ):
        assert keys == {point.key for point in planned_runs(tmp_path, setting)}
    wall = planned_runs(tmp_path, clock=Clock("wall", 10))
    assert keys.isdisjoint(point.key for point in wall)
    assert wall[0].fabric.rate_bps == 1e9


def test_folders_and_labels(tmp_path: Path) -> None:
    first, second = planned_runs(tmp_path)
    assert first.folder.name.startswith("64_alexnet_vanilla_2_10gbit_1-")
    alone, *_ = planned_runs(tmp_path, "model.batch=64")
    assert alone.folder.name[-6:] == first.folder.name[-6:]  # the same point, whatever else is swept
    assert tells(second.label, "batch 128", "alexnet vanilla", "workers 2", "10gbit", "seed 1")
    assert first.iterations == 4
    assert first.cost_bytes == sum(int(p.ops.size_bytes[p.is_remote()].sum()) for p in first.plans.values()) * 4


def test_preparing_refuses_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="unknown"):
        planned_runs(tmp_path, 'strategy.name=["vanilla","wrong"]')
    assert list(tmp_path.iterdir()) == []


def test_a_good_run_is_stored_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    runs, watcher = run(tmp_path, planned_runs(tmp_path), jobs=2)
    assert [run.result.verdict for run in runs] == ["valid", "valid"]
    assert [row["batch"] for row in rows(tmp_path)] == ["64", "128"]
    assert len(watcher.begun) == len(watcher.judged) == 2
    assert {type(event) for event in watcher.events} == {FirstByte, ReplayStarted, ReplayEnded, PointRecorded}
    first = runs[0].folder
    assert "not an event" in (first / "log.txt").read_text()
    times = list(csv.DictReader((first / "iterations.csv").read_text().splitlines()))
    assert [(row["iteration"], row["warmup"]) for row in times] == [("0", "1"), ("1", "0"), ("2", "0"), ("3", "0")]

    def fail(folder: Path, on_line: Callable[[str], None]) -> int:
        raise AssertionError("nothing is left to run")

    machine(monkeypatch, fail)
    again, watcher = run(tmp_path, planned_runs(tmp_path))
    assert all(each.reused for each in again)
    assert [each.result for each in again] == [each.result for each in runs]
    assert [each.verdict for each in again] == [GOOD, GOOD]
    assert watcher.begun == []
    report = reported(tmp_path, [p.point for p in planned_runs(tmp_path)])
    assert [each.speed for each in report] == [each.speed for each in runs]


def test_a_changed_point_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    run(tmp_path, planned_runs(tmp_path))
    (notes := tmp_path / "notes.txt").write_text("of the user")
    _, watcher = run(tmp_path, changed := planned_runs(tmp_path, "run.iterations=5"))
    assert len(watcher.begun) == 2
    again = Campaign(changed, tmp_path, LocalPool(1), watcher, fresh=True).run()
    assert [each.reused for each in again] == [False, False]
    assert (len(watcher.begun), notes.read_text()) == (4, "of the user")


def test_a_failure_stays_with_its_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents of one point die and the machine of another breaks. The third is measured, and a second run completes the others."""

    def job(folder: Path, on_line: Callable[[str], None]) -> int:
        if folder.name.startswith("64_"):
            say(on_line, "fault", kind="AgentDied", message="agent 0 died")
            return 1
        if folder.name.startswith("128_"):
            raise MachineFault("the kernel died")
        return good_job(folder, on_line)

    machine(monkeypatch, job)
    points = planned_runs(tmp_path, "model.batch=[64,128,256]")
    runs, _ = run(tmp_path, points, jobs=2)
    assert [each.result.valid for each in runs] == [False, False, True]
    verdicts = [row["verdict"] for row in rows(tmp_path)]
    assert tells(verdicts[0], "AgentDied:", "agent 0 died")
    assert "the kernel died" in verdicts[1]
    assert verdicts[2] == "valid"
    assert not StoredRun(points[0].folder).last_verdict().valid
    stored = reported(tmp_path, [point.point for point in points])
    assert [result.verdict.summary for result in stored] == verdicts
    machine(monkeypatch, good_job)
    runs, watcher = run(tmp_path, points)
    assert [each.reused for each in runs] == [False, False, True]
    assert {p.folder.name.split("_")[0] for p in watcher.begun} == {"128", "64"}


def test_a_failure_leaves_nothing_of_an_earlier_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    run(tmp_path, planned_runs(tmp_path))
    machine(monkeypatch, lambda folder, on_line: 3)
    (judged_run, _), _ = run(tmp_path, planned_runs(tmp_path, "run.iterations=5"))
    assert "status 3" in judged_run.result.verdict
    assert "log.txt" in judged_run.result.verdict
    left = {path.name for path in judged_run.folder.iterdir()}
    assert left.isdisjoint({"completed.json", "ops.npz", "record.json", "iterations.csv"})


def test_a_line_that_breaks_off_is_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def job(folder: Path, on_line: Callable[[str], None]) -> int:
        on_line('{"event": "iter')
        raise MachineFault("ended after its limit of 3 s")

    machine(monkeypatch, job)
    (judged_run, _), _ = run(tmp_path, planned_runs(tmp_path))
    assert "of 3 s" in judged_run.result.verdict


def test_only_a_run_of_this_very_point_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    point, other = planned_runs(tmp_path)
    assert kept(point) is None
    (done, _), _ = run(tmp_path, [point, other])
    assert kept(point) == done
    assert done.speed is not None
    write_completion(point.folder, Completion("of another point", "vanilla", done.speed))
    assert kept(point) is None


def test_a_kept_run_is_judged_anew_and_an_invalid_one_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, good_job)
    points = planned_runs(tmp_path)
    run(tmp_path, points)
    monkeypatch.setattr(judged, "judge", lambda *_, **_kinds: failed_run("it went wrong"))
    stored_run = kept(points[0])
    assert stored_run is not None
    assert not stored_run.result.valid
    _, watcher = run(tmp_path, points)
    assert len(watcher.begun) == 2


def test_a_folder_that_never_ran_has_no_report(tmp_path: Path) -> None:
    points = [planned.point for planned in planned_runs(tmp_path)]
    with pytest.raises(InputFault, match="has not run"):
        reported(tmp_path, points)


def test_a_full_disk_ends_the_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, on_line: Callable[[str], None]) -> int:
        raise OSError(28, "No space left on device", str(folder / "plan-0.npz"))

    machine(monkeypatch, full)
    with pytest.raises(UnfitMachine, match=r"plan-0\.npz: .*No space left"):
        run(tmp_path, planned_runs(tmp_path))
    assert not (tmp_path / "points.csv").exists()


def test_ctrl_c_stops_every_machine_and_keeps_what_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stopped = threading.Event(), threading.Event()
    points = planned_runs(tmp_path, "model.batch=[64,128,256]")

    def run_job(module: str, folder: Path, clock: Clock, *, on_line: Any, stop: threading.Event, **_: Any) -> int:
        if folder.name.startswith("64_"):
            return good_job(folder, on_line)
        if folder.name.startswith("128_"):
            assert begun.wait(120), "the other machine never started"
            raise KeyboardInterrupt
        begun.set()
        assert stop.wait(120), "the other machines were not told to stop"
        stopped.set()
        raise MachineFault("the run was stopped")

    monkeypatch.setattr(machine_module, "run_job", run_job)
    monkeypatch.setattr(judged, "judge", lambda *_, **_kinds: GOOD)
    run(tmp_path, points[:1])
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, points, jobs=2)
    assert stopped.is_set()
    assert [row["batch"] for row in rows(tmp_path)] == ["64"]
    assert kept(points[0]) is not None


def test_jobs_run_side_by_side_on_cores_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    together = threading.Barrier(2, timeout=120)
    cpus: list[int] = []

    def run_job(*arguments: Any, cpu: int, on_line: Any, **_: Any) -> int:
        cpus.append(cpu)
        together.wait()
        return good_job(arguments[1], on_line)

    monkeypatch.setattr(machine_module, "run_job", run_job)
    monkeypatch.setattr(judged, "judge", lambda *_, **_kinds: GOOD)
    run(tmp_path, planned_runs(tmp_path), jobs=2)
    assert sorted(cpus) == [1, 2]


def test_a_task_comes_back_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    (judged_run, _), _ = run(tmp_path, planned_runs(tmp_path, "transport.agents=per-host"))
    task = judged_run.stored.task()
    assert (task.iterations, task.warmup, task.per_host, task.clock) == (4, 1, True, "virtual")
    assert isinstance(task.fabric, Fabric)
    assert task.fabric == judged_run.fabric
    assert judged_run.stored.plan().digest() == judged_run.result.plan_digest
    write_json(tmp_path / "task.json", task)
    assert StoredRun(tmp_path).task() == task


def test_the_shortest_run_comes_first_and_then_the_longest() -> None:
    runs = [cast(PlannedRun, SimpleNamespace(cost_bytes=cost)) for cost in (3, 1, 4, 2)]
    assert [planned.cost_bytes for planned in running_order(runs)] == [1, 4, 3, 2]
    assert running_order(runs[:1]) == runs[:1]
    assert running_order([]) == []


def test_the_machine_is_tried_once_and_only_when_a_point_has_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, good_job)
    tried: list[int] = []
    for _ in range(2):
        points = planned_runs(tmp_path, "run.memory_mb=1024")
        assert all(one.result.valid for one in Campaign(points, tmp_path, LocalPool(2, tried.append), Silent()).run())
    assert tried == [1024]


def test_what_the_trial_finds_stops_all_before_any_point_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise MachineFault("no ptrace")

    machine(monkeypatch, good_job)
    watcher = Silent()
    with pytest.raises(MachineFault, match="no ptrace"):
        Campaign(planned_runs(tmp_path), tmp_path, LocalPool(2, fail), watcher).run()
    assert (watcher.begun, watcher.judged) == ([], [])
    assert not (tmp_path / "points.csv").exists()


def test_a_kernel_that_dies_in_one_point_is_that_points_fault_and_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(folder: Path, on_line: Callable[[str], None]) -> int:
        if "64_alexnet" in folder.name:
            raise MachineFault("the kernel died: of a cause\nremedy: this\nthe kernel's last words:\npanic")
        return good_job(folder, on_line)

    machine(monkeypatch, job)
    console = Console(width=200, record=True, file=io.StringIO())
    with LiveProgress(console, 2) as watcher:
        runs = Campaign(planned_runs(tmp_path), tmp_path, LocalPool(1), watcher).run()
    assert [each.result.valid for each in runs] == [False, True]
    assert runs[0].result.verdict.endswith("panic")
    output = console.export_text()
    assert output.count("died: of a cause") == 1
    assert "remedy" not in output
    assert "panic" not in output


def test_a_point_that_begins_anew_elsewhere_has_one_bar(tmp_path: Path) -> None:
    point, _ = planned_runs(tmp_path)
    with LiveProgress(Console(file=io.StringIO()), 2) as watcher:
        watcher.started(point)
        watcher.started(point)
        assert [task.description for task in watcher._progress.tasks] == ["points", point.label]


def test_points_csv_is_written_the_less_often_the_more_points_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all that end while it is too early to write it again, none causes a walk through all."""
    machine(monkeypatch, good_job)
    written: list[int] = []

    def write_points(self: PlanWork, out: Path, runs: list[JudgedRun]) -> None:
        written.append(len(runs))

    monkeypatch.setattr(PlanWork, "write_points", write_points)
    monkeypatch.setattr(campaign, "NOTE_PERIODS", float("inf"))
    points = planned_runs(tmp_path, "model.batch=[1,2,3,4,5,6]")
    run(tmp_path, points)
    assert written == [1, 6]
