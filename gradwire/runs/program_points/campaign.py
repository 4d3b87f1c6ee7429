"""Runs points of programs side by side, a machine for each, and judges them. A valid run with the same key is not repeated."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from gradwire.analysis.programs.results import ProgramResult
from gradwire.faults import Fault, UnfitMachine
from gradwire.files import refuse_full_disk, replacing, unfit_for_writing
from gradwire.programs.execution import Request, execute
from gradwire.runs.executing.executor import Cpus, do_all
from gradwire.runs.executing.local import Trial, no_trial
from gradwire.runs.program_points.judged import (
    is_complete,
    judge_failure,
    judge_programs,
    write_completion,
)
from gradwire.runs.program_points.planned import PlannedPrograms
from gradwire.runs.protocol import write_json
from gradwire.runs.stored.links import make_empty
from gradwire.runs.stored.stored_run import VERDICT_FILE
from gradwire.vm.causes import unless_stopped
from gradwire.vm.session import LimitNames

LOG = logging.getLogger(__name__)
OnEnded = Callable[[PlannedPrograms, ProgramResult, bool], None]
"""Hears of each point as it ends, and whether it was there already."""
RUN_KEYS = LimitNames("run.virtual_limit", "run.time_limit", "run.stall_limit", "run.memory_mb")
"""What gives a point more."""


def run_programs(
    planned: Sequence[PlannedPrograms], jobs: int, on_ended: OnEnded, trial: Trial = no_trial
) -> list[ProgramResult]:
    """Runs what is not there yet, `jobs` at a time; returns all results in the scenario's order.

    On Ctrl-C every machine is ended, what is complete is kept, and KeyboardInterrupt is raised.
    """
    done: dict[str, ProgramResult] = {}
    lock = threading.Lock()

    def finish(point: PlannedPrograms, result: ProgramResult, reused: bool) -> None:
        with lock:
            done[point.folder.name] = result
            on_ended(point, result, reused)

    waiting = []
    for point in planned:
        kept = judge_programs(point.point, point.folder) if is_complete(point.folder, point.key) else None
        if kept is not None and kept.valid:
            finish(point, kept, True)
        else:
            waiting.append(point)
    if waiting:
        trial(max(point.point.section.run.memory_mb for point in waiting))
    cpus = Cpus(jobs)
    do_all([partial(_run_one, point, finish, cpus) for point in waiting], jobs)
    return [done[point.folder.name] for point in planned]


def _run_one(
    point: PlannedPrograms,
    finish: Callable[[PlannedPrograms, ProgramResult, bool], None],
    cpus: Cpus,
    stop: threading.Event,
) -> None:
    with cpus.taken() as cpu:
        result = carry_out(point, cpu, stop)
    if not stop.is_set():
        finish(point, result, False)


def carry_out(point: PlannedPrograms, cpu: int, stop: threading.Event) -> ProgramResult:
    """Runs a point on a machine of its own, and judges it; what goes wrong is its verdict.

    Raises UnfitMachine for what would go wrong with every point, such as a full disk.
    """
    try:
        return _carry_out(point, cpu, stop)
    except BrokenPipeError:  # who read the command's output is gone
        raise
    except OSError as error:
        raise unfit_for_writing(error, point.folder) from error


def _carry_out(point: PlannedPrograms, cpu: int, stop: threading.Event) -> ProgramResult:
    section, folder = point.point.section, point.folder
    make_empty(folder)
    fabric = point.point.fabric
    begin_s = time.monotonic()
    request = Request(
        fabric=fabric,
        programs=point.started,
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
    try:
        _execute(point, request)
        write_completion(folder, point.key)
        result = judge_programs(point.point, folder)
        with replacing(folder / VERDICT_FILE) as partial_file:
            write_json(partial_file, result.verdict, indent=1)
    except UnfitMachine:
        raise
    except Fault as fault:
        refuse_full_disk(folder, str(fault))
        result = judge_failure(point.point, folder, str(fault), time.monotonic() - begin_s)
    return result


def _execute(point: PlannedPrograms, request: Request) -> None:
    """Runs the programs, and once more from the start if a signal has stopped the machine, as for points of plans."""
    _, stopped = unless_stopped(
        partial(execute, request), partial(make_empty, point.folder), lambda: not request.stop.is_set()
    )
    if stopped:
        LOG.warning("%s: was stopped by a signal, and ran anew from the start", point.folder.name)
