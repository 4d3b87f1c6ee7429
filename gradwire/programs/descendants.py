"""Ends everything that a program has started, whatever its parent is by now.

A process whose parent has ended is given to the nearest of its ancestors that asked for that (PR_SET_CHILD_SUBREAPER,
prctl(2)). So a process that asked has all descendants among its children sooner or later, and none of them can leave:
neither a session nor an environment of its own helps.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gradwire.faults import MachineFault

SET_CHILD_SUBREAPER, GET_CHILD_SUBREAPER = 36, 37
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def ending_descendants() -> Iterator[None]:
    """Ends the processes that were started in the block, with all their descendants, when the block ends. Processes
    that this one started before are left alone. Raises MachineFault if the kernel does not allow it."""
    before, was = _children(), ctypes.c_int()
    if _libc.prctl(GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0) or _libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise MachineFault(f"cannot keep hold of what a program starts: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        while left := _children() - before:
            before |= _end(left)
        _libc.prctl(SET_CHILD_SUBREAPER, was.value, 0, 0, 0)


def _end(children: set[int]) -> set[int]:
    """Ends children, and returns those that by now belong to another user (`sudo`) and cannot be ended. Their own
    children become children of this process once it has waited for them."""
    foreign = set()
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except PermissionError:
            foreign.add(pid)
        except ProcessLookupError:
            pass
    for pid in children - foreign:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return foreign


def _children() -> set[int]:
    """The children of this process, living or to be waited for."""
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return {pid for pid in numbers if _parent_of(pid) == os.getpid()}


def _parent_of(pid: int) -> int | None:
    try:
        _, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(parent)
