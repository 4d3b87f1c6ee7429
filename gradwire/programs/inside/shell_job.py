"""Carries out a person's commands on hosts. `python -m gradwire.programs.inside.shell_job FOLDER KEY`, inside the
kernel."""

from __future__ import annotations

import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gradwire.faults import Fault
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.programs.inside.channel import Channel
from gradwire.programs.inside.lab import Lab, run_inside
from gradwire.programs.inside.processes import Processes, Running, one_terminal
from gradwire.programs.program_protocol import (
    NO_HOST,
    CommandDone,
    Execute,
    Output,
    PingAll,
    Refused,
    Task,
)
from gradwire.topo.network import Network

ECHO_REQUEST, ECHO_REPLY = 8, 0
ECHO = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence number (RFC 792)."""
WAIT_S = 1.0
IP_HEADER_BYTES = 20


def reached(network: Network, source: int) -> set[int]:
    """The other hosts that answer host `source` within a virtual second."""
    fabric = network.fabric
    others = {fabric.host_ip(host): host for host in range(fabric.hosts) if host != source}
    with network_namespace(namespace_of(network.host_pid(source))):
        icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with icmp:
        for address, host in others.items():
            icmp.sendto(echo_request(source, host), (address, 0))
        return _answers(icmp, others)


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

    def carry_out(self, command: Execute | PingAll) -> None:
        """Does what a command says. Raises a Fault if that cannot be done."""
        if isinstance(command, Execute):
            self._execute(command)
        else:
            self._ping_all()

    def _execute(self, command: Execute) -> None:
        """Starts a line on a host, and waits for its end unless it goes to the background."""
        host = None if command.host == NO_HOST else self._lab.hosts[command.host]
        own = {} if host is None else {"GRADWIRE_HOST": host.name, "TMPDIR": str(host.temporary)}
        env = {**self._task.env, **own}
        program = self._processes.start(
            command.host, [SHELL, "-c", command.line], env, self._task.folder, streams=one_terminal()
        )
        if not command.background:
            self._processes.follow(lambda: program.status is not None, on_interrupt=_interrupting(program))
        self._processes.pass_on_what_is_there()

    def _ping_all(self) -> None:
        """Says who reaches whom, in Mininet's words."""
        hosts = self._lab.hosts
        lost = total = 0
        for source, host in enumerate(hosts):
            found = reached(self._lab.network, source)
            others = [index for index in range(len(hosts)) if index != source]
            total += len(others)
            lost += len(others) - len(found)
            seen = (hosts[index].name if index in found else "X" for index in others)
            self._write(f"{host.name} -> {' '.join(seen)}\n")
        share = 100 * lost / total if total else 0
        self._write(f"*** Results: {share:.0f}% dropped ({total - lost}/{total} received)\n")

    def _write(self, text: str) -> None:
        self._channel.say(Output(NO_HOST, 1, text.encode()))


def _interrupting(program: Running) -> Callable[[], None]:
    """What Ctrl-C does to a program: the first asks it to end, a second one ends it."""
    signals = iter([signal.SIGINT])
    return lambda: program.signal(next(signals, signal.SIGKILL))


def obey(task: Task, _: Path, lab: Lab, channel: Channel) -> None:
    """Carries out commands until the kernel is ended from outside."""
    begin_s = time.monotonic()
    commands = Commands(task, lab, channel)
    channel.say(CommandDone(0.0))
    while True:
        command = channel.next()
        if not isinstance(
            command, Execute | PingAll
        ):  # an Interrupt of a program that had just ended, or not yet begun
            continue
        try:
            commands.carry_out(command)
        except Fault as fault:
            channel.say(Refused(type(fault).__name__, str(fault)))
        channel.say(CommandDone(time.monotonic() - begin_s))


if __name__ == "__main__":
    run_inside(obey)
