"""Watches a virtual-time kernel from outside: how far its clock has come, and which process has the CPU. It notices
nothing of that.

The kernel's program file says where both are in its memory (vm/patches/6.12/watching.patch), which the process that
started it may read.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gradwire.vm.streaming import TimeLimit

MARK = b"seen from outside".ljust(24, b"\0")
WORD = struct.Struct("<Q")
NAME_BYTES, HOSTNAME_BYTES = 16, 65
"""TASK_COMM_LEN and __NEW_UTS_LEN + 1."""


class Places(NamedTuple):
    """Addresses in the kernel's memory, then offsets in bytes; in the patch's order."""

    time: int
    #: Address of the pointer to the running task.
    task: int
    #: In a task.
    pid: int
    name: int
    system_call: int
    namespaces: int
    #: In a task's namespaces.
    uts: int
    #: In a UTS namespace.
    hostname: int


@dataclass(frozen=True)
class Activity:
    """The process that has the kernel's CPU."""

    pid: int
    name: str
    #: The hostname that it sees.
    host: str
    #: Number of its last system call; None if it has been stopped for something else since.
    system_call: int | None

    def __str__(self) -> str:
        """Returns the activity in words."""
        call = "" if self.system_call is None else f", last system call number {self.system_call}"
        return f"{self.name} on {self.host} (process {self.pid}{call})"


def places_of(kernel: Path) -> Places | None:
    """Returns the addresses that a kernel's file gives for its watchers; None if it was built without the patch, as
    versions other than 6.12 are."""
    words = kernel.read_bytes()
    at = words.find(MARK)
    return None if at < 0 else Places(*struct.unpack_from(f"<{len(Places._fields)}Q", words, at + len(MARK)))


def unwatched(kernel: Path) -> str:
    """Returns the warning for a kernel that cannot be watched, which names the consequences; "" for one that can."""
    if places_of(kernel) is not None:
        return ""
    return (
        f"{kernel.name} was built from another source than Linux 6.12: a program that stops the virtual clock is not "
        "found before the limit of wall time, programs that poll may delay each other, and what lines carry is not counted"
    )


class Watched:
    """The kernel that runs as process `pid`.

    Its methods raise OSError before it runs and after it has ended, PermissionError if the machine does not allow to
    read its memory.
    """

    def __init__(self, pid: int, places: Places) -> None:
        self._memory, self._places = Path(f"/proc/{pid}/mem"), places

    def virtual_ns(self) -> int:
        """Virtual time since it was booted."""
        return self._word(self._places.time)

    def activity(self) -> Activity:
        """The process that has the CPU, or had it last."""
        at = self._places
        task = self._word(at.task)
        uts = self._word(self._word(task + at.namespaces) + at.uts)
        (pid,) = struct.unpack("<i", self._read(task + at.pid, 4))
        (call,) = struct.unpack("<q", self._read(task + at.system_call, 8))
        return Activity(
            pid,
            _text(self._read(task + at.name, NAME_BYTES)),
            _text(self._read(uts + at.hostname, HOSTNAME_BYTES)),
            call if call >= 0 else None,
        )

    def _word(self, address: int) -> int:
        (word,) = WORD.unpack(self._read(address, WORD.size))
        return int(word)

    def _read(self, address: int, size_bytes: int) -> bytes:
        with self._memory.open("rb", buffering=0) as memory:
            read = os.pread(memory.fileno(), size_bytes, address)
        if len(read) < size_bytes:
            raise ProcessLookupError(f"{self._memory}: its process has ended")
        return read


class StallWatch:
    """Says when a clock has stood still for `limit_s` of wall time, as TimeLimit counts it."""

    def __init__(
        self,
        virtual_ns: Callable[[], int],
        limit_s: float,
        held: Callable[[], bool] = lambda: False,
        wall_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """held: returns whether the kernel is stopped."""
        self._virtual_ns, self._seen_ns = virtual_ns, -1
        self._new_limit = partial(TimeLimit, limit_s, held, wall_s)
        self._limit = self._new_limit()

    def has_stalled(self) -> bool:
        """Returns whether no virtual time has passed for as long as the limit. Must be called often (`TimeLimit`)."""
        now_ns = self._virtual_ns()
        if now_ns != self._seen_ns:
            self._seen_ns, self._limit = now_ns, self._new_limit()
        return self._limit.left_s() <= 0


def _text(name: bytes) -> str:
    return name.split(b"\0")[0].decode(errors="replace")
