"""Reads the queues of all switches' ports at equal intervals while a plan is replayed, in a separate thread.

On the virtual clock time stands still while the thread works, so what it costs is wall time alone: a fifth of a
millisecond a reading.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from gradwire.agents.timer import Timer
from gradwire.datatypes.records import QueueLengths
from gradwire.faults import MachineFault
from gradwire.topo.counters import QueueReader

END_S = 60.0
"""How long the thread may take to end, on a busy machine; it looks for its end at every reading."""


class Sampler(threading.Thread):
    """The thread that reads.

    interfaces: those of switches, with the fabric's name of each. period_ns: from one reading to the next.
    """

    def __init__(self, interfaces: Mapping[str, str], period_ns: int) -> None:
        super().__init__(name="queues", daemon=True)
        self._names = tuple(interfaces.values())
        self._period_ns = period_ns
        self._reader = QueueReader(list(interfaces))
        self._ending = threading.Event()
        self._times_ns: list[int] = []
        self._rows: list[list[int]] = []
        self._marks: list[list[int]] = []
        self._fault: MachineFault | None = None

    def run(self) -> None:
        """Reads until it is asked to end."""
        timer = Timer()
        poll = select.poll()
        poll.register(timer.descriptor, select.POLLIN)
        try:
            next_ns = time.monotonic_ns()
            while not self._ending.is_set():
                timer.set(next_ns)
                poll.poll()
                self._times_ns.append(time.monotonic_ns())
                waiting, marks = self._reader.read()
                self._rows.append(waiting)
                self._marks.append(marks)
                # A reading that came late, as on a busy machine, moves those after it.
                next_ns = max(next_ns, self._times_ns[-1] - self._period_ns) + self._period_ns
        except MachineFault as fault:
            self._fault = fault
        finally:
            timer.close()
            self._reader.close()

    def end(self) -> None:
        """Ends the thread. Raises the MachineFault that it met, if it met one."""
        self._ending.set()
        self.join(END_S)
        if self.is_alive():
            raise MachineFault(f"the readings of queues did not end within {END_S:.0f} s")
        if self._fault is not None:
            raise self._fault

    def lengths(self, start_ns: int) -> QueueLengths:
        """Returns the lengths that were read, with times since `start_ns` of the monotonic clock."""
        times_ns = np.array(self._times_ns, dtype=np.int64) - start_ns
        waiting, marks = (
            np.array(rows, dtype=np.int64).reshape(-1, len(self._names)) for rows in (self._rows, self._marks)
        )
        return QueueLengths(self._names, times_ns, waiting, marks)


@contextmanager
def sampling(interfaces: Mapping[str, str], period_ns: int) -> Iterator[Sampler | None]:
    """Samples meanwhile; nothing, and None, for a period of 0."""
    if not period_ns:
        yield None
        return
    sampler = Sampler(interfaces, period_ns)
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.end()
