"""A timer with nanosecond resolution for an epoll loop; Python's epoll timeout rounds up to a millisecond."""

from __future__ import annotations

import ctypes
import os

CLOCK_MONOTONIC = 1
TFD_NONBLOCK = 0o4000
TFD_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_int64), ("tv_nsec", ctypes.c_int64))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class Timer:
    """A timerfd on CLOCK_MONOTONIC that is set to absolute times."""

    def __init__(self) -> None:
        self.descriptor: int = _libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _TimerSpec()
        self._set_ns: int | None = None

    def set(self, at_ns: int | None) -> None:
        """Makes the descriptor readable at `at_ns` of the monotonic clock, or never; saves the system call if it is
        set so already."""
        if at_ns == self._set_ns:
            return
        self._set_ns = at_ns
        value = self._spec.it_value
        value.tv_sec, value.tv_nsec = divmod(at_ns or 0, 1_000_000_000)
        if _libc.timerfd_settime(self.descriptor, TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        """Closes the descriptor."""
        os.close(self.descriptor)
