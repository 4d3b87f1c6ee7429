"""The outer half of the run loop: runs planned points side by side, one machine per core, and judges each.

A run folder holds scenario.toml (resolved), points.csv, the report, and per point a folder with its plans, logs, record and
verdict. A valid run that is there already with the same key is not repeated.
"""

from __future__ import annotations

import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.frames.points import write_points_csv
from gradwire.faults import Fault, InternalFault, MachineFault
from gradwire.runner.code_digest import RUN_MODULES
from gradwire.runner.judged import JudgedRun, judge_failure, judge_kept, write_judgement
from gradwire.runner.planned import PlannedRun, rename_older_folder
from gradwire.runner.programs.beside import write_programs
from gradwire.runner.protocol import (
    TASK_FILE,
    Event,
    Faulted,
    FirstByte,
    PlanFile,
    PointRecorded,
    PointTask,
    ReplayEnded,
    ReplayStarted,
    heard,
    write_json,
)
from gradwire.runner.stored.stored_run import Completion, Speed, write_completion
from gradwire.vm.machines import Clock, run_job
from gradwire.workloads.faults.planned import planned_faults
from gradwire.workloads.scenario.schema import TransportSection

Trial = Callable[[int], object]
"""Tries the machine before the first point, given the memory in MiB that points ask for; raises what would hit all of them."""


def no_trial(_: int) -> None:
    """For machines that need none."""


class Watcher(Protocol):
    """Hears how the points are getting on; called from several threads."""

    def started(self, planned: PlannedRun) -> None:
        """A machine boots for the point."""

    def heard(self, planned: PlannedRun, event: Event) -> None:
        """The point's machine reported an event."""

    def ended(self, judged: JudgedRun) -> None:
        """The point is done, one way or the other."""


class Slots:
    """Does tasks side by side, `jobs` at a time, each with a CPU for its machine alone."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._cpus: queue.Queue[int] = queue.Queue()
        cpus = sorted(os.sched_getaffinity(0))
        for slot in range(jobs):
            # The highest first: a lone point leaves CPU 0, which serves most interrupts, to the rest of the machine.
            self._cpus.put(cpus[-1 - slot % len(cpus)])

    def run(self, tasks: Sequence[Callable[[int, threading.Event], None]]) -> None:
        """Calls the tasks in order, each with its CPU and the event that tells it to stop.

        What one of them raises, Ctrl-C included, stops all others and is raised here.
        """
        stop = threading.Event()
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = [pool.submit(self._do, task, stop) for task in tasks]
            try:
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _do(self, task: Callable[[int, threading.Event], None], stop: threading.Event) -> None:
        cpu = self._cpus.get()
        try:
            task(cpu, stop)
        finally:
            self._cpus.put(cpu)


SMALLEST_BUFFER_BYTES = 32_768
"""Of a socket's buffer on the wall clock, some twenty frames. Buffers that were not divided held whole messages, so that parameter servers
of VGG-19 at a scale of 1,100 took 1.31 to 1.34 of their time; with 32 KB 1.15, and with 8 KB links did not reach their rate."""
OUTPUT_FILE = "log.txt"
"""What the machine printed, line by line, with the wall time of each."""


class Campaign:
    """Runs planned points, `jobs` at a time."""

    def __init__(
        self,
        planned: Sequence[PlannedRun],
        out: Path,
        jobs: int,
        watcher: Watcher,
        trial: Trial = no_trial,
    ) -> None:
        self._planned = planned
        self._trial = trial
        self._out = out
        self._watcher = watcher
        self._slots = Slots(jobs)
        self._done: dict[str, JudgedRun] = {}
        self._lock = threading.Lock()

    def run(self) -> list[JudgedRun]:
        """Runs what is not there yet, in `running_order`; returns all runs in the scenario's order.

        On Ctrl-C every machine is ended, what is complete is kept, and KeyboardInterrupt is raised. What the trial of the machine
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
            self._trial(max(planned.point.section.run.memory_mb for planned in waiting))
        self._slots.run([partial(self._run_one, planned) for planned in running_order(waiting)])
        return [self._done[planned.folder.name] for planned in self._planned]

    def _run_one(self, planned: PlannedRun, cpu: int, stop: threading.Event) -> None:
        judged = carry_out(planned, cpu, self._watcher, stop)
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


