"""Faults of traffic control, put into the argument lists from which the network is built in the machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import gradwire.inside.point
import gradwire.topo.network
from gradwire.agents.agent_processes import AgentGroup
from gradwire.inside.point_protocol import PointTask
from gradwire.network_namespace import network_namespace
from gradwire.topo.command import run
from tests.mutations.fault import Fault, replace_in

Commands = list[list[str]]
FIRST_HOST, SWITCH_TO_FIRST = "h1-eth0", "s1-eth1"


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
        def probe(task: PointTask, folder: Path, agents: AgentGroup) -> float:
            ratio = original(task, folder, agents)
            (shaper,) = option("rate", f"{round(_bit_s(shapers[0]) * share)}bit")(shapers)
            first_host = agents._processes[0].hosts[0]
            with network_namespace(first_host.namespace) if interface == FIRST_HOST else nullcontext():
                run(["tc", *["change" if word == "add" else word for word in shaper]])
            return ratio

        return probe

    def inject() -> None:
        replace_in(gradwire.topo.network, "port_commands", noting)
        replace_in(gradwire.inside.point, "_probe_rate", changing)

    return inject


def _bit_s(command: list[str]) -> int:
    return int(command[command.index("rate") + 1].removesuffix("bit"))


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
]
