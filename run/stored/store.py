"""The store of points: each under the key of its content, so that nothing runs twice, whichever scenario, user or reproduction asks.

A key names the plan, the fabric, the code that carries plans out, and the kernel (run/outcome.py). To compile hundreds of plans only to
learn their keys takes minutes, so the store also remembers which key a point had, by all code that decides it.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gradwire.agents.records import OpLog, PointRecord
from gradwire.analysis.points import PointResult
from gradwire.faults import MachineFault
from gradwire.run.outcome import Prepared, completed, judged, prepare_point, source_key
from gradwire.run.stored.files import load_plan, load_task
from gradwire.topo.fabric import Fabric
from gradwire.vm.machines import Clock
from gradwire.workloads.plan import Plan
from gradwire.workloads.scenario.loading import Point

LOCK_POLL_S = 0.5


@dataclass(frozen=True)
class KeptPoint:
    """A point that ran to its end. path: of the plan that was replayed."""

    result: PointResult
    fabric: Fabric
    folder: Path
    path: Path

    def plan(self) -> Plan:
        """Reads the plan."""
        return Plan.load(self.path)

    def log(self) -> OpLog:
        """Reads the op log."""
        return OpLog.load(self.folder / "ops.npz")

    def record(self) -> PointRecord:
        """Reads the record of the run."""
        return PointRecord.load(self.folder / "record.json")


class PointStore:
    """Folders of points by key, below `root`."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root, self._clock = root, clock

    def folder(self, key: str) -> Path:
        """Where the point with this key is kept."""
        return self._root / key

    def prepare(self, point: Point) -> Prepared:
        """Compiles a point, in its folder of the store, and remembers its key. Raises Fault."""
        prepared = prepare_point(point, self._clock, self.folder)
        note = self._note(point)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(prepared.key)
        return prepared

    def kept(self, point: Point) -> KeptPoint | None:
        """The point's run, judged anew; None if its key is not remembered or it did not come to its end."""
        note = self._note(point)
        return self.kept_as(note.read_text(), point) if note.exists() else None

    def kept_as(self, key: str, point: Point) -> KeptPoint | None:
        """The run of the point with this key."""
        folder = self.folder(key)
        found = completed(folder, key)
        if found is None:
            return None
        label, speed = found
        task = load_task(folder)
        plan = load_plan(folder, task, label)
        result, _ = judged(folder, plan, task.fabric, speed, point.parameters)
        path = folder / dict(task.plans)[label]
        return KeptPoint(result, task.fabric, folder, path)

    @contextmanager
    def locked(self, key: str, stop: threading.Event) -> Iterator[None]:
        """Keeps everyone else from running this key. Raises MachineFault where `stop` is set while it waits."""
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / f"{key}.lock").open("w") as file:
            take = partial(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            while not _taken(take):
                if stop.is_set():
                    raise MachineFault("stopped while waiting for another run of the same point")
                time.sleep(LOCK_POLL_S)
            yield

    def _note(self, point: Point) -> Path:
        return self._root / "keys" / source_key(point, self._clock)


def _taken(take: partial[None]) -> bool:
    try:
        take()
    except BlockingIOError:
        return False
    return True