def carry_out(planned: PlannedRun, cpu: int, watcher: Watcher, stop: threading.Event) -> JudgedRun:
    """Runs a point on a machine of its own, and judges it; what goes wrong is the run's verdict. The caller reports that it ended."""
    watcher.started(planned)
    folder = planned.folder
    folder.mkdir(parents=True, exist_ok=True)
    _empty(folder)
    listener = _Listener(planned, watcher)
    try:
        judged = _run_and_judge(planned, cpu, listener, stop)
        write_judgement(judged)
    except (Fault, OSError) as fault:
        judged = judge_failure(planned, str(fault), listener.elapsed_s())
        write_judgement(judged)
    finally:
        listener.close()
    return judged


def _empty(folder: Path) -> None:
    """Removes all that another run of the point has left. A machine that finds files where it makes its own takes other virtual times."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _run_and_judge(planned: PlannedRun, cpu: int, listener: _Listener, stop: threading.Event) -> JudgedRun:
    _write_task(planned)
    status = _run_machine(planned, cpu, listener, stop)
    if status:
        raise MachineFault(
            listener.fault or f"the point ended with status {status}; see {planned.folder / OUTPUT_FILE}"
        )
    division = planned.division
    completion = Completion(planned.key, listener.chosen, listener.speed(), division.number, division.error)
    write_completion(planned.folder, completion)
    judged = judge_kept(planned.stored, planned.point, planned.key)
    if judged is None:
        raise InternalFault(f"{planned.folder}: the result of a run that just ended is not there")
    return judged


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
        sockets=_sockets(section.transport, planned.clock),
        per_host=section.transport.agents == "per-host",
        clock=planned.clock.name,
        switch_prefix="",
        capture=tuple(section.run.capture),
        capture_snaplen=section.run.capture_snaplen,
        programs=bool(section.program),
        faults=planned_faults(section.fault, planned.fabric),
        stall_limit_ns=round(section.run.stall_limit * 1e9) if section.fault else 0,
    )
    write_json(planned.folder / TASK_FILE, task)
    if section.program:
        write_programs(planned.folder, section.program, planned.fabric)


def _sockets(transport: TransportSection, clock: Clock) -> SocketOptions:
    """Sizes of sockets. On the wall clock they are divided like all bytes, as far as sockets can be that small."""
    if clock.name == "virtual":
        return SocketOptions(transport.buffer, transport.unsent_bytes)
    unsent_bytes = transport.unsent_bytes
    return SocketOptions(
        max(SMALLEST_BUFFER_BYTES, transport.buffer // clock.scale),
        None if unsent_bytes is None else max(1, unsent_bytes // clock.scale),
    )


def _run_machine(planned: PlannedRun, cpu: int, listener: _Listener, stop: threading.Event) -> int:
    run = planned.point.section.run
    return run_job(
        "gradwire.runner.point",
        planned.folder,
        planned.clock,
        imports=RUN_MODULES,
        cpu=cpu,
        memory_mb=run.memory_mb,
        time_limit_s=run.time_limit,
        on_line=listener.line,
        stop=stop,
    )


class _Listener:
    """Reads what a point's machine prints, notes the wall time of its stages, and keeps every line in log.txt."""

    def __init__(self, planned: PlannedRun, watcher: Watcher) -> None:
        self._planned, self._watcher = planned, watcher
        self._log = (planned.folder / OUTPUT_FILE).open("w")
        self._start_s = time.monotonic()
        self._first_at_s: dict[type[Event], float] = {}
        self.chosen = ""
        self.fault = ""

    def elapsed_s(self) -> float:
        """Wall time since the point's start."""
        return time.monotonic() - self._start_s

    def line(self, line: str) -> None:
        """Takes a line of the machine's output."""
        self._log.write(f"{self.elapsed_s():9.3f} {line}\n")
        self._log.flush()
        event = heard(line)
        if event is None:
            return
        self._first_at_s.setdefault(type(event), self.elapsed_s())
        match event:
            case PointRecorded(plan=label):
                self.chosen = label
            case Faulted(kind=kind, message=message):
                self.fault = f"{kind}: {message}"
        self._watcher.heard(self._planned, event)

    def speed(self) -> Speed:
        """How fast the run was, once it is done."""
        plan = self._planned.plans[self.chosen]
        payload_bytes = int(plan.ops.size_bytes[plan.is_remote()].sum()) * self._planned.iterations
        replay_s = self._first_at_s[ReplayEnded] - self._first_at_s[ReplayStarted]
        return Speed(self._first_at_s[FirstByte], replay_s, payload_bytes, self.elapsed_s())

    def close(self) -> None:
        """Ends the log."""
        self._log.close()
