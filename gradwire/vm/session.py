"""A job in the virtual-time kernel that is talked with while it runs: it reads the caller's lines from the terminal
that it writes to.

`run_virtual` (vm/machine.py) runs a job from beginning to end. A session lets its caller send lines in between, stop
the whole kernel while a person thinks, and ask for its memory.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from gradwire.faults import InputFault, InternalFault, MachineFault
from gradwire.vm.answers import Answering
from gradwire.vm.kernel_death import Ending, Surroundings, kernel_died
from gradwire.vm.machine import (
    JOB_DEFAULTS,
    KERNEL_ENVIRONMENT,
    KEY_FILE,
    STATUS_FILE,
    BootWatch,
    Console,
    _box,
    boot_command,
    choose_memory_folder,
    exit_status_of,
    job_text,
    whole_kernel,
)
from gradwire.vm.owners import OWNER_VARIABLE, this_process
from gradwire.vm.streaming import FollowEnd, TimeLimit, Watch, follow, is_stopped, pipe, process_group
from gradwire.vm.watching import StallWatch, Watched, places_of

ONE_WAY, TWO_WAY = "con1=null,fd:0", "con1=fd:0"
"""The kernel's argument for /dev/tty1, the job's end of the conversation, as `boot_command` gives it and as a session
needs it."""
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
class LimitNames:
    """The names under which the user sets limits: options, or keys of a scenario."""

    virtual: str = "--time-limit"
    wall: str = "--wall-limit"
    stall: str = "--stall-limit"
    memory: str = "--memory"
    #: Limit of processes at one time.
    processes: str = "--memory"


class JobSession:
    """A running job. Made by `session`.

    The job's own lines should be whole when it waits for one: `follow` passes on no line that is not ended.
    """

    def __init__(
        self,
        process: Popen[bytes],
        channel: socket.socket,
        console: int,
        kernel: Path,
        box: Path,
        memory_mb: int,
    ) -> None:
        self._process, self._channel, self._console, self._kernel = process, channel, console, kernel
        places = places_of(kernel)
        self._watched = Watched(process.pid, places) if places else None
        self._boot = BootWatch(box, self._is_stopped)
        self._answering = Answering(box)
        self._memory_mb, self._status_file = memory_mb, box / STATUS_FILE
        self._begun_s = self._counted_s = time.monotonic()
        self.console = Console()

    def follow(
        self,
        take: Callable[[str], None],
        *,
        finished: Callable[[], bool],
        time_limit_s: float | TimeLimit = float("inf"),
        stall_limit_s: float = STALL_LIMIT_S,
        process_limit: int | None = None,
        limit_names: LimitNames = LimitNames(),
        watched: Watch | None = None,
    ) -> FollowEnd:
        """Passes each line of the job to `take` until `finished()`, and says what ended that (vm/streaming.py).

        Raises InputFault, with what has the CPU, if no virtual time passes for `stall_limit_s` of wall time, or if
        there are more than `process_limit` processes at one time: by default, one for every 2 MiB of memory.
        limit_names: what gives more. watched: what else may be readable. Raises KernelFault if the kernel does not come
        up, or a signal has stopped one of its processes, and InternalFault if the job ends before `finished()`.
        """
        outputs = {self._channel.fileno(): take, self._console: self.console.take}
        watch = StallWatch(self._virtual_ns, stall_limit_s, self._is_stopped)
        most = self._memory_mb // MIB_PER_PROCESS if process_limit is None else process_limit

        def wrong() -> bool:
            self._refuse_crowd(most, limit_names)
            return bool(self.console.stopped) or self._boot.failed() or watch.has_stalled()

        try:
            end = follow(
                outputs,
                time_limit_s=time_limit_s,
                finished=lambda: finished() or self._status_file.exists() or wrong(),
                held=self._is_stopped,
                watched=watched,
            )
        except ConnectionResetError:  # the kernel is gone, with a line of ours that it had not read
            return FollowEnd.CLOSED
        self.console.refuse_stopped()
        self._boot.refuse_failed(self._kernel)
        if end is FollowEnd.FINISHED and not finished():
            if self._status_file.exists():  # its last words came before it
                raise InternalFault("the job in the virtual-time kernel ended before it had said how the run went")
            raise self._stalled(stall_limit_s, limit_names)
        return end

    def time_limit(self, limit_s: float) -> TimeLimit:
        """A limit of wall time for several calls of `follow` together."""
        return TimeLimit(limit_s, self._is_stopped)

    def _refuse_crowd(self, most: int, names: LimitNames) -> None:
        if time.monotonic() - self._counted_s < COUNT_PERIOD_S:
            return
        self._counted_s = time.monotonic()
        if (count := self._process_count()) > most:
            raise InputFault(
                f"programs have started {count:,} processes without end, {self._activity()} the last of them: more "
                f"than {most:,} at one time; {names.processes} allows more"
            )

    def _is_stopped(self) -> bool:
        return is_stopped(self._process.pid)

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

    def exit_status(self) -> int:
        """The kernel's own exit status, once it has closed its console: -n after signal n. Raises MachineFault if it
        does not end."""
        return exit_status_of(self._process)


@contextmanager
def session(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cpu: int,
    memory_mb: int,
    workdir: Path,
    key: bytes = b"",
    kernel: Path | None = None,
) -> Iterator[JobSession]:
    """Boots a kernel with Open vSwitch, starts `argv` in it as root, and ends all of it when the block ends, whatever
    happened.

    key: what the job finds in the file KEY_INSIDE, which nobody else should read; so it should remove that. The other
    arguments are those of `run_virtual`, with programs that are not to be trusted. In the block, a KernelDied tells
    that the kernel ended by itself, and becomes a KernelFault with its cause. Raises MachineFault if there is no
    kernel, a damaged one, or no room for its memory.
    """
    kernel = whole_kernel(kernel)
    memory_folder = choose_memory_folder(memory_mb)
    ours, theirs = socket.socketpair()
    with ours, theirs, _box(workdir) as box, pipe() as (console_read, console_end):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        (box / "job").write_bytes(job_text(argv, {**JOB_DEFAULTS, **env}))
        with open(box / KEY_FILE, "wb", opener=_for_this_user) as file:
            file.write(key)
        command = boot_command(kernel, cpu=cpu, memory_mb=memory_mb, token="", openvswitch=True, seccomp=False)
        with process_group(
            [word.replace(ONE_WAY, TWO_WAY) for word in command],
            env={**KERNEL_ENVIRONMENT, "TMPDIR": str(memory_folder), OWNER_VARIABLE: this_process()},
            stdin=theirs.fileno(),
            stdout=console_end.fileno(),
            cwd=workdir,
        ) as process:
            theirs.close()
            console_end.close()
            running = JobSession(process, ours, console_read, kernel, box, memory_mb)
            try:
                yield running
            except KernelDied as died:
                ending = Ending(kernel, tuple(running.console.lines), running.exit_status(), memory_folder, memory_mb)
                raise kernel_died(str(died), ending, Surroundings.here()) from None


def _for_this_user(path: str, flags: int) -> int:
    """Makes a file that no other user may read."""
    return os.open(path, flags | os.O_EXCL, 0o600)


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


class KernelDied(Exception):
    """The kernel ended by itself before its job had. The message is a headline for the cause."""


def last_cpu() -> int:
    """The CPU that a session's kernel is pinned to: the last that this process may use, as for points."""
    return max(os.sched_getaffinity(0))
