"""Measures points that the store of runs lacks, each once, whichever scenarios or processes want it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from gradwire.runs.campaign import carry_out
from gradwire.runs.executing.executor import Executor, do_all
from gradwire.runs.judged import JudgedRun, write_judgement
from gradwire.runs.screen import Watcher
from gradwire.scenario.loading import Point
from gradwire.vm.machines import Clock
from reproduction.point_store import PointStore


class Progress(Watcher, Protocol):
    """A watcher that also hears of points that need no run."""

    def already(self, points: int) -> None:
        """Reports that so many points have run before."""


class StoredPoints:
    """Points in the store of runs below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stores: dict[int, PointStore] = {}
        #: Folders of the points that ran now.
        self.ran: set[Path] = set()

    def measure(
        self, tasks: Mapping[str, tuple[Point, Clock]], executor: Executor, watcher: Progress
    ) -> dict[str, JudgedRun]:
        """Runs what the store lacks, after a trial of the machines, and returns the run of every task by its name.

        On Ctrl-C, what is complete is kept and KeyboardInterrupt is raised.
        """
        done: dict[str, JudgedRun] = {}
        waiting = []
        memory_mb = 0
        for name, (point, clock) in tasks.items():
            kept = self._store(clock).judge_point(point)
            if kept is not None:
                write_judgement(kept)
            if kept is not None and kept.result.valid:
                done[name] = kept
            else:
                waiting.append(partial(self._measure, name, point, clock, executor, watcher, done))
                memory_mb = max(memory_mb, point.section.run.memory_mb)
        watcher.already(len(done))
        if waiting:
            executor.try_machines(memory_mb)
        do_all(waiting, executor.jobs)
        return done

    def _store(self, clock: Clock) -> PointStore:
        return self._stores.setdefault(clock.scale, PointStore(self._root, clock))

    def _measure(
        self,
        name: str,
        point: Point,
        clock: Clock,
        executor: Executor,
        watcher: Progress,
        done: dict[str, JudgedRun],
        stop: threading.Event,
    ) -> None:
        if stop.is_set():
            return
        store = self._store(clock)
        planned = store.plan_run(point)
        with store.locked(planned.key, stop):
            kept = store.judge_key(planned.key, point)
            if kept is not None and kept.result.valid:
                done[name] = kept
                watcher.already(1)
                return
            judged = carry_out(planned, executor, watcher, stop)
            if stop.is_set():
                return
            self.ran.add(planned.folder)
            done[name] = judged
            watcher.ended(judged)
