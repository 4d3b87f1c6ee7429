"""Runs whose iterations were not steady, and that are repeated after a longer warm-up, without a machine."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.fluid.estimate import FluidTimes
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.condition_checks import steady_check
from gradwire.analysis.verdict.verdict import Verdict, verdict_of
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.inside.point_protocol import PointTask, read_json
from gradwire.network.fabric import Fabric
from gradwire.runs import judged as judged_module
from gradwire.runs.judged import JudgedRun
from gradwire.runs.longer_window import MOST_ITERATIONS, longer_window
from gradwire.runs.planned import PlannedRun
from gradwire.runs.reporting import write_report
from gradwire.scenario.loading import resolve
from tests.unit.runs.test_campaign import TEXT, Silent, good_job, machine, planned_runs, run

Times = Callable[[int], float]
SETTINGS = ("run.iterations=5", "model.batch=[64]")


def settling(iteration: int) -> float:
    """Seconds of an iteration of a run that needs about eight of them to settle."""
    return float(1 + 0.3 * 0.6**iteration)


def growing(iteration: int) -> float:
    """Seconds of an iteration of a run that never settles."""
    return 1 + 0.05 * iteration


def machine_that_takes(times: Times, monkeypatch: pytest.MonkeyPatch, *others: Check) -> None:
    """Replaces the machine, and judging by the check of the steady state and these other checks."""

    def job(folder: Path, on_line: Callable[[str], None]) -> int:
        status = good_job(folder, on_line)
        log = OpLog.load(folder / "ops.npz")
        begins_ns = np.cumsum([0, *(round(times(number) * 1e9) for number in range(int(log.iteration.max()) + 1))])
        start_ns, end_ns = begins_ns[log.iteration], begins_ns[log.iteration + 1]
        OpLog(log.iteration, log.op, start_ns, start_ns, end_ns).save(folder / "ops.npz")
        return status

    def judge(
        plan: Plan, _: Fabric, log: OpLog, record: PointRecord, captures: Any, ideal: FluidTimes, **_kinds: Any
    ) -> Verdict:
        times_s = iteration_times_s(plan, log, record.iterations)
        return verdict_of([steady_check(times_s, record.warmup, ideal), *others])

    machine(monkeypatch, job)
    monkeypatch.setattr(judged_module, "judge", judge)


def windows(watcher: Silent) -> list[MeasuredIterations]:
    return [planned.window for planned in watcher.begun]


def only(out: Path, points: list[PlannedRun]) -> tuple[JudgedRun, Silent]:
    ((judged,), watcher) = run(out, points)
    return judged, watcher


def test_a_run_that_was_not_steady_is_repeated_after_a_longer_warmup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_that_takes(settling, monkeypatch)
    judged, watcher = only(tmp_path, planned_runs(tmp_path, *SETTINGS))
    assert judged.result.valid
    first, second = windows(watcher)
    assert first == MeasuredIterations(1, 5)
    assert second.warmup == first.end, "what was measured is warm-up"
    assert judged.unsteady == (first,)
    assert judged.warmup == second.warmup
    task = read_json(judged.folder / "task.json", PointTask)
    assert (task.warmup, task.iterations) == (second.warmup, second.end)
    assert judged.result.iteration_time_s == pytest.approx(
        np.mean([settling(number) for number in range(second.warmup, second.end)])
    )


def test_it_is_not_run_again_when_the_command_is_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_that_takes(settling, monkeypatch)
    judged, _ = only(tmp_path, planned_runs(tmp_path, *SETTINGS))
    again, watcher = only(tmp_path, planned_runs(tmp_path, *SETTINGS))
    assert not watcher.begun
    assert again.reused
    assert again.unsteady == judged.unsteady
    assert again.result.iteration_time_s == judged.result.iteration_time_s


def test_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_that_takes(settling, monkeypatch)
    judged, _ = only(tmp_path, planned_runs(tmp_path, *SETTINGS))
    (tmp_path / "scenario.toml").write_text(TEXT)
    write_report(resolve(tomllib.loads(TEXT), "test.toml", "test"), [judged], tmp_path)
    said = (
        "was not steady in 5 iterations after a warm-up of 1; its result is that of 20 iterations after a warm-up of 6"
    )
    assert said in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_warmup_that_was_asked_for_is_the_least(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_that_takes(settling, monkeypatch)
    judged, watcher = only(tmp_path, planned_runs(tmp_path, *SETTINGS, "run.warmup=2"))
    first, second = windows(watcher)
    assert first == MeasuredIterations(2, 5)
    assert second.warmup == first.end
    assert judged.result.valid


@pytest.mark.parametrize("times", [settling, growing])
def test_a_cold_start_that_was_asked_for_stays(times: Times, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_that_takes(times, monkeypatch)
    _, watcher = only(tmp_path, planned_runs(tmp_path, *SETTINGS, "run.warmup=0"))
    assert windows(watcher) == [MeasuredIterations(0, 5)]


def test_what_never_settles_is_not_valid_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_that_takes(growing, monkeypatch)
    judged, watcher = only(tmp_path, planned_runs(tmp_path, *SETTINGS))
    assert not judged.result.valid
    tried = windows(watcher)
    assert 1 < len(tried) < 4
    assert judged.unsteady == tuple(tried[:-1])
    assert tried[-1].end <= MOST_ITERATIONS


def test_a_run_with_another_fault_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_that_takes(settling, monkeypatch, Check("drops", "3", "0", False, "packets went missing"))
    judged, watcher = only(tmp_path, planned_runs(tmp_path, *SETTINGS))
    assert len(watcher.begun) == 1
    assert not judged.unsteady


def test_logs_that_would_not_fit_are_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_that_takes(settling, monkeypatch)
    monkeypatch.setattr("gradwire.runs.plan_work.most_iterations", lambda *_: 8)
    judged, watcher = only(tmp_path, planned_runs(tmp_path, *SETTINGS))
    assert len(watcher.begun) == 1
    assert not judged.result.valid


def test_what_decides_how_much_longer_is_in_the_key_where_it_may_be_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys(*settings: str) -> list[str]:
        return [planned.key for planned in planned_runs(tmp_path, *SETTINGS, *settings)]

    before = keys(), keys("run.warmup=1"), keys("run.warmup=0")
    monkeypatch.setattr("gradwire.runs.planned.sources_digest", lambda _: "another")
    assert keys() != before[0]
    assert keys("run.warmup=1") != before[1]
    assert keys("run.warmup=0") == before[2]


def test_more_is_measured_where_iterations_vary_more() -> None:
    assert longer_window([9.0, 1.0, 1.0], 1) == (3, 4), "twice as many"
    assert longer_window([9.0, 1.0, 1.02], 1) == (3, 4)
    assert longer_window([9.0, 1.0, 1.1], 1) == (3, 8), "four times as many, and no more"
    assert longer_window([1.0] * 30, 20) == (30, 10), "as many as are left"
    assert longer_window([1.0] * 30, 19) is None, "fewer than before tell less than before"
    assert longer_window([1.0] * 5, 0, most=9) is None
