"""A job in the virtual-time kernel that is talked with while it runs: it reads the caller's lines from the terminal
that it writes to.

vm/batch_job.py runs a job from beginning to end. A session lets its caller send lines in between, stop the whole kernel
while a person thinks, and ask for its memory; and it watches that programs neither stop the clock nor fill the kernel.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gradwire.faults import InputFault, InternalFault, MachineFault
from gradwire.vm.answers import Answering
from gradwire.vm.machine import KEY_FILE, TWO_WAY, Boot, BootedKernel, Terminal, booted
from gradwire.vm.pace import MachinePace, PaceMeter
from gradwire.vm.streaming import TimeLimit, Watch
from gradwire.vm.watching import StallWatch, Watched, places_of

SOCKET_BYTES = 1 << 20
KIB, MIB = 1024, 1 << 20
STALL_LIMIT_S = 20.0
"""Wall time after which a virtual clock that stands still is taken for one that will not move again. Eight torch hosts
that start at once move it at least every second on one core, for looking for a file that is not there moves it."""
STARTING_S = 2.0
"""For so long a kernel's memory may be refused: between fork and exec, a process of a command that root began as
another user is root's."""
COUNT_PERIOD_S = 0.1
"""How often the kernel's processes are counted, in wall time: a fork takes it 0.2 ms or more."""
MIB_PER_PROCESS = 2
"""Memory of a kernel, in MiB, for each process that it may have. A shell of Mininet's takes 1.5, and with 1, copies of
a Python filled the memory before the limit of processes stopped them. Each is a process of the machine as well."""
FULL_SHARE = 0.95
"""Share of a kernel's memory that is in use when there is no room left: the rest is its own page tables, which it
touches last."""


@dataclass(frozen=True)
class PaceListener:
    """Who hears how a session is getting on, and after how much wall time each."""

    period_s: float
    tell: Callable[[MachinePace], None]


@dataclass(frozen=True)
class LimitNames:
    """The names under which the user sets limits: options, or keys of a scenario."""

    virtual: str = "--time-limit"
    wall: str = "--wall-limit"
    stall: str = "--stall-limit"
    memory: str = "--memory"
    #: Limit of processes at one time.
    processes: str = "--memory"


@dataclass(frozen=True)
class SessionLimits:
    """Limits of a session, and how the user raises them."""

    #: Wall time; a TimeLimit is one for several calls together.
    wall_s: float | TimeLimit = float("inf")
    #: Wall time for which the virtual clock may stand still.
    stall_s: float = STALL_LIMIT_S
    #: Processes at one time; None for one for every MIB_PER_PROCESS of memory.
    processes: int | None = None
    names: LimitNames = LimitNames()


