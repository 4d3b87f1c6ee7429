"""Stored run folders: the names of points, and what is read of them, also after gradwire's code has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

from gradwire.analysis.report.tables import Constant
from gradwire.datatypes.records import COMPILED, IN_PYTHON, NOT_SERVED, AgentSummary
from gradwire.faults import InputFault, MachineFault
from gradwire.runs import planned, reporting
from gradwire.runs.planned import PlannedRun
from gradwire.runs.reporting import computation
from gradwire.runs.stored import run_files
from gradwire.runs.stored.explanation import explain
from gradwire.runs.stored.run_folder import folder_name, runs_of
from gradwire.runs.stored.stored_run import RunSpeed, StoredRun
from gradwire.runs.works import judge_stored
from gradwire.scenario.loading import Point
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.schema import PointSection
from tests.shared.parts import in_order, tells
from tests.unit.runs.test_campaign import TEXT, good_job, machine, planned_runs, reported, run


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[PlannedRun]:
    """Two finished points, with batches of 64 and 128, in tmp_path/runs/mine."""
    machine(monkeypatch, good_job)
    folder = tmp_path / "runs" / "mine"
    points = planned_runs(folder)
    run(folder, points)
    (folder / "scenario.toml").write_text(TEXT)
    (folder / "clock.json").write_text('{"name": "virtual", "scale": 1}')
    return points


def verdicts(points: list[PlannedRun]) -> list[str]:
    out = points[0].folder.parent.parent
    return [judged.result.verdict for judged in reported(out, [planned.point for planned in points])]


def test_a_name_is_of_what_is_set_alone(tmp_path: Path) -> None:
    first, _ = planned_runs(tmp_path)
    assert first.folder.name == "64_alexnet_vanilla_2_10gbit_1-9dd4c810"
    said, _ = planned_runs(tmp_path, "run.seed=1", "fabric.mtu_bytes=1500", "cluster.colocated=true")
    assert said.folder.name == first.folder.name
    for setting in ("run.iterations=4", "fabric.mtu_bytes=9000", "transport.buffer=1MiB"):
        assert planned_runs(tmp_path, setting)[0].folder.name != first.folder.name


def test_a_new_key_with_a_default_renames_no_folder(tmp_path: Path) -> None:
    class Later(PointSection):
        """The schema of a later version."""

        answer: int = 42

    point = planned_runs(tmp_path)[0].point
    later = Later(**dict(point.section))
    assert later.model_dump_json() != point.section.model_dump_json()
    assert folder_name(replace(point, section=later)) == folder_name(point)
    other = Later(**dict(point.section), answer=43)
    assert folder_name(replace(point, section=other)) != folder_name(point)


def test_a_report_reads_what_other_code_and_another_kernel_ran(
    ran: list[PlannedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_resolved(_: object) -> NoReturn:
        raise AssertionError("a report compiles nothing")

    monkeypatch.setattr(planned, "run_digest", lambda: "another")
    monkeypatch.setattr(planned, "compile_resolved", compile_resolved)
    assert verdicts(ran) == ["valid", "valid"]


def test_a_run_insists_on_its_own_code(ran: list[PlannedRun], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "run_digest", lambda: "another")
    folder = ran[0].folder.parent.parent
    _, watcher = run(folder, planned_runs(folder))
    assert len(watcher.begun) == 2


def judged_with(code: str, *, valid: bool = True) -> Any:
    record = SimpleNamespace(agents=[AgentSummary((0,), 0, 0, 0, 0, 0, 0, code=code)])
    return SimpleNamespace(result=SimpleNamespace(valid=valid), stored=SimpleNamespace(record=lambda: record))


def test_a_report_says_where_the_kernel_did_not_serve_compiled_agents() -> None:
    served = [judged_with(COMPILED), judged_with(IN_PYTHON), judged_with(NOT_SERVED, valid=False)]
    assert reporting._agent_notes(served) == []
    (note,) = reporting._agent_notes([*served, judged_with(NOT_SERVED)])
    assert tells(note, "1 of 4 points", "python")


READING: dict[str, Callable[[StoredRun], object]] = {
    "task.json": StoredRun.task,
    "record.json": StoredRun.record,
    "ops.npz": StoredRun.log,
    "completed.json": StoredRun.completion,
    "plan-0.npz": StoredRun.plan,
}
"""What a run left and its end seals, and how it is read."""


@pytest.mark.parametrize("name", READING)
def test_what_a_run_left_is_refused_if_it_has_become_another(ran: list[PlannedRun], name: str) -> None:
    """Though it is as well formed as what was there: the other point's, or the same numbers in other words."""
    stored, other = (StoredRun(point.folder, point.point) for point in ran)
    READING[name](stored)
    path = stored.folder / name
    if path.suffix == ".json":
        path.write_text(f"{path.read_text()} ")
    else:
        with np.load(path) as arrays:
            kept = {name: arrays[name] for name in reversed(arrays.files)}
        np.savez(path, **kept)
    with pytest.raises(InputFault, match=rf"{name}.*content is not"):
        READING[name](StoredRun(stored.folder, stored.point))
    READING[name](other)


