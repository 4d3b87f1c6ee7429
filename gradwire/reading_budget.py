"""Limits the processor time and the memory that reading a file may take.

Files come from others, and each reader has limits only for the attacks that its author thought of. These limits cover
the rest: whatever is in a file, reading it ends within the budget, or with one message that names the file and what was
exceeded. So that no reader is left out, `regular_files.opened` opens nothing outside of a budget.

How it is enforced
==================

In the main thread, a timer of the process's CPU time interrupts the reader every TICK_S, even inside regular
expressions in C. In other threads, and where other code uses that timer, a watching thread looks as often. If the
budget is spent, SpentError is raised in the reader. Memory is looked at in the same moments, and an allocation beyond
twice the budget fails at once (RLIMIT_DATA), for a single call may ask for all memory of the machine. A child process
would be surer, but costs a second to start, and as long again to send back what it has read of a trace.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

from gradwire.faults import Fault, InputFault

CPU_S = 5.0
"""For a file, beside what its size allows. Everything in scenarios/ takes 0.7 s at most with all files that it names, and
the most that they may say (scenario/limits.py) about 3 s."""
CPU_S_PER_MB = 0.5
"""Three times what a capture of the smallest packets takes. A profile of 300 MB takes 0.008 s per MB as text, and 0.35 s as
gzip, of which a megabyte is forty of its very even text."""
MEMORY_BYTES = 1 << 30
"""Beside what the size allows. A scenario with the largest network takes 0.2 GB."""
MEMORY_PER_BYTE = 12
"""Bytes of memory that each byte of a file may take. JSON that is decoded as a whole takes up to ten."""
HARD_SHARE = 2
"""An allocation fails beyond so many times the budget. Below it, code in C that ends the process when memory is
refused to it has room until the next tick."""
TICK_S = 0.02


class SpentError(BaseException):
    """A budget is spent. No handler of what a reader expects takes it; `reading_budget` makes it an InputFault."""


class _Budget:
    """The processor time and memory that the thread that reads a file may take for it."""

    def __init__(self, what: Path | str, size_bytes: int, above: _Budget | None) -> None:
        self.what = what
        self.above = above
        self.size_bytes = 0
        self.cpu_s = CPU_S
        self.memory_bytes = MEMORY_BYTES
        #: The reason why it is spent, once it is.
        self.reason = ""
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._began_s = time.clock_gettime(self._clock)
        self._began_bytes = _data_bytes()
        self.allow(size_bytes)

    def allow(self, size_bytes: int) -> None:
        """Adds the allowance for a file of this size, here and in the enclosing budgets."""
        self.size_bytes += size_bytes
        self.cpu_s += CPU_S_PER_MB * size_bytes / 1e6
        self.memory_bytes += MEMORY_PER_BYTE * size_bytes
        if self.above is not None:
            self.above.allow(size_bytes)

    def exclude(self, cpu_s: float, data_bytes: int) -> None:
        """Takes back what was used for something other than reading, here and in the enclosing budgets."""
        self._began_s += cpu_s
        self._began_bytes += data_bytes
        if self.above is not None:
            self.above.exclude(cpu_s, data_bytes)

    @property
    def most_data_bytes(self) -> int:
        """Size of the process's data, in bytes, beyond which allocations fail."""
        most = self._began_bytes + HARD_SHARE * self.memory_bytes
        return most if self.above is None else min(most, self.above.most_data_bytes)

    def used(self) -> tuple[float, int]:
        """CPU seconds and bytes of memory that were used so far."""
        return time.clock_gettime(self._clock) - self._began_s, _data_bytes() - self._began_bytes

    def is_spent(self) -> bool:
        """Returns whether this budget, or one around it, is spent, and notes the reason in each that is."""
        above = self.above
        is_above = above is not None and above.is_spent()
        used_s, used_bytes = self.used()
        if used_s > self.cpu_s:
            self.reason = f"{self.cpu_s:.3g} s of the processor's time"
        elif used_bytes > self.memory_bytes:
            self.reason = f"{self.memory_bytes / 1e9:.3g} GB of memory"
        elif above is not None and is_above and (used_s > above.cpu_s / 2 or used_bytes > above.memory_bytes / 2):
            self.reason = above.reason  # most of it went into this file
        if self.reason:
            _spent[self._thread] = self
        return bool(self.reason) or is_above

    def fault(self) -> InputFault:
        """Fault that tells the user which limit was exceeded."""
        reason = self.reason or f"{HARD_SHARE * self.memory_bytes / 1e9:.3g} GB of memory"
        of = "" if isinstance(self.what, str) else f" for {self.size_bytes:,} bytes"
        return InputFault(
            f"{self.what}: to read it and what it names takes more than {reason}, the limit{of}; let it say less, or divide it"
        )


