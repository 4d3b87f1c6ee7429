"""Faults of traffic control, put into the argument lists from which the network is built in the machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import gradwire.inside.point
import gradwire.topo.network
import gradwire.topo.wiring
from gradwire.inside.injection import NetworkPatient
from gradwire.inside.point import ReplayBench
from gradwire.inside.point_protocol import PointTask
from gradwire.network.fabric import Fabric
from gradwire.network_namespace import network_namespace
from gradwire.topo.command import run
from gradwire.topo.flow_control import BuiltNetwork
from gradwire.topo.line_counters import LineCounters
from tests.mutations.fault import PROGRAMS, SLOWED, Fault, replace_in

Commands = list[list[str]]
FIRST_HOST, SILENT_HOST, SWITCH_TO_FIRST = "h1-eth0", "h3-eth0", "s1-eth1"

SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20
FRAME = bytes(
    [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 8, 0, 0x45, 0, 0, 100, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 3, 10, 0, 0, 1]
) + bytes(80)
"""From h3 to h1, which drops it for its checksum. Switches' rules are about such packets."""


def everywhere(_: str) -> bool:
    return True


def at(interface: str) -> Callable[[str], bool]:
    return lambda name: name == interface


def rated(share: float, where: Callable[[str], bool] = everywhere) -> Callable[[], None]:
    """Ports have another rate."""

    def make(original: Callable[..., Commands]) -> Callable[..., Commands]:
        def commands(interface: str, rate_bps: float, *more: Any, **named: Any) -> Commands:
            return original(interface, rate_bps * (share if where(interface) else 1), *more, **named)

        return commands

    return partial(replace_in, gradwire.topo.network, "port_commands", make)


def changed(change: Callable[[Commands], Commands], where: Callable[[str], bool] = everywhere) -> Callable[[], None]:
    """The commands of ports are others."""

    def make(original: Callable[..., Commands]) -> Callable[..., Commands]:
        def commands(interface: str, *more: Any, **named: Any) -> Commands:
            made = original(interface, *more, **named)
            return change(made) if where(interface) else made

        return commands

    return partial(replace_in, gradwire.topo.network, "port_commands", make)


def option(name: str, value: str) -> Callable[[Commands], Commands]:
    """Another value for an option wherever it is given."""

    def change(commands: Commands) -> Commands:
        return [
            [value if place and command[place - 1] == name else word for place, word in enumerate(command)]
            for command in commands
        ]

    return change


def without(*words: str) -> Callable[[Commands], Commands]:
    """Without the commands that have all of these words."""
    return lambda commands: [command for command in commands if not set(words) <= set(command)]


def leaf(*words: str) -> Callable[[Commands], Commands]:
    """Another queue below every band."""

    def change(commands: Commands) -> Commands:
        return [[*command[: command.index("fq")], *words] if "fq" in command else command for command in commands]

    return change


def no_bands(commands: Commands) -> Commands:
    """One queue below the shaper, with the bands' qdisc beside it under a handle that packets do not name."""
    return [[word.replace("1:", "7:") if word.startswith("1:") else word for word in command] for command in commands]


def one_band(commands: Commands) -> Commands:
    """Every band's class is that of the first: the queue of each replaces the one before."""
    return [[("1:1" if word in ("1:2", "1:3") else word) for word in command] for command in commands]


def unshaped(commands: Commands) -> Commands:
    """No shaper: the bands' qdisc is the port's own."""
    kept = [command for command in commands if "htb" not in command]
    return [
        [*command[: command.index("parent")], "root", *command[command.index("parent") + 2 :]]
        if "prio" in command
        else command
        for command in kept
    ]


def later(share: float, interface: str) -> Callable[[], None]:
    """After the rate probe, a port of the first host's link gets another rate."""
    shapers: Commands = []

    def noting(original: Callable[..., Commands]) -> Callable[..., Commands]:
        def commands(name: str, *more: Any, **named: Any) -> Commands:
            made = original(name, *more, **named)
            shapers.extend(command for command in made if "class" in command and name == interface)
            return made

        return commands

    def changing(original: Callable[..., float]) -> Callable[..., float]:
        def probe(task: PointTask, folder: Path, ready: ReplayBench) -> float:
            ratio = original(task, folder, ready)
            (shaper,) = option("rate", f"{round(_bit_s(shapers[0]) * share)}bit")(shapers)
            with (
                network_namespace(_namespace_of(ready.testbed.network, FIRST_HOST))
                if interface == FIRST_HOST
                else nullcontext()
            ):
                run(["tc", *["change" if word == "add" else word for word in shaper]])
            return ratio

        return probe

    def inject() -> None:
        replace_in(gradwire.topo.network, "port_commands", noting)
        replace_in(gradwire.inside.point, "_probe_rate", changing)

    return inject


