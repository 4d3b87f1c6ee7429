"""`gradwire shell`: a command line on an emulated network, like Mininet's.

Lines are edited outside the kernel, which is held meanwhile: virtual time passes while a command runs, and not while a
person thinks.
"""

from __future__ import annotations

import os
import readline
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import msgspec

from gradwire.datatypes.fabric import Fabric
from gradwire.faults import InputFault, MachineFault
from gradwire.programs.execution import job, raise_refused
from gradwire.programs.launch import shared_environment
from gradwire.programs.program_file import covered_folders
from gradwire.programs.program_protocol import (
    TASK_FILE,
    Command,
    CommandDone,
    Ended,
    Event,
    Execute,
    Full,
    Interrupt,
    Output,
    Ready,
    Refused,
    Taken,
    Task,
    line_of,
    write_task,
)
from gradwire.programs.prompt_commands import Shell, Stopped
from gradwire.programs.signatures import KEY_BYTES, SignedEvents
from gradwire.vm.owners import temporary_folder
from gradwire.vm.session import KernelDied, Session
from gradwire.vm.streaming import FollowEnd

START_LIMIT_S = 120.0
HISTORY_LINES = 1000
HEARD = "heard"
"""What outputs are called that are not shown."""


class Conversation:
    """Asks the job in the kernel to do one thing after the other, and shows what programs write."""

    def __init__(self, running: Session, key: bytes) -> None:
        self._running, self._events = running, SignedEvents(key)
        self._done: CommandDone | None = None
        self._refused: Refused | None = None
        self._heard = bytearray()
        self.pids: tuple[int, ...] = ()
        self.virtual_s = 0.0
        #: Status of the last foreground command.
        self.status = 0

    def begin(self) -> None:
        """Waits until the network is there. Raises a Fault if it cannot be built."""
        self._wait(START_LIMIT_S)
        if self._refused is not None:
            raise_refused(self._refused)

    def ask(self, command: Command) -> str:
        """Has a command carried out, during which Ctrl-C goes to its program; returns why it was refused, or "".
        Raises KernelDied, and Stopped."""
        with self._interrupting():
            self._running.go_on()
            self._running.send(line_of(command))
            self._wait(float("inf"))
        return "" if self._refused is None else self._refused.message

    def heard(self, command: Execute) -> str:
        """The same for a command whose output is not shown but returned. Raises InputFault if it was refused."""
        self._heard.clear()
        if refused := self.ask(msgspec.structs.replace(command, name=HEARD)):
            raise InputFault(refused)
        return self._heard.decode(errors="replace")

    def _wait(self, limit_s: float) -> None:
        self._done = self._refused = None
        try:
            end = self._running.follow(self._take, finished=lambda: self._done is not None, time_limit_s=limit_s)
        except InputFault as fault:
            raise Stopped(str(fault)) from fault
        if end is FollowEnd.TIMED_OUT:
            raise MachineFault(f"the network was not there within {limit_s:g} s; see `gradwire doctor`")
        if end is FollowEnd.CLOSED:
            raise KernelDied("the virtual-time kernel died")
        self._running.hold()

    def _take(self, line: str) -> None:
        event: Event | None = self._events.event_of(line)
        match event:
            case Ready(pids=pids):
                self.pids = pids
            case Output(program=program, data=data) if program == HEARD:
                self._heard += data
            case Output(data=data):
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
            case Full():
                self._running.answer(line_of(Taken()))
            case Ended(status=status):
                self.status = status
            case Refused():
                self._refused = event
                if not self.pids:  # nothing more will come
                    self._done = CommandDone(0.0)
            case CommandDone(virtual_s=virtual_s):
                self._done, self.virtual_s = event, virtual_s

    @contextmanager
    def _interrupting(self) -> Iterator[None]:
        """Turns Ctrl-C into an Interrupt for the program that runs."""

        def interrupt(_: int, __: FrameType | None) -> None:
            self._running.send(line_of(Interrupt()))

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def run_shell(fabric: Fabric, memory_mb: int, on_ready: Callable[[], None]) -> None:
    """Boots the network and reads commands until the input ends. Raises a Fault; leaves no process and no file but the
    history."""
    with temporary_folder() as folder:
        env = shared_environment(fabric, range(fabric.hosts), os.environ)
        task = Task(
            fabric_json=fabric.to_json(),
            folder=str(Path.cwd()),
            env=env,
            covered=covered_folders(folder, Path.cwd()),
        )
        write_task(folder / TASK_FILE, task)
        key = secrets.token_bytes(KEY_BYTES)
        with job("shell_job", memory_mb, folder, key) as running:
            conversation = Conversation(running, key)
            conversation.begin()
            on_ready()
            with _history():
                _read_commands(Shell(fabric, conversation))


def _read_commands(shell: Shell) -> None:
    while True:
        try:
            shell.cmdloop()
        except KeyboardInterrupt:  # at the prompt: the line is given up, and the shell stays
            print()
        else:
            return


@contextmanager
def _history() -> Iterator[None]:
    """Lines of earlier shells, and those of this one for later; only where a person types."""
    if not sys.stdin.isatty():
        yield
        return
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    file = state / "gradwire" / "shell-history"
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_history_length(HISTORY_LINES)
        with suppress(OSError):  # a home that cannot be written keeps no history, and nothing else
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)
