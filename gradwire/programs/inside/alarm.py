"""A descriptor that becomes readable at a time of the virtual clock, to the nanosecond: epoll's own timeout counts whole
milliseconds."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from gradwire.faults import MachineFault

CLOCK_MONOTONIC, TFD_NONBLOCK, TFD_TIMER_ABSTIME = 1, 0o4000, 1
"""linux/time.h, linux/timerfd.h."""
S_NS = 1_000_000_000
COUNT_BYTES = 8
_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """A timer of timerfd_create(2), which Python has from 3.13 on. Raises MachineFault."""

    def __init__(self) -> None:
        self._fd = _checked(_libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK))

    def fileno(self) -> int:
        """For a selector: readable when the time has come."""
        return self._fd

    def set(self, at_ns: int) -> None:
        """Sets the time, as of time.monotonic_ns(), in the place of the one before. One that is over comes at once."""
        at_ns = max(at_ns, 1)  # 0 would be no time at all
        value = _Itimerspec(_Timespec(0, 0), _Timespec(at_ns // S_NS, at_ns % S_NS))
        _checked(_libc.timerfd_settime(self._fd, TFD_TIMER_ABSTIME, ctypes.byref(value), None))

    def quiet(self) -> None:
        """Makes it not readable until the time that is set next."""
        with suppress(BlockingIOError):
            os.read(self._fd, COUNT_BYTES)


def _checked(status: int) -> int:
    if status < 0:
        raise MachineFault(f"cannot set a timer: {os.strerror(ctypes.get_errno())}")
    return status
