"""The outer half of the run loop, whatever points do: runs side by side what is not there yet, and keeps what is.

What points are, plans (runs/campaign.py) or programs (runs/program_points/campaign.py), is said by the campaign that derives from RunLoop.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from gradwire.faults import Fault, UnfitMachine
from gradwire.files import refuse_full_disk, unfit_for_writing
from gradwire.runs.executing.executor import Machines, do_all
from gradwire.runs.stored.links import make_empty


class Planned(Protocol):
    """A point made ready to run."""

    @property
    def folder(self) -> Path:
        """Where its run lies."""

    @property
    def memory_mb(self) -> int:
        """What its machine may use."""

    @property
    def cost_bytes(self) -> int:
        """What its wall time is about proportional to; 0 where it is not known."""


class Judged(Protocol):
    """What a point's run is worth."""

    @property
    def folder(self) -> Path:
        """Where the run lies."""

    @property
    def valid(self) -> bool:
        """Whether its numbers are results."""


P = TypeVar("P", bound=Planned)
J = TypeVar("J", bound=Judged)
J_contra = TypeVar("J_contra", bound=Judged, contravariant=True)


class EndWatcher(Protocol[J_contra]):
    """Hears of points that are done; called from several threads."""

    def ended(self, judged: J_contra) -> None:
        """The point is done, one way or the other."""


P_contra = TypeVar("P_contra", bound=Planned, contravariant=True)


class StartWatcher(EndWatcher[J_contra], Protocol[P_contra, J_contra]):
    """Hears of points that begin, too."""

    def started(self, planned: P_contra) -> None:
        """A machine boots for the point."""


class RunLoop(ABC, Generic[P, J]):
    """Runs planned points where `machines` has some for them. A valid run that is there already with the same key is not repeated."""

    def __init__(self, planned: Sequence[P], out: Path, machines: Machines, watcher: EndWatcher[J]) -> None:
        self._planned = planned
        self._out = out
        self._machines = machines
        self._told = watcher
        self._done: dict[str, J] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def _kept(self, planned: P) -> J | None:
        """The run that is there with the point's key, judged anew; None if none came to its end."""

    @abstractmethod
    def _carried_out(self, planned: P, stop: threading.Event) -> J:
        """Runs and judges a point; what goes wrong with it alone is its verdict."""

    def _note(self, judged: Sequence[J]) -> None:
        """Writes down how the points are that are done so far, in the scenario's order."""

    def run(self) -> list[J]:
        """Runs what is not there yet, in `running_order`; returns all runs in the scenario's order.

        On Ctrl-C every machine is ended, what is complete is kept, and KeyboardInterrupt is raised. What the trial of machines
        raises comes before any point has started.
        """
        self._out.mkdir(parents=True, exist_ok=True)
        waiting = []
        for planned in self._planned:
            kept = self._kept(planned)
            if kept is not None and kept.valid:
                self._finish(planned, kept)
            else:
                waiting.append(planned)
        if waiting:
            self._machines.try_machines(max(planned.memory_mb for planned in waiting))
        do_all([partial(self._run_one, planned) for planned in running_order(waiting)], self._machines.jobs)
        return [self._done[planned.folder.name] for planned in self._planned]

    def _run_one(self, planned: P, stop: threading.Event) -> None:
        judged = self._carried_out(planned, stop)
        if not stop.is_set():
            self._finish(planned, judged)

    def _finish(self, planned: P, judged: J) -> None:
        with self._lock:
            self._done[planned.folder.name] = judged
            names = [each.folder.name for each in self._planned]
            self._note([self._done[name] for name in names if name in self._done])
        self._told.ended(judged)


def running_order(runs: Sequence[P]) -> list[P]:
    """The shortest run first, whose result soon shows that all is well, and then the longest, so that all cores are busy to the end.

    Runs of which that is not known keep their order.
    """
    if not any(planned.cost_bytes for planned in runs):
        return list(runs)
    ordered = sorted(runs, key=lambda planned: -planned.cost_bytes)
    return ordered[-1:] + ordered[:-1]


def judged_or_failed(folder: Path, work: Callable[[], J], failed: Callable[[str], J]) -> J:
    """Does a point's work in its folder, which is emptied before. A Fault is the run's verdict: `failed` judges it by what it says.

    Raises UnfitMachine for what would go wrong with every point, such as a full disk.
    """
    try:
        make_empty(folder)  # a machine that finds files where it makes its own takes other virtual times
        try:
            return work()
        except UnfitMachine:
            raise
        except Fault as fault:
            refuse_full_disk(folder)
            return failed(str(fault))
    except BrokenPipeError:  # who read the command's output is gone
        raise
    except OSError as error:
        raise unfit_for_writing(error, folder) from error