class JobSession:
    """A running job. Made by `session`.

    The job's own lines should be whole when it waits for one: `follow` passes on no line that is not ended.
    """

    def __init__(
        self, booted_kernel: BootedKernel, channel: socket.socket, memory_mb: int, listener: PaceListener | None = None
    ) -> None:
        self._kernel, self._channel, self._memory_mb = booted_kernel, channel, memory_mb
        self._process = booted_kernel.process
        places = places_of(booted_kernel.kernel)
        self._watched = Watched(self._process.pid, places) if places else None
        self._pace = PaceMeter(self._watched, listener.period_s, listener.tell) if self._watched and listener else None
        self._answering = Answering(booted_kernel.box)
        self._begun_s = self._counted_s = time.monotonic()

    def follow(
        self,
        take: Callable[[str], None],
        finished: Callable[[], bool],
        limits: SessionLimits = SessionLimits(),
        stop: threading.Event | None = None,
        watched: Watch | None = None,
    ) -> bool:
        """Passes each line of the job to `take` until `finished()`; returns False if the limit of wall time comes before.

        Raises InputFault, with what has the CPU, if the virtual clock stands still for too long, or if there are too many
        processes. stop, watched: as for `BootedKernel.follow`. Raises what that raises, and InternalFault if the job ends
        before `finished()`.
        """
        watch = StallWatch(self._virtual_ns, limits.stall_s, self._kernel.is_held)
        most = self._memory_mb // MIB_PER_PROCESS if limits.processes is None else limits.processes
        has_ended = self._kernel.status_file.exists

        def wrong() -> bool:
            self._refuse_crowd(most, limits.names)
            if self._pace:
                self._pace.look()
            return watch.has_stalled()

        def hear(line: str) -> None:
            if self._pace:
                self._pace.begin()
            take(line)

        in_time = self._kernel.follow(
            hear,
            finished=lambda: finished() or has_ended() or wrong(),
            time_limit_s=limits.wall_s,
            stop=stop,
            watched=watched,
        )
        if not in_time or finished():
            return in_time
        if has_ended():  # its last words came before it
            raise InternalFault("the job in the virtual-time kernel ended before it had said how the run went")
        raise self._stalled(limits.stall_s, limits.names)

    def time_limit(self, limit_s: float) -> TimeLimit:
        """A limit of wall time for several calls of `follow` together."""
        return TimeLimit(limit_s, self._kernel.is_held)

    def _refuse_crowd(self, most: int, names: LimitNames) -> None:
        if time.monotonic() - self._counted_s < COUNT_PERIOD_S:
            return
        self._counted_s = time.monotonic()
        if (count := self._process_count()) > most:
            raise InputFault(
                f"programs have started {count:,} processes without end, {self._activity()} the last of them: more "
                f"than {most:,} at one time; {names.processes} allows more"
            )

    def _virtual_ns(self) -> int:
        if self._watched is None:  # by the wall clock, nothing ever stalls
            return time.monotonic_ns()
        try:
            return self._watched.virtual_ns()
        except PermissionError as error:
            if time.monotonic() - self._begun_s < STARTING_S:
                return 0
            raise MachineFault(
                f"cannot see whether the virtual clock moves: {error}; allow ptrace for the caller's own processes"
            ) from error
        except OSError:  # not yet the kernel, or no longer; the latter closes the outputs
            return 0

    def _stalled(self, limit_s: float, names: LimitNames) -> InputFault:
        assert self._watched is not None
        return stalled(limit_s, str(self._watched.activity()), self.memory_bytes(), self._memory_mb, names)

    def send(self, line: str) -> None:
        """Sends a line to the job, which must have made its terminal raw, for otherwise that sends it back."""
        self._channel.setblocking(True)  # the other direction is read without blocking
        with suppress(BrokenPipeError):  # the kernel is gone, which the end of its output tells
            self._channel.sendall(line.encode() + b"\n")
        self._channel.setblocking(False)

    def answer(self, line: str) -> None:
        """Answers a job that waits for it while virtual time stands still (vm/answers.py)."""
        self._answering.give(line.encode())

    def hold(self) -> None:
        """Stops the kernel with all that runs in it, so that it takes no CPU; its clock stands still."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resumes a kernel that was held."""
        self._process.send_signal(signal.SIGCONT)

    def memory_bytes(self) -> int:
        """The most memory that the kernel has used so far: it keeps what it has used. 0 if it has ended."""
        try:
            lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8").splitlines()
        except OSError:
            return 0
        return mapped_bytes(lines)

    def _process_count(self) -> int:
        """Returns how many processes of the machine the kernel has: one for each address space in it, and a few that
        serve the kernel itself. 0 if they cannot be counted."""
        try:
            return len(
                Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text(encoding="utf-8").split()
            )
        except OSError:
            return 0

    def _activity(self) -> str:
        """The process that has the CPU, or had it last, in words."""
        try:
            return "a program" if self._watched is None else str(self._watched.activity())
        except OSError:
            return "a program"


@contextmanager
def session(boot: Boot, key: bytes = b"", listener: PaceListener | None = None) -> Iterator[JobSession]:
    """Boots a kernel with a job that starts programs, and ends all of it when the block ends, whatever happened.

    key: what the job finds in the file KEY_INSIDE, which nobody else should read; so it should remove that. Raises what
    `booted` raises.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        terminal = Terminal(TWO_WAY, ours.fileno(), theirs)
        with booted(replace(boot, programs=True), terminal, {KEY_FILE: key}) as kernel:
            yield JobSession(kernel, ours, boot.memory_mb, listener)


def mapped_bytes(status: Sequence[str]) -> int:
    """Returns how many bytes of the files that a process maps are in memory, from the lines of its /proc/PID/status.
    The kernel's memory is such a file, in a tmpfs or, if that has no room, on a disk."""
    return sum(int(line.split()[1]) * KIB for line in status if line.startswith(("RssShmem:", "RssFile:")))


def stalled(
    limit_s: float, activity: str, used_bytes: int, memory_mb: int, names: LimitNames = LimitNames()
) -> InputFault:
    """Returns the fault of a job in which no virtual time passes: memory is full, or else a program keeps the CPU.

    Where programs' memory leaves no room for their code, it drops pages of code and reads them again for ever. It
    kills nobody.
    """
    stands = f"no virtual time has passed for {limit_s:g} s of wall time, while {activity} had the CPU"
    if used_bytes >= FULL_SHARE * memory_mb * MIB:
        return InputFault(
            f"the kernel's {memory_mb} MiB of memory are full, and it reads programs' files again and again: {stands}; "
            f"give it more with {names.memory}"
        )
    return InputFault(
        f"{stands}. Computing takes no virtual time, so a program must not wait for a change in memory without a call "
        "that waits, such as poll, sched_yield or a sleep; if it only computes that long, give it more with "
        f"{names.stall}"
    )


def last_cpu() -> int:
    """The CPU that a session's kernel is pinned to: the last that this process may use, as for points."""
    return max(os.sched_getaffinity(0))
