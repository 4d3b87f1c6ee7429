"""Points whose work is programs, for the outer half of the run loop: a machine for each, and how it is judged."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gradwire.analysis.program_results import ProgramResult
from gradwire.files import refuse_full_disk, replacing
from gradwire.programs.execution import SUMMARY_FILE, Request, execute
from gradwire.runs.executing.local import LocalPool
from gradwire.runs.program_points.judged import JudgedPrograms, judge_failure, judge_programs
from gradwire.runs.program_points.planned import PlannedPrograms
from gradwire.runs.protocol import write_json
from gradwire.runs.run_loop import RunLoop, StartWatcher, judged_or_failed
from gradwire.runs.stored.links import make_empty
from gradwire.runs.stored.stored_run import VERDICT_FILE, Completion, StoredRun, write_completion
from gradwire.vm.causes import unless_stopped
from gradwire.vm.session import LimitNames

LOG = logging.getLogger(__name__)
RUN_KEYS = LimitNames("run.virtual_limit", "run.time_limit", "run.stall_limit", "run.memory_mb")
"""What gives a point more."""


class ProgramCampaign(RunLoop[PlannedPrograms, JudgedPrograms]):
    """Runs planned points of programs on this machine, whose files they are."""

    def __init__(
        self,
        planned: Sequence[PlannedPrograms],
        out: Path,
        pool: LocalPool,
        watcher: StartWatcher[PlannedPrograms, JudgedPrograms],
    ) -> None:
        super().__init__(planned, out, pool, watcher)
        self._pool = pool
        self._watcher = watcher

    def _kept(self, planned: PlannedPrograms) -> JudgedPrograms | None:
        if not StoredRun(planned.folder).is_of(planned.key):
            return None
        return _judged(planned, judge_programs(planned.point, planned.folder), reused=True)

    def _carried_out(self, planned: PlannedPrograms, stop: threading.Event) -> JudgedPrograms:
        begin_s = time.monotonic()

        def failed(reason: str) -> JudgedPrograms:
            refuse_full_disk(planned.folder, reason)
            elapsed_s = time.monotonic() - begin_s
            return _judged(planned, judge_failure(planned.point, planned.folder, reason, elapsed_s))

        with self._pool.cpus.taken() as cpu:
            self._watcher.started(planned)
            return judged_or_failed(planned.folder, lambda: _judged(planned, run_programs(planned, cpu, stop)), failed)


def _judged(planned: PlannedPrograms, result: ProgramResult, *, reused: bool = False) -> JudgedPrograms:
    return JudgedPrograms(planned.folder, planned.label, result, reused)


def run_programs(planned: PlannedPrograms, cpu: int, stop: threading.Event) -> ProgramResult:
    """Runs a point's programs on a machine of their own, in the point's folder, which is empty, and judges what became of them.

    Raises Fault for what goes wrong.
    """
    section, folder, fabric = planned.point.section, planned.folder, planned.point.fabric
    request = Request(
        fabric=fabric,
        programs=planned.started,
        memory_mb=section.run.memory_mb,
        time_limit_s=section.run.virtual_limit,
        wall_limit_s=section.run.time_limit,
        stall_limit_s=section.run.stall_limit,
        capture=[port.interface for port in fabric.ports_named(section.run.capture)],
        folder=folder,
        covered=folder.parent,  # with other points, which run at the same time
        cpu=cpu,
        stop=stop,
        limit_names=RUN_KEYS,
    )
    _execute(planned, request)
    write_completion(folder, Completion(planned.key), (SUMMARY_FILE,))
    result = judge_programs(planned.point, folder)
    with replacing(folder / VERDICT_FILE) as partial_file:
        write_json(partial_file, result.verdict, indent=1)
    return result


def _execute(planned: PlannedPrograms, request: Request) -> None:
    """Runs the programs, and once more from the start if a signal has stopped the machine, as for points of plans."""
    _, stopped = unless_stopped(
        partial(execute, request), partial(make_empty, planned.folder), lambda: not request.stop.is_set()
    )
    if stopped:
        LOG.warning("%s: was stopped by a signal, and ran anew from the start", planned.folder.name)