def test_each_file_is_read_and_hashed_once_however_often_its_parts_are_asked_for(
    ran: list[PlannedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def counted(path: Path) -> str:
        hashed.append(path.name)
        return hash_of(path)

    hash_of = run_files._hash_of
    monkeypatch.setattr(run_files, "_hash_of", counted)
    stored = StoredRun(ran[0].folder, ran[0].point)
    judge_stored(stored, ran[0].point)
    explain(stored)
    assert sorted(hashed) == ["completed.json", "ops.npz", "plan-0.npz", "record.json", "task.json"]
    assert stored.plan() is stored.plan()
    StoredRun(ran[1].folder, ran[1].point).plan()  # another run's large parts take the place of this one's
    stored.plan()
    assert hashed.count("plan-0.npz") == 3


def test_a_runs_speed_is_its_payload_by_the_time_of_the_replay_alone() -> None:
    speed = RunSpeed(first_byte_s=30.0, replay_s=4.0, payload_bytes=2_000, total_s=60.0)
    assert speed.payload_bytes_per_s == 500
    assert replace(speed, replay_s=0.5).payload_bytes_per_s == 4_000
    assert replace(speed, replay_s=0.0).payload_bytes_per_s == 0


def test_an_unfinished_point_keeps_its_reason(ran: list[PlannedRun], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise MachineFault("out of luck")

    machine(monkeypatch, fail)
    monkeypatch.setattr(planned, "run_digest", lambda: "another")
    folder = ran[0].folder.parent.parent
    run(folder, planned_runs(folder))
    assert verdicts(ran) == ["invalid: out of luck", "invalid: out of luck"]
    (ran[0].folder / "task.json").unlink()
    with pytest.raises(InputFault, match=in_order("task.json:", "read")):
        verdicts(ran)


def test_what_a_worker_computed_is_told_as_it_was_run(ran: list[PlannedRun], monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> Constant:
        (judged,) = reported(ran[0].folder.parent.parent, [ran[0].point])
        return computation(judged)

    section = ran[0].point.section
    job = ResolvedPoint(section).job
    assert (found().value, found().unit) == (round(job.compute.iteration_s, 4), "s")
    assert tells(found().name, "alexnet", "k40")
    assert tells(found().source, job.compute.source, job.compute.fitted_on)
    slower = replace(job.compute, forward_s=(1.0,), backward_s=(1.0,))
    monkeypatch.setattr(Point, "resolved", property(lambda _: SimpleNamespace(compute=slower)))
    assert found().value == pytest.approx(job.compute_s, abs=1e-4)
    assert "2.0000 s: " in found().source

    def unknown(*_: object) -> NoReturn:
        raise InputFault("unknown strategy")

    monkeypatch.setattr(Point, "resolved", property(unknown))
    assert "does not know" in found().source


def test_every_point_of_a_run_has_a_place(tmp_path: Path) -> None:
    points = [planned.point for planned in planned_runs(tmp_path)]
    held = runs_of(tmp_path, points)
    assert [one.folder.name for one in held] == [folder_name(point) for point in points]
    assert all(tells(one.absence, "not run", "`gradwire run`") for one in held)


def test_every_command_that_reads_a_run_finds_it_alike(call: Any, ran: list[PlannedRun], tmp_path: Path) -> None:
    for command in (["report"], ["why", "batch=64"], ["trace", "batch=64"], ["utilisation", "batch=64"]):
        status, _, err = call(command[0], "yours", *command[1:])
        assert status == 2
        assert tells(err, "yours:", "runs/", "mine")
    inner = tmp_path / "runs" / "all" / "runs" / "first"
    inner.mkdir(parents=True)
    (inner / "scenario.toml").write_text(TEXT)
    assert tells(call("report", "all")[2], "reproduction", "all/runs/first")
    assert "not run" in call("report", "all/runs/first")[2]
