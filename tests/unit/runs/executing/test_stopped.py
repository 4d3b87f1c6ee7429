"""A point whose machine a signal stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradwire.runs.reporting import stop_notes
from gradwire.vm.kernel_death import MOST_BOOTS, STOPPED, DeathCause, KernelFault
from tests.shared.parts import tells
from tests.unit.runs.test_campaign import Job, good_job, machine, planned_runs, run


def stopped_at_first(times: int) -> Job:
    """Each point's machine is stopped by a signal so often, and leaves files behind; then it runs to its end."""
    boots: dict[str, int] = {}

    def job(folder: Path, on_line: Callable[[str], None]) -> int:
        assert sorted(path.name for path in folder.iterdir()) == ["log.txt", "plan-0.npz", "task.json"]
        boots[folder.name] = boots.get(folder.name, 0) + 1
        if boots[folder.name] > times:
            return good_job(folder, on_line)
        (folder / "capture").mkdir()
        (folder / "capture" / "h1.pcapng").write_text("begun")
        (folder / "ops.npz").write_text("begun")
        raise KernelFault("it was ended", DeathCause(STOPPED, "a signal stopped it", "again"))

    return job


def test_a_point_that_a_signal_stopped_runs_anew_from_what_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, stopped_at_first(MOST_BOOTS - 1))
    runs, watcher = run(tmp_path, planned_runs(tmp_path))
    assert [each.result.valid for each in runs] == [True, True]
    assert len(watcher.judged) == 2
    completions = [each.stored.completion() for each in runs]
    assert [completion and completion.stopped for completion in completions] == [MOST_BOOTS - 1] * 2
    (note,) = stop_notes(runs)
    assert tells(note, "signal", "2 points:", "batch 64 alexnet")


def test_a_point_that_is_stopped_each_time_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, stopped_at_first(MOST_BOOTS))
    runs, _ = run(tmp_path, planned_runs(tmp_path))
    assert [each.result.valid for each in runs] == [False, False]
    assert "signal" in runs[0].result.verdict
    assert stop_notes(runs) == []
