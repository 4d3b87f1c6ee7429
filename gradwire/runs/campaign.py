"""The outer half of the run loop: runs planned points side by side, one machine per core, and judges each.

A run folder holds scenario.toml (resolved), points.csv, the report, and per point a folder with its plans, logs, record and
verdict. A valid run that is there already with the same key is not repeated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.frames.points import write_points_csv
from gradwire.datatypes.fabric import Fabric
from gradwire.faults import Fault, InternalFault, MachineFault, UnfitMachine
from gradwire.files import refuse_full_disk, unfit_for_writing
from gradwire.programs.beside import write_programs
from gradwire.runs.executing.executor import Executor, MachineWatcher, do_all
from gradwire.runs.executing.machine import OUTPUT_FILE, Ended
from gradwire.runs.judged import JudgedRun, judge_failure, judge_kept, write_judgement
from gradwire.runs.planned import PlannedRun, rename_older_folder
from gradwire.runs.protocol import TASK_FILE, PlanFile, PointTask, write_json
from gradwire.runs.stored.links import make_empty
from gradwire.runs.stored.stored_run import Completion, Speed, write_completion
from gradwire.runs.warmup.lengthening import lengthened
from gradwire.vm.machine import COMPILED_AGENT
from gradwire.vm.machines import Clock
from gradwire.workloads.fabrics.windows import buffer_bytes, path_bytes
from gradwire.workloads.faults.planned import planned_faults
from gradwire.workloads.scenario.schema import PointSection


class Watcher(MachineWatcher, Protocol):
    """Hears how the points are getting on; called from several threads."""

    def ended(self, judged: JudgedRun) -> None:
        """The point is done, one way or the other."""


SMALLEST_BUFFER_BYTES = 32_768
"""Of a socket's buffer on the wall clock, some twenty frames. Buffers that were not divided held whole messages, so that parameter servers
of VGG-19 at a scale of 1,100 took 1.31 to 1.34 of their time; with 32 KB 1.15, and with 8 KB links did not reach their rate."""


class Campaign:
    """Runs planned points where `executor` has machines for them."""

    def __init__(self, planned: Sequence[PlannedRun], out: Path, executor: Executor, watcher: Watcher) -> None:
        self._planned = planned
        self._executor = executor
        self._out = out
        self._watcher = watcher
        self._done: dict[str, JudgedRun] = {}
        self._lock = threading.Lock()

    def run(self) -> list[JudgedRun]:
        """Runs what is not there yet, in `running_order`; returns all runs in the scenario's order.

        On Ctrl-C every machine is ended, what is complete is kept, and KeyboardInterrupt is raised. What the trial of machines
        raises comes before any point has started.
        """
        self._out.mkdir(parents=True, exist_ok=True)
        waiting = []
        for planned in self._planned:
            rename_older_folder(planned, self._out)
            kept = judge_kept(planned.stored, planned.point, planned.key)
            if kept is not None:
                write_judgement(kept)
            if kept is not None and kept.result.valid:
                self._finish(planned, replace(kept, reused=True))
            else:
                waiting.append(planned)
        if waiting:
            self._executor.try_machines(max(planned.point.section.run.memory_mb for planned in waiting))
        do_all([partial(self._run_one, planned) for planned in running_order(waiting)], self._executor.jobs)
        return [self._done[planned.folder.name] for planned in self._planned]

    def _run_one(self, planned: PlannedRun, stop: threading.Event) -> None:
        judged = carry_out(planned, self._executor, self._watcher, stop)
        if not stop.is_set():
            self._finish(planned, judged)

    def _finish(self, planned: PlannedRun, judged: JudgedRun) -> None:
        with self._lock:
            self._done[planned.folder.name] = judged
            names = [each.folder.name for each in self._planned]
            rows = [self._done[name].result for name in names if name in self._done]
            write_points_csv(self._out / "points.csv", rows)
        self._watcher.ended(judged)


def running_order(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The shortest run first, whose result soon shows that all is well, and then the longest, so that all cores are busy to the end."""
    ordered = sorted(runs, key=lambda planned: -planned.cost_bytes)
    return ordered[-1:] + ordered[:-1]


def carry_out(planned: PlannedRun, executor: Executor, watcher: Watcher, stop: threading.Event) -> JudgedRun:
    """Runs a point on a machine of its own, and judges it; what goes wrong is the run's verdict. The caller reports that it ended.

    Raises UnfitMachine for what would go wrong with every point, such as a full disk.
    """
    try:
        return _carry_out(planned, executor, watcher, stop)
    except BrokenPipeError:  # who read the command's output is gone
        raise
    except OSError as error:
        raise unfit_for_writing(error, planned.folder) from error


def _carry_out(planned: PlannedRun, executor: Executor, watcher: Watcher, stop: threading.Event) -> JudgedRun:
    begin_s = time.monotonic()
    make_empty(planned.folder)  # a machine that finds files where it makes its own takes other virtual times
    try:
        judged = _run_until_steady(planned, executor, watcher, stop)
    except UnfitMachine:
        raise
    except Fault as fault:
        refuse_full_disk(planned.folder)
        plan, elapsed_s = next(iter(planned.plans.values())), time.monotonic() - begin_s
        judged = judge_failure(planned.stored, planned.point, plan, planned.fabric, str(fault), elapsed_s)
    write_judgement(judged)
    return judged


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
