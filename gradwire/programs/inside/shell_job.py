"""Carries out a person's commands on hosts. `python -m gradwire.programs.inside.shell_job FOLDER KEY`, inside the
kernel."""

from __future__ import annotations

import select
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import permutations
from pathlib import Path

from gradwire.datatypes.records import PlannedFault
from gradwire.faults import Fault
from gradwire.injection import Act, Patient
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.programs.inside.channel import Channel
from gradwire.programs.inside.lab import CONTROLLER_PORT, Lab, run_inside
from gradwire.programs.inside.processes import Processes, Running, Streams, one_terminal
from gradwire.programs.inside.terminals import (
    COMPUTING,
    INTERRUPT_KEY,
    SETTLE_S,
    TICK_S,
    WINDOW,
    Foreground,
    Windows,
)
from gradwire.programs.program_protocol import (
    NO_HOST,
    Change,
    CommandDone,
    Execute,
    Output,
    PingAll,
    Refused,
    Task,
)
from gradwire.programs.typed_protocol import FOREGROUND, Interrupt, Keys, Open, Resized, Shut
from gradwire.topo.network import Network

ECHO_REQUEST, ECHO_REPLY = 8, 0
ECHO = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence number (RFC 792)."""
WAIT_S = 1.0
STALE_S = 1.0
"""After a switch has its rules again, what it decided without them holds for up to half a second (max-revalidator)."""
IP_HEADER_BYTES = 20
MACHINE = "switches"
"""What the shell of a window calls the place where they are."""


def reached(network: Network, source: int, hosts: Sequence[int]) -> set[int]:
    """Those of the other hosts that answer host `source` within a virtual second, all asked at once."""
    others = {network.fabric.host_ip(host): host for host in hosts if host != source}
    with _icmp(network, source) as icmp:
        for address, host in others.items():
            icmp.sendto(echo_request(source, host), (address, 0))
        return _answers(icmp, others)


def round_trip_s(network: Network, source: int, host: int) -> float | None:
    """How long host `source` waits for the answer of another; None if none comes within a virtual second."""
    with _icmp(network, source) as icmp:
        begin_s = time.monotonic()
        icmp.sendto(echo_request(source, host), (network.fabric.host_ip(host), 0))
        answered = _answers(icmp, {network.fabric.host_ip(host): host})
        return time.monotonic() - begin_s if answered else None


def _icmp(network: Network, source: int) -> socket.socket:
    with network_namespace(namespace_of(network.host_pid(source))):
        return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


def _answers(icmp: socket.socket, others: Mapping[str, int]) -> set[int]:
    answered: set[int] = set()
    end_s = time.monotonic() + WAIT_S
    while len(answered) < len(others) and (left_s := end_s - time.monotonic()) > 0:
        if select.select([icmp], [], [], left_s)[0]:
            packet, (address, _) = icmp.recvfrom(2048)
            if packet[IP_HEADER_BYTES] == ECHO_REPLY and address in others:
                answered.add(others[address])
    return answered


def echo_request(identifier: int, sequence: int) -> bytes:
    """The ICMP message."""
    unsummed = ECHO.pack(ECHO_REQUEST, 0, 0, identifier, sequence)
    return ECHO.pack(ECHO_REQUEST, 0, _checksum(unsummed), identifier, sequence)


def _checksum(data: bytes) -> int:
    """The Internet checksum of an even number of bytes (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


SHELL = "/bin/sh"


class Commands:
    """Carries out one command after the other; what was started in the background runs while another command does."""

    def __init__(self, task: Task, lab: Lab, channel: Channel) -> None:
        self._task, self._lab, self._channel = task, lab, channel
        self._processes = Processes(lab.hosts, lab.sandbox, channel)
        self._patient = Patient(lab.network, lab.controller, CONTROLLER_PORT, has_seed=lab.abilities.has_netem_seed)
        self._out: list[PlannedFault] = []
        self._foreground: tuple[Running, Foreground] | None = None
        self._waiting: deque[Execute | PingAll | Change] = deque()
        settle_s = SETTLE_S * (COMPUTING if task.cpu_time else 1)
        self.windows = Windows(self._processes, channel, self._name_of, self._begin_window, settle_s)

    def next(self) -> Execute | PingAll | Change:
        """What is asked for next. Until then time passes while a command runs in a window, and otherwise not."""
        while not self._waiting:
            if self.windows.at_rest():
                self.hear(self._channel.rest())
            else:
                self._follow_for_a_while(lambda: bool(self._waiting) or self.windows.at_rest())
        return self._waiting.popleft()

    def hear(self, command: object) -> None:
        """Does what was done at a terminal, and keeps the rest for `next`."""
        match command:
            case Keys(window=number, data=data) if number == FOREGROUND:
                if self._foreground is not None:
                    program, terminal = self._foreground
                    terminal.press(data, program)
            case Interrupt():
                if self._foreground is not None:
                    program, terminal = self._foreground
                    terminal.press(INTERRUPT_KEY, program)
            case Resized(window=number, size=size) if number == FOREGROUND:
                if self._foreground is not None:
                    self._foreground[1].resize(size)
            case Open() | Keys() | Resized() | Shut():
                self.windows.obey(command)
            case Execute() | PingAll() | Change():
                self._waiting.append(command)

    def _name_of(self, command: Open) -> str:
        return self._lab.hosts[command.host].name if command.host != NO_HOST else MACHINE

    def _begin_window(self, command: Open, argv: list[str], streams: Streams) -> Running:
        env = {**self._environment(command.host), "TERM": command.kind}
        return self._processes.start(command.host, argv, env, self._task.folder, name=WINDOW, streams=streams)

    def _environment(self, index: int) -> dict[str, str]:
        host = None if index == NO_HOST else self._lab.hosts[index]
        own = {} if host is None else {"GRADWIRE_HOST": host.name, "TMPDIR": str(host.temporary)}
        return {**self._task.env, **own}

    def _follow_for_a_while(self, until: Callable[[], bool]) -> None:
        """Lets time pass at a person's pace, until something is so."""
        tick_s = time.monotonic() + TICK_S
        while time.monotonic() < tick_s:
            self.windows.follow(until, tick_s, self.hear)
            if until():
                return
        self._channel.let_pass()

    def carry_out(self, command: Execute | PingAll | Change) -> None:
        """Does what a command says. Raises a Fault if that cannot be done."""
        match command:
            case Execute():
                self._execute(command)
            case PingAll(hosts=hosts, is_full=is_full):
                chosen = hosts or tuple(range(len(self._lab.hosts)))
                (self._ping_full if is_full else self._ping_all)(chosen)
            case Change():
                self._change(command)

    def _execute(self, command: Execute) -> None:
        """Starts a line on a host, and waits for its end unless it goes to the background."""
        size = command.terminal
        if size is None or command.background:
            self._run(command, None)
        else:
            with closing(Foreground(size)) as terminal:
                self._run(command, terminal)
        self._processes.pass_on_what_is_there(self.hear)

    def _run(self, command: Execute, terminal: Foreground | None) -> None:
        env = self._environment(command.host)
        program = self._processes.start(
            command.host,
            [SHELL, "-c", command.line],
            env,
            self._task.folder,
            name=command.name,
            streams=one_terminal(ends_lines=command.terminal is not None) if terminal is None else terminal.streams,
        )
        if terminal is not None:
            self._foreground = program, terminal
            try:
                while program.status is None:
                    self._follow_for_a_while(lambda: program.status is not None)
            finally:
                self._foreground = None
        elif not command.background:
            signals = iter([signal.SIGINT])

            def hear(command: object) -> None:
                """The first Ctrl-C asks a program to end, a second one ends it."""
                if isinstance(command, Interrupt):
                    program.signal(next(signals, signal.SIGKILL))
                else:
                    self.hear(command)

            self._processes.follow(lambda: program.status is not None, on_command=hear)

    def _change(self, command: Change) -> None:
        """Takes something out of the network or puts it back; nothing for what is so already."""
        fault = PlannedFault(command.place, command.kind, 0, place=command.place)
        if command.is_out == (fault in self._out):
            return
        out = [*self._out, fault] if command.is_out else [each for each in self._out if each != fault]
        self._patient.apply(fault, Act.BEGIN if command.is_out else Act.END, out)
        self._out = out
        if command.kind == "switch-restart" and not command.is_out:
            self._patient.settle()
            time.sleep(STALE_S)

    def _ping_all(self, chosen: Sequence[int]) -> None:
        """Says who reaches whom, in Mininet's words."""
        hosts = self._lab.hosts
        lost = total = 0
        for source in chosen:
            found = reached(self._lab.network, source, chosen)
            others = [index for index in chosen if index != source]
            total += len(others)
            lost += len(others) - len(found)
            seen = (hosts[index].name if index in found else "X" for index in others)
            self._write(f"{hosts[source].name} -> {' '.join(seen)}\n")
        share = 100 * lost / total if total else 0
        self._write(f"*** Results: {share:.0f}% dropped ({total - lost}/{total} received)\n")

    def _ping_full(self, chosen: Sequence[int]) -> None:
        """Says how long each answer takes: one request after the other, so that none waits for another."""
        hosts = self._lab.hosts
        self._write("*** Results:\n")
        for source, host in permutations(chosen, 2):
            time_s = round_trip_s(self._lab.network, source, host)
            said = "0/1 received" if time_s is None else f"1/1 received, rtt {time_s * 1e3:.6f} ms"
            self._write(f" {hosts[source].name}->{hosts[host].name}: {said}\n")

    def _write(self, text: str) -> None:
        self._channel.say(Output(NO_HOST, 1, text.encode()))


def obey(task: Task, _: Path, lab: Lab, channel: Channel) -> None:
    """Carries out commands until the kernel is ended from outside."""
    begin_s = time.monotonic()
    commands = Commands(task, lab, channel)
    channel.say(CommandDone(0.0))
    while True:
        try:
            commands.carry_out(commands.next())
        except Fault as fault:
            channel.say(Refused(type(fault).__name__, str(fault)))
        channel.say(CommandDone(time.monotonic() - begin_s))


if __name__ == "__main__":
    run_inside(obey)
