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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType

import msgspec

from gradwire.datatypes.fabric import Fabric
from gradwire.faults import InputFault, MachineFault
from gradwire.programs.execution import job, raise_refused
from gradwire.programs.keyboard import NOT_DECODED, Keyboard, size_here
from gradwire.programs.launch import shared_environment
from gradwire.programs.pace import Person
from gradwire.programs.program_file import covered_folders
from gradwire.programs.program_protocol import (
    TASK_FILE,
    Command,
    CommandDone,
    Ended,
    Event,
    Execute,
    Full,
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
from gradwire.programs.talk import Talk
from gradwire.programs.typed_protocol import Interrupt, Over, Passed, Rested, Screen
from gradwire.programs.windows import Windows
from gradwire.vm.owners import temporary_folder
from gradwire.vm.session import KernelDied, Session
from gradwire.vm.streaming import FollowEnd

START_LIMIT_S = 120.0
HISTORY_LINES = 1000
HEARD = "heard"
"""What outputs are called that are not shown."""


class Conversation:
    """Asks the job in the kernel to do one thing after the other, and shows what programs write. Where a person types,
    programs read it. environment: the caller's."""

    def __init__(self, running: Session, key: bytes, folder: Path, environment: Mapping[str, str]) -> None:
        self._running, self._events = running, SignedEvents(key)
        self._talk = Talk(running)
        self.windows = Windows(folder, self._talk.send, environment)
        self.is_typed = _is_typed()
        self._done: CommandDone | None = None
        self._refused: Refused | None = None
        self._heard = bytearray()
        self._interrupts = 0
        self.pids: tuple[int, ...] = ()
        self.virtual_s = 0.0
        #: Status of the last foreground command.
        self.status = 0

    def begin(self) -> None:
        """Waits until the network is there. Raises a Fault if it cannot be built."""
        self._done = self._refused = None
        self._follow(lambda: self._done is not None, START_LIMIT_S)
        if self._refused is not None:
            raise_refused(self._refused)

    def line(self, read: Callable[[], bytes]) -> bytes:
        """A line that a person is asked for, while the clock stands still, or commands run in windows. Raises
        KeyboardInterrupt, KernelDied, and Stopped."""

        def follow(until: Callable[[], bool]) -> bool:
            self._follow(until)
            return False

        with self._ignoring() if self.windows else nullcontext():
            return self._talk.line(read, self.windows, follow)

    def open_window(self, name: str, host: int) -> str:
        """Opens a window with a node's shell; says where, or why it cannot."""
        if not self.is_typed:
            return f"no window for {name}: nobody types at a terminal here"
        return self.windows.open(name, host).said

    def ask(self, command: Command) -> str:
        """Has a command carried out, during which Ctrl-C goes to its program, as all that is typed; returns why it was
        refused, or "". Raises KernelDied, and Stopped."""
        self._done = self._refused = None
        self._talk.person = Person()
        if not (self.is_typed and isinstance(command, Execute) and command.name != HEARD):
            self._carry_out(command, lambda: None)
        elif command.background:
            self._carry_out(msgspec.structs.replace(command, terminal=size_here()), lambda: None)
        else:
            keyboard = Keyboard(self.windows, self._talk.send)
            with keyboard.lent():
                self._carry_out(msgspec.structs.replace(command, terminal=size_here()), keyboard.look)
        return "" if self._refused is None else self._refused.message

    def _carry_out(self, command: Command, look: Callable[[], None]) -> None:
        def is_done() -> bool:
            look()
            return self._done is not None

        with self._interrupting():
            self._talk.send(command)
            self._follow(is_done)

    def heard(self, command: Execute) -> str:
        """The same for a command whose output is not shown but returned. Raises InputFault if it was refused."""
        self._heard.clear()
        if refused := self.ask(msgspec.structs.replace(command, name=HEARD)):
            raise InputFault(refused)
        return self._heard.decode(errors="replace")

    def _follow(self, until: Callable[[], bool], limit_s: float = float("inf")) -> None:
        try:
            end = self._running.follow(self._take, finished=until, time_limit_s=limit_s, watched=self.windows.watch)
        except InputFault as fault:
            raise Stopped(str(fault)) from fault
        if end is FollowEnd.TIMED_OUT:
            raise MachineFault(f"the network was not there within {limit_s:g} s; see `gradwire doctor`")
        if end is FollowEnd.CLOSED:
            raise KernelDied("the virtual-time kernel died")
        if not self.windows:
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
            case Rested() | Passed() | Screen() | Over():
                seen = self._interrupts
                self._talk.take(event, self.windows, lambda: self._interrupts > seen, reads_lines=False)

    @contextmanager
    def _interrupting(self) -> Iterator[None]:
        """Turns Ctrl-C into an Interrupt for the program that runs."""

        def interrupt(_: int, __: FrameType | None) -> None:
            self._interrupts += 1
            self._talk.send(Interrupt())

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def _ignoring(self) -> Iterator[None]:
        """Leaves Ctrl-C to whoever reads a line."""
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _is_typed() -> bool:
    """Whether a person types here, and sees what programs write."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


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
            conversation = Conversation(running, key, folder, os.environ)
            conversation.begin()
            on_ready()
            try:
                with _history():
                    _read_commands(Shell(fabric, conversation), conversation)
            finally:
                conversation.windows.close()


def _read_commands(shell: Shell, conversation: Conversation) -> None:
    shell.make_ready()
    is_over = False
    while not is_over:
        try:
            line = conversation.line(lambda: _read_line(shell.prompt)).decode(errors="replace")
            if conversation.windows and line.strip():
                readline.add_history(line)  # a copy of this process has read it
            is_over = shell.onecmd(shell.precmd(line))
        except KeyboardInterrupt:  # at the prompt: the line is given up, and the shell stays
            print()


def _read_line(prompt: str) -> bytes:
    """A line; cmd's word for the end of the input at its end."""
    try:
        return input(prompt).encode()
    except EOFError:
        return b"EOF"
    except UnicodeError:
        print(NOT_DECODED)
        return b""


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