_local = threading.local()
_limited: dict[int, _Budget] = {}
"""The innermost budgets of all threads, by which the process's memory is limited."""
_spent: dict[int, _Budget] = {}
"""Innermost of the budgets that were found spent last, by thread."""
_unlimited: list[tuple[int, int]] = []
"""The limit of memory as it was before; empty while no budget is there."""
_lock = threading.Lock()


def is_budgeted() -> bool:
    """Returns whether this thread reads within a budget."""
    return _innermost() is not None


@contextmanager
def reading_budget(what: Path | str, size_bytes: int | None = None) -> Iterator[None]:
    """Limits what the block takes, in which a file is read and what it says is made into what the program works with.

    what: the file, or the key of a scenario where its files were read before. size_bytes: by which the budget grows; by
    default, the file's size. A budget within another adds what its size allows to it, so that a scenario with a large
    trace may take what the trace may.

    Raises InputFault, naming the file, if the block takes more. Whatever it changed is then changed by half: it should
    only make things.
    """
    above = _innermost()
    if size_bytes is None:
        size_bytes = _size_of(what) if isinstance(what, Path) else 0
    budget = _Budget(what, size_bytes, above)
    _local.budget = budget
    stop = None
    try:
        _limit_memory(budget)
        if above is None:
            stop = _watched()
        yield
    except SpentError:
        _local.budget = above
        if budget.reason or above is None:  # it may have come when one within was left
            raise (budget if budget.reason else _spent[threading.get_ident()]).fault() from None
        raise
    except MemoryError:
        _local.budget = above
        raise budget.fault() from None
    except Exception as error:
        _local.budget = above
        if isinstance(error, Fault) or not budget.reason:
            raise
        raise budget.fault() from error  # a library has made an error of its own of SpentError, as pydantic's writing does
    finally:
        _local.budget = above
        if stop is not None:
            stop()
        _limit_memory(above)


@contextmanager
def not_reading() -> Iterator[None]:
    """Leaves what the block takes out of all budgets: a user's code runs in it, or a module is imported."""
    budget = _innermost()
    if budget is None:
        yield
        return
    before = budget.used()
    _local.budget = None
    _limit_memory(None)
    try:
        yield
    finally:
        after = budget.used()
        budget.exclude(after[0] - before[0], after[1] - before[1])
        _local.budget = budget
        _limit_memory(budget)


def _innermost() -> _Budget | None:
    return getattr(_local, "budget", None)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # which its reader reports
        return 0


def _data_bytes() -> int:
    """Size of the process's writable memory, in bytes."""
    file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(file, 200).split()[5]) * resource.getpagesize()
    finally:
        os.close(file)


def _limit_memory(budget: _Budget | None) -> None:
    """Limits the process's memory by this budget of the thread and those of other threads; None: by those alone."""
    thread = threading.get_ident()
    with _lock:
        if budget is None:
            _limited.pop(thread, None)
        else:
            _limited[thread] = budget
        if not _unlimited:
            _unlimited.append(resource.getrlimit(resource.RLIMIT_DATA))
        soft, hard = _unlimited[0]
        wanted = soft
        if _limited:
            wanted = max(each.most_data_bytes for each in _limited.values())
            wanted = min([wanted, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)])
        else:
            _unlimited.clear()
        with suppress(ValueError):  # below what is in use
            resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _watched() -> Callable[[], object]:
    """Has this thread's budgets looked at, until what is returned is called."""
    in_main = threading.current_thread() is threading.main_thread()
    is_free = in_main and signal.getsignal(signal.SIGPROF) in (signal.SIG_DFL, _tick)
    if not is_free or any(signal.getitimer(signal.ITIMER_PROF)):
        return _watcher()
    signal.signal(signal.SIGPROF, _tick)
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
    # The handler stays: a tick that is under way would end the process without it.
    return partial(signal.setitimer, signal.ITIMER_PROF, 0)


def _tick(_number: int, frame: FrameType | None) -> None:
    budget = _innermost()
    if budget is not None and budget.is_spent() and (frame is None or frame.f_code is not LEAVING):
        raise SpentError


LEAVING = type(reading_budget("")).__exit__.__code__
"""What leaves a block, before `reading_budget` goes on: an exception there would pass it by, and the block is over anyway."""


def _watcher() -> Callable[[], None]:
    """Starts a thread that interrupts this one when its innermost budget, in `_limited`, is spent. Returns a function
    that stops it."""
    import ctypes  # noqa: PLC0415 (milliseconds, which commands do not need)

    reader = ctypes.c_ulong(threading.get_ident())
    ended = threading.Event()
    raises = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch() -> None:
        while not ended.wait(TICK_S):
            budget = _limited.get(reader.value)
            if budget is not None and budget.is_spent():
                raises(reader, ctypes.py_object(SpentError))

    thread = threading.Thread(target=watch, daemon=True, name="reading budget")
    thread.start()

    def stop() -> None:
        ended.set()
        thread.join()
        raises(reader, None)  # one that has not arrived

    return stop
