"""Starts programs on hosts, passes on what they write, and ends them: by themselves, after a failure, a limit, or
Ctrl-C."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import selectors
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from gradwire.faults import InputFault, MachineFault
from gradwire.inside.program_protocol import Output, OutputFull, ProgramEnded
from gradwire.inside.traffic_classes import join_class

READ_BYTES = 32768
END_S = 5.0
"""Virtual seconds that a program has to end by itself after a signal to end."""
LONGEST_WAIT_S = 86400.0
"""epoll counts milliseconds in 32 bits, which are 25 days."""
STDOUT, STDERR = 1, 2


class Born(Protocol):
    """A process that was executed or forked."""

    @property
    def pid(self) -> int:
        """Its number, which is that of its session."""

    def wait(self) -> int:
        """Its exit status, or -n after signal n, once it has ended."""


Birth = Callable[[tuple[int, int]], Born]
"""Makes a process that has these two outputs. Raises InputFault if it cannot begin."""


class Running:
    """A program that was started. status: once it has ended, its exit status, or 128 + n after signal n."""

    def __init__(self, name: str, host: int, process: Born, outputs: Mapping[int, int]) -> None:
        self.name, self.host, self.process = name, host, process
        self.pidfd = os.pidfd_open(process.pid)
        #: Which stream a descriptor carries.
        self.outputs = dict(outputs)
        self.status: int | None = None

    def signal(self, number: int) -> None:
        """Sends a signal to the program and all that it started, unless that left its session."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        """Forgets a program that has ended."""
        for fd in (self.pidfd, *self.outputs):
            os.close(fd)
        self.outputs = {}


class Listener(Protocol):
    """Who gets programs' outputs and ends."""

    def fileno(self) -> int:
        """For a selector: readable if something may have come."""

    def say(self, event: Output | OutputFull | ProgramEnded) -> None:
        """Takes what a program wrote, that no more of it is kept, or that a program ended."""

    def heard(self) -> object:
        """Returns the next command that has come, or None."""


class ProgramPlace(Protocol):
    """A place that programs run in: a host, or the machine as a script sees it."""

    name: str

    def enter(self, folder: str) -> None:
        """Moves the calling process there, into a folder."""


class Births(Protocol):
    """The namespaces that new processes of programs begin in."""

    def births(self) -> AbstractContextManager[None]:
        """Processes that the calling thread starts in the block are born there."""


@dataclass(frozen=True)
class Streams:
    """A program's ends of its input and outputs, and the ends to read from, with the stream that each carries."""

    read_ends: Mapping[int, int]
    write_ends: tuple[int, int]
    stdin: int = subprocess.DEVNULL
    #: Whether the input is a terminal that turns keys into signals for the program.
    controls: bool = False