def _namespace_of(network: BuiltNetwork, interface: str) -> str:
    """The network namespace of a host's port."""
    return network.namespace_of_port(next(link.a for link in network.fabric.links() if link.a.interface == interface))


def _bit_s(command: list[str]) -> int:
    return int(command[command.index("rate") + 1].removesuffix("bit"))


def begun(change: Callable[[LineCounters], None], after_s: float = 0.0) -> Callable[[], None]:
    """Something changes that time after programs have begun."""

    def make(original: Callable[[LineCounters], None]) -> Callable[[LineCounters], None]:
        def forget(counters: LineCounters) -> None:
            original(counters)
            if after_s:
                threading.Timer(after_s, change, (counters,)).start()
            else:
                change(counters)

        return forget

    return partial(replace_in, LineCounters, "forget", make)


def commanded(*commands: str, after_s: float = 0.0) -> Callable[[], None]:
    """Commands on the switches' side that time after programs have begun."""

    def change(_: LineCounters) -> None:
        for command in commands:
            run(command.split())

    return begun(change, after_s)


def at_a_host(interface: str, act: Callable[[Commands], None]) -> Callable[[], None]:
    """Something is done in the network namespace of a host's port 10 ms after programs have begun. It is given the commands that
    made the port's shapers."""
    shapers: Commands = []
    networks: list[BuiltNetwork] = []

    def noting(original: Callable[..., Commands]) -> Callable[..., Commands]:
        def commands(name: str, *more: Any, **named: Any) -> Commands:
            made = original(name, *more, **named)
            shapers.extend(command for command in made if "class" in command and interface == name)
            return made

        return commands

    def counting(
        original: Callable[[LineCounters, BuiltNetwork], None],
    ) -> Callable[[LineCounters, BuiltNetwork], None]:
        def counters_of(counters: LineCounters, network: BuiltNetwork) -> None:
            original(counters, network)
            networks.append(network)

        return counters_of

    def change(_: LineCounters) -> None:
        (network,) = networks
        with network_namespace(_namespace_of(network, interface)):
            act(shapers)

    def inject() -> None:
        replace_in(gradwire.topo.network, "port_commands", noting)
        replace_in(LineCounters, "__init__", counting)
        begun(change, 10e-3)()

    return inject


def reshaped(interface: str, *shares: float) -> Callable[[], None]:
    """From 10 ms on, a host's port has these shares of its rate, one after the other for 2 ms each, and the last for good."""

    def reshape(shapers: Commands) -> None:
        rate = _bit_s(shapers[0])
        for share in shares:
            (shaper,) = option("rate", f"{round(rate * share)}bit")(shapers)
            run(["tc", *["change" if word == "add" else word for word in shaper]])
            time.sleep(2e-3)

    return at_a_host(interface, reshape)


def passed_by() -> None:
    """The silent host sends frames that do not go through the queues of its port, far below its rate."""

    def send(_: Commands) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sent:
            sent.bind((SILENT_HOST, 0))
            sent.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
            for frame in [FRAME] * 20:
                sent.send(frame)

    at_a_host(SILENT_HOST, send)()


def beside_the_faults_own() -> None:
    """Whenever a fault changes the queues of a host, somebody makes the same change."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        def twice(patient: NetworkPatient, tool: str, device: str, batch: Commands) -> None:
            for _ in range(2 if device else 1):
                original(patient, tool, device, batch)

        return twice

    replace_in(NetworkPatient, "_run_batch", make)


def longer_frames() -> None:
    """Ports have an MTU of 9,000 bytes, of which the network's description says nothing."""

    def make(original: Callable[[Fabric], list[str]]) -> Callable[[Fabric], list[str]]:
        return lambda fabric: option("mtu", "9000")([original(fabric)])[0]

    replace_in(gradwire.topo.wiring, "_interface_options", make)


