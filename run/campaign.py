"""The outer half of the run loop: compiles a scenario's points, runs them side by side, one machine a core, and judges each.

A run folder holds scenario.toml (resolved), points.csv, the report, and a folder a point with its plans, logs, record and
verdict. A valid point that is there already with the same content is not run again.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gradwire.agents.connections import SocketOptions
from gradwire.analysis.points import write_points_csv
from gradwire.faults import Fault, InternalFault, MachineFault
from gradwire.run.outcome import Outcome, Prepared, Speed, adopt, failed_outcome, keep, kept_outcome
from gradwire.run.point import Task
from gradwire.vm.machines import run_job

Trial = Callable[[int], object]
"""Tries the machine before the first point, given the memory in MiB that points ask for; raises what would hit all of them."""


def no_trial(_: int) -> None:
    """For machines that need none."""


class Watcher(Protocol):
    """Hears how the points are getting on; called from several threads."""

    def started(self, prepared: Prepared) -> None:
        """A machine boots for the point."""

    def heard(self, prepared: Prepared, event: Mapping[str, Any]) -> None:
        """The point said something (stage, iteration, search, ...)."""

    def ended(self, outcome: Outcome) -> None:
        """The point is done, one way or the other."""


class Slots:
    """Does tasks side by side, `jobs` at a time, each with a CPU of its own for its machine."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._cpus: queue.Queue[int] = queue.Queue()
        cpus = sorted(os.sched_getaffinity(0))
        for slot in range(jobs):
            # The highest first: a lone point leaves CPU 0, which serves most interrupts, to the rest of the machine.
            self._cpus.put(cpus[-1 - slot % len(cpus)])

    def run(self, tasks: Sequence[Callable[[int, threading.Event], None]]) -> None:
        """Calls every task with its CPU and the event that tells it to stop, in their order.

        What one raises, Ctrl-C included, stops all others and goes on to the caller.
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


class Campaign:
    """Runs prepared points, `jobs` at a time."""

    def __init__(
        self,
        prepared: Sequence[Prepared],
        out: Path,
        jobs: int,
        watcher: Watcher,
        trial: Trial = no_trial,
    ) -> None:
        self._prepared = prepared
        self._trial = trial
        self._out = out
        self._watcher = watcher
        self._slots = Slots(jobs)
        self._done: dict[str, Outcome] = {}
        self._lock = threading.Lock()

    def run(self) -> list[Outcome]:
        """Runs what is not there yet, the longest first; returns all outcomes in the scenario's order.

        On Ctrl-C every machine is ended, what is complete is kept, and KeyboardInterrupt goes on to the caller. So does what the
        trial of the machine raises, before any point has started.
        """
        self._out.mkdir(parents=True, exist_ok=True)
        waiting = []
        for prepared in self._prepared:
            adopt(prepared, self._out)
            stored = kept_outcome(prepared)
            if stored and stored.result.valid:
                self._finish(replace(stored, reused=True))
            else:
                waiting.append(prepared)
        if waiting:
            self._trial(max(prepared.point.section.run.memory_mb for prepared in waiting))
        waiting.sort(key=lambda p: -p.cost_bytes)
        self._slots.run([partial(self._run_one, prepared) for prepared in waiting])
        return [self._done[prepared.folder.name] for prepared in self._prepared]

    def _run_one(self, prepared: Prepared, cpu: int, stop: threading.Event) -> None:
        outcome = carry_out(prepared, cpu, self._watcher, stop)
        if not stop.is_set():
            self._finish(outcome)

    def _finish(self, outcome: Outcome) -> None:
        with self._lock:
            self._done[outcome.prepared.folder.name] = outcome
            names = [p.folder.name for p in self._prepared]
            rows = [self._done[name].result for name in names if name in self._done]
            write_points_csv(self._out / "points.csv", rows)
        self._watcher.ended(outcome)


def carry_out(prepared: Prepared, cpu: int, watcher: Watcher, stop: threading.Event) -> Outcome:
    """Runs a point on a machine of its own and judges it; what goes wrong is in its outcome. `ended` is for the caller to say."""
    watcher.started(prepared)
    folder = prepared.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("completed.json", "record.json", "ops.npz", "verdict.json", "iterations.csv"):
        (folder / name).unlink(missing_ok=True)
    listener = _Listener(prepared, watcher)
    try:
        _write_task(prepared)
        status = _run_machine(prepared, cpu, listener, stop)
        if status:
            raise MachineFault(listener.fault or f"the point ended with status {status}; see {folder / 'log.txt'}")
        keep(prepared, listener.chosen, listener.speed())
        outcome = kept_outcome(prepared)
        if outcome is None:
            raise InternalFault(f"{folder}: the result of a run that just ended is not there")
    except (Fault, OSError) as fault:
        outcome = failed_outcome(prepared, str(fault), listener.elapsed_s())
    finally:
        listener.close()
    return outcome


def _write_task(prepared: Prepared) -> None:
    section = prepared.point.section
    paths = []
    for number, (label, plan) in enumerate(prepared.plans.items()):
        plan.save(prepared.folder / f"plan-{number}.npz")
        paths.append((label, f"plan-{number}.npz"))
    Task(
        fabric=prepared.fabric,
        plans=tuple(paths),
        iterations=prepared.iterations,
        warmup=section.run.warmup,
        search_iterations=section.run.search_iterations,
        sockets=SocketOptions(section.transport.buffer, section.transport.unsent),
        per_host=section.transport.agents == "per-host",
        clock=prepared.clock.name,
        switch_prefix="" if prepared.clock.name == "virtual" else f"g{os.getpid() % 10000}",
        capture=section.run.capture,
        capture_snaplen=section.run.capture_snaplen,
    ).save(prepared.folder)


def _run_machine(prepared: Prepared, cpu: int, listener: _Listener, stop: threading.Event) -> int:
    run = prepared.point.section.run
    return run_job(
        "gradwire.run.point",
        prepared.folder,
        prepared.clock,
        cpu=cpu,
        memory_mb=run.memory_mb,
        time_limit_s=run.time_limit,
        on_line=listener.line,
        stop=stop,
    )


class _Listener:
    """Reads what a point says, with the wall time of its stages, and keeps everything in log.txt."""

    def __init__(self, prepared: Prepared, watcher: Watcher) -> None:
        self._prepared, self._watcher = prepared, watcher
        self._log = (prepared.folder / "log.txt").open("w")
        self._start = time.monotonic()
        self.at_s: dict[str, float] = {}
        self.chosen = ""
        self.fault = ""

    def elapsed_s(self) -> float:
        """Wall time since the point's start."""
        return time.monotonic() - self._start

    def line(self, line: str) -> None:
        """One line of the point's output; what is no event is only logged."""
        self._log.write(f"{self.elapsed_s():9.3f} {line}\n")
        self._log.flush()
        if not line.startswith('{"event"'):
            return
        try:
            event = json.loads(line)
        except json.JSONDecodeError:  # the machine ended in the middle of a line
            return
        self.at_s.setdefault(event["event"], self.elapsed_s())
        if event["event"] == "done":
            self.chosen = event["plan"]
        elif event["event"] == "fault":
            self.fault = f"{event['kind']}: {event['message']}"
        self._watcher.heard(self._prepared, event)

    def speed(self) -> Speed:
        """How fast the run was, once it is done."""
        plan = self._prepared.plans[self.chosen]
        payload = int(plan.ops.size_bytes[plan.is_remote()].sum()) * self._prepared.iterations
        replay_s = self.at_s["replayed"] - self.at_s["replay"]
        return Speed(self.at_s["first_byte"], replay_s, payload, self.elapsed_s())

    def close(self) -> None:
        """Ends the log."""
        self._log.close()