class Processes:
    """The programs that run, by order of their start. What they write goes to the channel.

    output_limit_bytes: of everything that they write. What comes after that is read, so that no program waits, and
    dropped. 0: no limit.
    """

    def __init__(
        self, hosts: Sequence[ProgramPlace], sandbox: Births, channel: Listener, output_limit_bytes: int = 0
    ) -> None:
        self._hosts, self._sandbox, self._channel = hosts, sandbox, channel
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel.fileno(), selectors.EVENT_READ, None)
        self.running: list[Running] = []
        self._is_ending = False
        self._room_bytes = output_limit_bytes or math.inf
        self.dropped_bytes = 0

    def start(
        self,
        host: int,
        argv: Sequence[str],
        env: Mapping[str, str],
        folder: str,
        *,
        name: str = "",
        traffic_class: int | None = None,
        streams: Streams | None = None,
    ) -> Running:
        """Starts a program on a host in a separate session.

        name: goes with what is said of it. traffic_class: of all that it sends (`make_classes`). streams: by default
        no input, and a pipe for each output.

        Raises InputFault if the program is not there or cannot be executed.
        """
        streams = streams or pipes()

        def execute(write_ends: tuple[int, int]) -> Born:
            try:
                with self._sandbox.births():
                    return subprocess.Popen(
                        argv,
                        stdin=streams.stdin,
                        stdout=write_ends[0],
                        stderr=write_ends[1],
                        env=dict(env),
                        start_new_session=True,
                        preexec_fn=self._entering(host, folder, traffic_class, streams),  # noqa: PLW1509 (this process has one thread)
                    )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                why = _why_not_executed(error) if isinstance(error, OSError) else f"cannot be started: {error}"
                raise InputFault(f"{argv[0]}: {why}") from error

        return self.give_birth(name, host, execute, streams)

    def give_birth(self, name: str, host: int, birth: Birth, streams: Streams | None = None) -> Running:
        """Starts a program on a host in its own way. name, streams: as for `start`. Raises what `birth` raises."""
        streams = streams or pipes()
        try:
            process = birth(streams.write_ends)
        except BaseException:
            for fd in streams.read_ends:
                os.close(fd)
            raise
        finally:
            for fd in set(streams.write_ends):
                os.close(fd)
        started = Running(name, host, process, streams.read_ends)
        for fd in (started.pidfd, *started.outputs):
            self._selector.register(fd, selectors.EVENT_READ, started)
        self.running.append(started)
        return started

    def watch(self, fd: int, act: Callable[[], None]) -> None:
        """Has `follow` call `act` when a descriptor is readable."""
        self._selector.register(fd, selectors.EVENT_READ, act)

    def unwatch(self, fd: int) -> None:
        """Ends a `watch`."""
        self._selector.unregister(fd)

    def follow(
        self,
        until: Callable[[], bool],
        *,
        deadline_s: float = float("inf"),
        on_command: Callable[[object], None] = lambda _: None,
    ) -> bool:
        """Passes on what programs write until `until()`; False if the virtual clock (time.monotonic) reaches
        `deadline_s` before. on_command: takes what comes meanwhile."""
        while not until():
            left_s = deadline_s - time.monotonic() if deadline_s < float("inf") else None
            if left_s is not None and left_s <= 0:
                return False
            if (command := self._channel.heard()) is not None:
                on_command(command)
                continue
            for key, _ in self._selector.select(None if left_s is None else min(left_s, LONGEST_WAIT_S)):
                if key.data is None:
                    continue  # a command, heard above
                if not isinstance(key.data, Running):
                    key.data()
                elif key.fd == key.data.pidfd:
                    self._ended(key.data)
                elif key.fd in key.data.outputs:
                    self._pass_on(key.data, key.fd)
        return True

    def pass_on_what_is_there(self, on_command: Callable[[object], None] = lambda _: None) -> None:
        """Passes on what programs have written, and notes those that have ended, without waiting for more."""
        while any(isinstance(key.data, Running) for key, _ in self._selector.select(0)):
            self.follow(_once(), on_command=on_command)

    def end_all(self) -> None:
        """Ends all programs: they may end by themselves, and then they have to. No Ended is said of them."""
        self._is_ending = True
        # An input that has ended is always readable: waiting for programs would then be asking again and again, and
        # take no time.
        self._selector.unregister(self._channel.fileno())
        for number in (signal.SIGTERM, signal.SIGKILL):
            for program in list(self.running):
                program.signal(number)
            if self.follow(lambda: not self.running, deadline_s=time.monotonic() + END_S):
                return
        left = ", ".join(self._name(program.host) for program in self.running)
        raise MachineFault(f"a program cannot be ended: {left}")

    def _entering(self, host: int, folder: str, traffic_class: int | None, streams: Streams) -> Callable[[], None]:
        def become() -> None:
            if streams.controls:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            join_class(traffic_class)
            self._hosts[host].enter(folder)

        return become

    def _name(self, host: int) -> str:
        return self._hosts[host].name

    def _pass_on(self, program: Running, fd: int) -> bool:
        """Passes on what can be read at once; False at the end of the output."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:  # of a terminal that nobody has open any more
            if error.errno != errno.EIO:
                raise
            data = b""
        if data:
            self._keep(program, program.outputs[fd], data)
            return True
        self._selector.unregister(fd)
        del program.outputs[fd]
        os.close(fd)
        return False

    def _keep(self, program: Running, stream: int, data: bytes) -> None:
        """Passes on as much as there is room for, and says once that there is none."""
        kept = data if len(data) <= self._room_bytes else data[: int(self._room_bytes)]
        self._room_bytes -= len(kept)
        if kept:
            self._channel.say(Output(program.host, stream, kept, program.name))
        if len(kept) < len(data):
            if not self.dropped_bytes:
                self._channel.say(OutputFull(program.host, program.name))
            self.dropped_bytes += len(data) - len(kept)

    def _ended(self, program: Running) -> None:
        """Notes that a program has ended, after its last output. What it left running may write on, which nobody
        reads."""
        returncode = program.process.wait()
        for fd in list(program.outputs):
            while self._pass_on(program, fd):
                pass
        for fd in (program.pidfd, *program.outputs):
            self._selector.unregister(fd)
        program.close()
        self.running.remove(program)
        program.status = 128 - returncode if returncode < 0 else returncode
        if not self._is_ending:
            self._channel.say(ProgramEnded(program.host, program.status, program.name))


def _once() -> Callable[[], bool]:
    """False the first time it is asked, and then true."""
    answers = iter([False])
    return lambda: next(answers, True)


def pipes() -> Streams:
    """Two pipes."""
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    for fd in (out_read, err_read):
        os.set_blocking(fd, False)
    return Streams({out_read: STDOUT, err_read: STDERR}, (out_write, err_write))


def _why_not_executed(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "no such program, or the program that its first line names is missing"
    if error.errno == errno.ENOEXEC:
        return (
            "is not a program that this machine can execute: neither built for it nor a script whose first line "
            "names one"
        )
    if error.errno == errno.EACCES:
        return "may not be executed; `chmod +x` allows it"
    return f"cannot be executed: {error.strerror}"
