"""The virtual time that computation takes: a factor that users name, of the CPU time that this machine counts."""

from __future__ import annotations

import os
import time

from gradwire.datatypes.machine_size import LEAST_CPU_TIME, MOST_CPU_TIME
from gradwire.faults import InputFault, MachineFault

CPU_CLOCK_OF_ALL_THREADS = 2
"""CPUCLOCK_SCHED (linux/posix-timers.h)."""


def charged_cpu_time(factor: float, name: str = "--cpu-time") -> float:
    """The factor that was asked for by an option of this name.

    Raises InputFault for one that cannot be, MachineFault where the clock that the kernel reads cannot be read.
    """
    if factor and not LEAST_CPU_TIME <= factor <= MOST_CPU_TIME:
        raise InputFault(
            f"{name} {factor:g}: must be 0, where computation takes no time, or {LEAST_CPU_TIME:g} to {MOST_CPU_TIME:g}"
        )
    if factor:
        try:
            time.clock_gettime(~os.getpid() << 3 | CPU_CLOCK_OF_ALL_THREADS)
        except OSError as error:
            raise MachineFault(
                f"{name}: this machine does not count the CPU time of a process: {error.strerror}"
            ) from error
    return factor
