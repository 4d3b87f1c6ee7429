"""Points whose work is a plan, for the outer half of the run loop: one machine for each, and how it is judged.

A run folder holds scenario.toml (resolved), points.csv, the report, and per point a folder with its plans, logs, record and
verdict. A valid run that is there already with the same key is not repeated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.frames.points import write_points_csv
from gradwire.datatypes.fabric import Fabric
from gradwire.faults import InternalFault, MachineFault
from gradwire.files import refuse_full_disk
from gradwire.programs.beside import write_programs
from gradwire.runs.executing.executor import Executor, MachineWatcher
from gradwire.runs.executing.machine import OUTPUT_FILE, Ended
from gradwire.runs.judged import JudgedRun, judge_failure, judge_kept, write_judgement
from gradwire.runs.planned import PlannedRun, rename_older_folder
from gradwire.runs.protocol import TASK_FILE, PlanFile, PointTask, write_json
from gradwire.runs.run_loop import EndWatcher, RunLoop, judged_or_failed
from gradwire.runs.stored.links import make_empty
from gradwire.runs.stored.stored_run import Completion, Speed, write_completion
from gradwire.runs.warmup.lengthening import lengthened
from gradwire.scenario.resolution.planned_faults import planned_faults
from gradwire.scenario.resolution.transport_fit import buffer_bytes, path_bytes
from gradwire.scenario.schema import PointSection
from gradwire.vm.machine import COMPILED_AGENT
from gradwire.vm.machines import Clock


class Watcher(MachineWatcher, EndWatcher[JudgedRun], Protocol):
    """Hears how the points are getting on; called from several threads."""


SMALLEST_BUFFER_BYTES = 32_768
"""Of a socket's buffer on the wall clock, some twenty frames. Buffers that were not divided held whole messages, so that parameter servers
of VGG-19 at a scale of 1,100 took 1.31 to 1.34 of their time; with 32 KB 1.15, and with 8 KB links did not reach their rate."""


class Campaign(RunLoop[PlannedRun, JudgedRun]):
    """Runs planned points where `executor` has machines for them."""

    def __init__(self, planned: Sequence[PlannedRun], out: Path, executor: Executor, watcher: Watcher) -> None:
        super().__init__(planned, out, executor, watcher)
        self._executor = executor
        self._watcher = watcher

    def _kept(self, planned: PlannedRun) -> JudgedRun | None:
        rename_older_folder(planned, self._out)
        kept = judge_kept(planned.stored, planned.point, planned.key)
        if kept is None:
            return None
        write_judgement(kept)
        return replace(kept, reused=True)

    def _carried_out(self, planned: PlannedRun, stop: threading.Event) -> JudgedRun:
        return carry_out(planned, self._executor, self._watcher, stop)

    def _note(self, judged: Sequence[JudgedRun]) -> None:
        write_points_csv(self._out / "points.csv", [run.result for run in judged])


def carry_out(planned: PlannedRun, executor: Executor, watcher: Watcher, stop: threading.Event) -> JudgedRun:
    """Runs a point on a machine of its own, and judges it; what goes wrong is the run's verdict. The caller reports that it ended.

    Raises UnfitMachine for what would go wrong with every point, such as a full disk.
    """
    begin_s = time.monotonic()

    def work() -> JudgedRun:
        judged = _run_until_steady(planned, executor, watcher, stop)
        write_judgement(judged)
        return judged

    def failed(reason: str) -> JudgedRun:
        plan, elapsed_s = next(iter(planned.plans.values())), time.monotonic() - begin_s
        judged = judge_failure(planned.stored, planned.point, plan, planned.fabric, reason, elapsed_s)
        write_judgement(judged)
        return judged

    return judged_or_failed(planned.folder, work, failed)


def _run_until_steady(planned: PlannedRun, executor: Executor, watcher: Watcher, stop: threading.Event) -> JudgedRun:
    """Runs a point, and again with a longer warm-up as long as it was not steady and can be longer.

    A command that ends between two tries leaves a run that is not valid, and the next one begins with the first try.
    """
    unsteady: list[tuple[int, int]] = []
    while True:
        judged = _run_and_judge(planned, executor, watcher, stop, unsteady)
        longer = lengthened(planned, judged)
        if longer is None or stop.is_set():
            return judged
        unsteady.append((planned.window.warmup, planned.window.iterations))
        planned = longer
        make_empty(planned.folder)


def _run_and_judge(
    planned: PlannedRun,
    executor: Executor,
    watcher: Watcher,
    stop: threading.Event,
    unsteady: Sequence[tuple[int, int]],
) -> JudgedRun:
    _write_task(planned)
    ended = executor.replay(planned, watcher, stop)
    if ended.status:
        if not ended.worker:  # a worker has told of its own disk
            refuse_full_disk(planned.folder, ended.fault)
        raise MachineFault(
            ended.fault or f"the point ended with status {ended.status}; see {planned.folder / OUTPUT_FILE}"
        )
    division = planned.division
    speed = _speed(planned, ended)
    write_completion(
        planned.folder,
        Completion(
            planned.key,
            ended.chosen,
            speed,
            division.number,
            division.error,
            ended.worker,
            ended.stopped,
            tuple(unsteady),
        ),
    )
    judged = judge_kept(planned.stored, planned.point, planned.key)
    if judged is None:
        raise InternalFault(f"{planned.folder}: the result of a run that just ended is not there")
    return judged


def _speed(planned: PlannedRun, ended: Ended) -> Speed:
    plan = planned.plans[ended.chosen]
    payload_bytes = int(plan.ops.size_bytes[plan.is_remote()].sum()) * planned.iterations
    return Speed(ended.first_byte_s, ended.replay_s, payload_bytes, ended.total_s)


def _write_task(planned: PlannedRun) -> None:
    section = planned.point.section
    files = []
    for number, (label, plan) in enumerate(planned.plans.items()):
        files.append(PlanFile(label, f"plan-{number}.npz"))
        plan.save(planned.folder / files[-1].file)
    task = PointTask(
        fabric_json=planned.fabric.to_json(),
        plans=tuple(files),
        iterations=planned.iterations,
        warmup=planned.window.warmup,
        search_iterations=section.run.search_iterations,
        sockets=sockets_of(section, planned.fabric, planned.clock, planned.unsent_bytes),
        per_host=section.transport.agents == "per-host",
        clock=planned.clock.name,
        switch_prefix="",
        capture=tuple(section.run.capture),
        capture_snaplen=section.run.capture_snaplen,
        programs=bool(section.program),
        faults=planned_faults(section.fault, planned.fabric),
        stall_limit_ns=round(section.run.stall_limit * 1e9) if section.fault else 0,
        queue_period_ns=round((section.run.queue_sample or 0.0) * 1e9),
        compiled_agent=_compiled_agent(section, planned.clock),
    )
    write_json(planned.folder / TASK_FILE, task)
    if section.program:
        write_programs(planned.folder, section.program, planned.fabric)


def _compiled_agent(section: PointSection, clock: Clock) -> str:
    """Where the machine has the compiled agent; "" on the wall clock, whose kernel does not serve it."""
    return COMPILED_AGENT if clock.name == "virtual" and section.transport.agent_code == "compiled" else ""


def sockets_of(section: PointSection, fabric: Fabric, clock: Clock, unsent_bytes: int | None) -> SocketOptions:
    """Sizes of sockets. On the wall clock they are divided like all bytes, as far as sockets can be that small."""
    bytes_each = buffer_bytes(section, fabric)
    if clock.name == "virtual":
        return SocketOptions(bytes_each, unsent_bytes, section.congestion, path_bytes(section, fabric))
    return SocketOptions(
        max(SMALLEST_BUFFER_BYTES, bytes_each // clock.scale),
        None if unsent_bytes is None else max(1, unsent_bytes // clock.scale),
        section.congestion,
    )
