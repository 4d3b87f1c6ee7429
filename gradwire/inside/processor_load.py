"""How busy this machine's processor was with a run, and how long the run had to wait for it. Used on the wall clock
only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

NS_PER_S = 1e9
INTERRUPT_FIELDS = (5, 6, 7)
"""Of a CPU's line in /proc/stat (proc_stat(5)): interrupts, soft interrupts, and what a hypervisor gave to others."""


@dataclass(frozen=True)
class ProcessorLoad:
    """The load that a run put on the processor between two readings."""

    #: Share of the time that the busiest of its threads computed, or that one core served interrupts or was taken
    #: away, if that is more.
    busiest: float
    #: Time that its threads could have computed and waited for a core, all of them together, as a share of the time.
    waited: float
    #: Seconds of one core that its threads computed.
    computed_s: float


@dataclass(frozen=True)
class ProcessorReading:
    """The kernel's counters so far, for all processes that /proc shows: in a run's own process namespace, those of
    the run."""

    at_s: float
    #: Nanoseconds that each thread has computed and has waited for a core, by its number.
    threads: dict[int, tuple[int, int]]
    #: Clock ticks that each core spent on interrupts, or that were taken from it.
    interrupts: tuple[int, ...]

    @classmethod
    def now(cls) -> ProcessorReading:
        """Reads /proc. Raises FileNotFoundError if the kernel does not keep these counts."""
        Path("/proc/self/schedstat").stat()
        return cls(time.monotonic(), dict(_threads()), _interrupts(Path("/proc/stat").read_text()))

    def since(self, earlier: ProcessorReading) -> ProcessorLoad:
        """The load between two readings. Threads that have ended between them are left out."""
        passed_s = max(self.at_s - earlier.at_s, 1e-9)
        counts = [
            (computed - before[0], waited - before[1])
            for number, (computed, waited) in self.threads.items()
            for before in [earlier.threads.get(number, (0, 0))]
        ]
        ticks = os.sysconf("SC_CLK_TCK")
        interrupted = [(now - then) / ticks for now, then in zip(self.interrupts, earlier.interrupts, strict=True)]
        computed_s = [computed / NS_PER_S for computed, _ in counts]
        return ProcessorLoad(
            max([*computed_s, *interrupted], default=0.0) / passed_s,
            sum(waited for _, waited in counts) / NS_PER_S / passed_s,
            sum(computed_s),
        )


def _threads() -> Iterable[tuple[int, tuple[int, int]]]:
    """The counts of every thread: on a core, and runnable without one (Documentation/scheduler/sched-stats.rst)."""
    for file in Path("/proc").glob("[0-9]*/task/[0-9]*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            computed, waited, _ = file.read_text().split()
            yield int(file.parent.name), (int(computed), int(waited))


def _interrupts(stat: str) -> tuple[int, ...]:
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu") and not line.startswith("cpu ")]
    return tuple(sum(int(words[1 + field]) for field in INTERRUPT_FIELDS) for words in lines)