OF_PROGRAMS = [
    Fault("a line is taken away from a silent host", commanded("ip link del s1-eth3"), PROGRAMS),
    Fault(
        "a silent host's line is another one",
        commanded("ip link del s1-eth3", "ip link add s1-eth3 type veth peer name elsewhere"),
        PROGRAMS,
    ),
    Fault("a program's port is twice as fast for 2 ms", reshaped(FIRST_HOST, 2, 1), PROGRAMS),
    Fault(
        "shapers of programs' ports forgive 4 MB",
        changed(lambda made: option("cburst", "4mb")(option("burst", "4mb")(made))),
        PROGRAMS,
    ),
    Fault("a program's port is 5 % too fast", rated(1.05, at(FIRST_HOST)), PROGRAMS),
    Fault("programs' ports charge nothing but the bytes of frames", changed(option("overhead", "0")), PROGRAMS),
    Fault("programs' frames are six times as long", longer_frames, PROGRAMS),
    Fault("a program's port has no shaper", changed(unshaped, at(FIRST_HOST)), PROGRAMS),
    Fault(
        "a switch's rule drops datagrams",
        commanded("ovs-ofctl -O OpenFlow13 add-flow s1 table=0,priority=65000,udp,actions=drop"),
        PROGRAMS,
    ),
    Fault(
        "a switch's port swallows datagrams before they are counted",
        commanded(
            "tc qdisc add dev s1-eth1 ingress",
            "tc filter add dev s1-eth1 parent ffff: protocol ip u32 match ip protocol 17 0xff action drop",
        ),
        PROGRAMS,
    ),
    Fault("a queue that a fault changes is changed before, and is as it was", reshaped(SILENT_HOST, 1), SLOWED),
    Fault("a queue is changed in the moment in which a fault changes it", beside_the_faults_own, SLOWED),
    Fault("frames pass a queue by that a fault changes", passed_by, SLOWED),
]
"""Into a network that programs use, whose lines are counted behind all queues."""

FAULTS = [
    Fault("all ports are 5 % too fast", rated(1.05)),
    Fault("all ports are 5 % too slow", rated(0.95)),
    Fault("a host's port is 5 % too fast", rated(1.05, at(FIRST_HOST))),
    Fault(
        "uplinks are twice as fast",
        rated(2.0, lambda name: name in ("s1-eth3", "s1-eth4", "s2-eth3", "s2-eth4")),
        "tree",
    ),
    Fault(
        "uplinks are half as fast",
        rated(0.5, lambda name: name in ("s1-eth3", "s1-eth4", "s2-eth3", "s2-eth4")),
        "tree",
    ),
    Fault("rates leave the framing overhead out", rated(1538 / 1514)),
    Fault("rates count the framing overhead twice", rated(1514 / 1538)),
    Fault("a port has no shaper", changed(unshaped, at(FIRST_HOST))),
    Fault("a port has no queueing discipline", changed(lambda _: [], at(FIRST_HOST))),
    Fault("the bands have a handle that packets do not name", changed(no_bands)),
    Fault("all bands are one class", changed(one_band)),
    Fault("a band has no separate queue", changed(without("1:2", "fq"))),
    Fault("bands are FIFOs", changed(leaf("pfifo", "limit", "100000"))),
    Fault("queues hold two packets", changed(leaf("pfifo", "limit", "2"))),
    Fault(
        "a port loses 2 % of its packets",
        changed(leaf("netem", "limit", "100000", "loss", "2%"), at(SWITCH_TO_FIRST)),
    ),
    Fault(
        "a port delays its packets by 50 us",
        changed(leaf("netem", "limit", "100000", "delay", "50us"), at(SWITCH_TO_FIRST)),
    ),
    Fault("shapers forgive 4 MB", changed(lambda made: option("cburst", "4mb")(option("burst", "4mb")(made)))),
    Fault(
        "fair queues have their fast path",
        changed(lambda made: [c[: c.index("maxrate")] if "maxrate" in c else c for c in made]),
    ),
    Fault("a host's port is twice as fast after the probe", later(2.0, FIRST_HOST)),
    Fault("a switch's port is half as fast after the probe", later(0.5, SWITCH_TO_FIRST)),
    *OF_PROGRAMS,
]
