"""The store of runs: each under the key of its content, so that nothing runs twice, whichever scenario, user or
reproduction asks.

A key names the plan, the fabric, the code that carries plans out, and the kernel (runs/planned.py). To compile
hundreds of plans only to learn their keys takes minutes, so the store also remembers which key a point had, by all
code that decides it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from gradwire.faults import MachineFault
from gradwire.files import replace_text
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun, plan_run, source_key
from gradwire.runs.stored.run_files import reading
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.runs.works import judge_kept
from gradwire.scenario.loading import Point
from gradwire.vm.machines import Clock

LOCK_POLL_S = 0.5


class PointStore:
    """Folders of runs by key, below `root`."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self._root, self._clock = root, clock

    def folder(self, key: str) -> Path:
        """Where the run with this key is kept."""
        return self._root / key

    def plan_run(self, point: Point) -> PlannedRun:
        """Compiles a point, in its folder of the store, and remembers its key. Raises Fault."""
        planned = plan_run(point, self._clock, self.folder)
        note = self._key_note(point)
        note.parent.mkdir(parents=True, exist_ok=True)
        replace_text(note, planned.key)
        return planned

    def judge_point(self, point: Point) -> JudgedRun | None:
        """The point's run, judged anew; None if its key is not remembered or it did not come to its end.

        Raises InputFault for a note or a run that cannot be read.
        """
        note = self._key_note(point)
        if not note.exists():
            return None
        with reading(note, remedy="remove the file, and the next `gradwire reproduce` writes it anew"):
            key = read_text(note, MESSAGE_BYTES, encoding="ascii")
        return self.judge_key(key, point)

    def judge_key(self, key: str, point: Point) -> JudgedRun | None:
        """The run with this key, judged anew; None if it did not come to its end."""
        return judge_kept(StoredRun(self.folder(key), point), point, key)

    @contextmanager
    def locked(self, key: str, stop: threading.Event) -> Iterator[None]:
        """Keeps every other thread and process from running this key. Raises MachineFault where `stop` is set while it
        waits."""
        self._root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._root / f"{key}.lock", fallback_to_soft=False)
        try:
            lock.acquire(poll_interval=LOCK_POLL_S, cancel_check=stop.is_set)
        except Timeout as stopped:
            raise MachineFault("stopped while waiting for another run of the same point") from stopped
        try:
            yield
        finally:
            lock.release()

    def _key_note(self, point: Point) -> Path:
        return self._root / "keys" / source_key(point, self._clock)
