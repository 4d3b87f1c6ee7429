"""`gradwire shell`: a command line on an emulated network, like Mininet's.

Lines are edited outside the kernel, which is held meanwhile: virtual time passes while a command runs, and not while a
person thinks.
"""

from __future__ import annotations

import cmd
import os
import readline
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import ClassVar

from gradwire.datatypes.fabric import Fabric
from gradwire.faults import MachineFault
from gradwire.programs.execution import job, raise_refused
from gradwire.programs.launch import shared_environment
from gradwire.programs.program_file import covered_folders
from gradwire.programs.program_protocol import (
    NO_HOST,
    TASK_FILE,
    Command,
    CommandDone,
    Ended,
    Event,
    Execute,
    Full,
    Interrupt,
    Output,
    PingAll,
    Ready,
    Refused,
    Taken,
    Task,
    line_of,
    write_task,
)
from gradwire.programs.signatures import KEY_BYTES, SignedEvents
from gradwire.vm.owners import temporary_folder
from gradwire.vm.session import KernelDied, Session
from gradwire.vm.streaming import FollowEnd
from gradwire.workloads.units import rate_text


def nodes(fabric: Fabric) -> str:
    """The names of all nodes."""
    return f"available nodes are:\n{' '.join(['c0', *fabric.host_names(), *fabric.switch_names()])}"


def links(fabric: Fabric) -> Iterator[str]:
    """A line per link, with its rate."""
    for link in fabric.links():
        yield f"{link.a.interface}<->{link.b.interface} ({rate_text(link.rate_bps)})"


def net(fabric: Fabric) -> Iterator[str]:
    """A line per node: its ports, each with the port at the other end."""
    far = {end: other for link in fabric.links() for end, other in ((link.a, link.b), (link.b, link.a))}
    for name in (*fabric.host_names(), *fabric.switch_names()):
        ends = [f"{port.interface}:{other.interface}" for port, other in far.items() if port.device == name]
        yield " ".join([name, *ends])
    yield "c0"


def dump(fabric: Fabric, pids: Sequence[int]) -> Iterator[str]:
    """A line per node: its addresses, and of a host the process that holds it."""
    for host, (name, pid) in enumerate(zip(fabric.host_names(), pids, strict=True)):
        yield f"<Host {name}: {name}-eth0:{fabric.host_ip(host)} pid={pid}>"
    for name in fabric.switch_names():
        ports = sorted(end.number for link in fabric.links() for end in (link.a, link.b) if end.device == name)
        yield f"<OVSSwitch {name}: {','.join(f'{name}-eth{number}' for number in ports)}>"
    yield "<RemoteController c0: 127.0.0.1:6653>"


START_LIMIT_S = 120.0
HISTORY_LINES = 1000
PROMPT = "gradwire> "
HELP = """\
NODE COMMAND        runs a command line on a node, with `sh`: h1 ping -c 3 h2
NODE COMMAND &      lets it run while other commands do: h1 iperf3 -s &
pingall             sends an echo request from each host to each other one
nodes, links, net   what the network consists of; `dump` has addresses and processes
time                the virtual clock, which stands still between commands; `h1 sleep 10` lets 10 s pass
exit                ends the network and all programs; so does Ctrl-D

Ctrl-C ends the program that runs; twice, at once. Each command begins in the folder that gradwire was started in, and reads no input."""


class Conversation:
    """Asks the job in the kernel to do one thing after the other, and shows what programs write."""

    def __init__(self, running: Session, key: bytes) -> None:
        self._running, self._events = running, SignedEvents(key)
        self._done: CommandDone | None = None
        self._refused: Refused | None = None
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
        Raises KernelDied."""
        with self._interrupting():
            self._running.go_on()
            self._running.send(line_of(command))
            self._wait(float("inf"))
        return "" if self._refused is None else self._refused.message

    def _wait(self, limit_s: float) -> None:
        self._done = self._refused = None
        end = self._running.follow(self._take, finished=lambda: self._done is not None, time_limit_s=limit_s)
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


class Shell(cmd.Cmd):
    """The prompt. Node names begin commands; the other words are Mininet's."""

    prompt = PROMPT
    own_words: ClassVar[tuple[str, ...]] = ("dump", "exit", "help", "links", "net", "nodes", "pingall", "quit", "time")

    def __init__(self, fabric: Fabric, conversation: Conversation) -> None:
        super().__init__()
        self._fabric, self._conversation = fabric, conversation
        self._places = {name: index for index, name in enumerate(fabric.host_names())}
        self._places |= dict.fromkeys(fabric.switch_names(), NO_HOST)

    def emptyline(self) -> bool:
        """Does nothing."""
        return False

    def default(self, line: str) -> None:
        """A command on a node."""
        node, _, text = line.partition(" ")
        text = text.strip()
        if node not in self._places:
            names = self._fabric.host_names()
            print(f"{node}: no such command or node; hosts are {names[0]} to {names[-1]}, and `help` lists commands")
        elif not text:
            print(f"{node}: which command? Such as: {node} ip address")
        else:
            background = text.endswith("&") and not text.endswith("&&")
            text = text[:-1].rstrip() if background else text
            self._ask(Execute(self._places[node], text, background))

    def do_pingall(self, _: str) -> None:
        """pingall"""
        self._ask(PingAll())

    def do_nodes(self, _: str) -> None:
        """nodes"""
        print(nodes(self._fabric))

    def do_links(self, _: str) -> None:
        """links"""
        print(*links(self._fabric), sep="\n")

    def do_net(self, _: str) -> None:
        """net"""
        print(*net(self._fabric), sep="\n")

    def do_dump(self, _: str) -> None:
        """dump"""
        print(*dump(self._fabric, self._conversation.pids), sep="\n")

    def do_time(self, _: str) -> None:
        """time"""
        print(f"{self._conversation.virtual_s:.9f} s of virtual time since the network was built")

    def do_help(self, _: str) -> None:
        """help"""
        print(HELP)

    def do_exit(self, _: str) -> bool:
        """exit"""
        return True

    do_quit = do_exit

    def do_EOF(self, _: str) -> bool:  # noqa: N802 (cmd's name for the end of the input)
        """Ctrl-D"""
        print()
        return True

    def completenames(self, text: str, *_: object) -> list[str]:
        """Nodes and commands that begin so."""
        return [word for word in (*self._places, *self.own_words) if word.startswith(text)]

    def completedefault(self, text: str, *_: object) -> list[str]:
        """Nodes, as arguments of a command on one."""
        return [word for word in self._places if word.startswith(text)]

    def _ask(self, command: Command) -> None:
        if refused := self._conversation.ask(command):
            print(refused)


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
