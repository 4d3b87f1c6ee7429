"""The commands of ip, tc and Open vSwitch that put faults into a network and take them out again. Pure.

Several faults can be active at one link. Therefore the state of a link follows from all of them, and not from the last
change: it is down while any fault has it down, its delays add up, its losses are independent of one another, and its
rate is the lowest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from gradwire.datatypes.records import PlannedFault
from gradwire.network.fabric import MAX_BANDS, Fabric, Link, Port
from gradwire.topo.tc import Shaper, band_options
from gradwire.topo.wiring import Naming, asked_of_switches, controller_arguments, inner_end_of_far, near_end

CUTS = ("link-down", "flapping")
IMPAIRS = ("loss", "delay")


@dataclass(frozen=True)
class LinkState:
    """The state of a link: up or down, with its loss, delay and rate."""

    is_up: bool = True
    #: Share of packets that are lost in each direction.
    loss: float = 0.0
    #: Additional delay of packets.
    delay_s: float = 0.0
    #: Line rate that is left; infinite for the fabric's own.
    rate_bps: float = math.inf


@dataclass(frozen=True)
class NetworkCommands:
    """Commands by the program that takes them, and by where they are run: a device with its own network namespace, or
    "" for none."""

    ip: Mapping[str, list[list[str]]]
    tc: Mapping[str, list[list[str]]]


def link_at(fabric: Fabric, interface: str) -> Link:
    """The link with this port. Raises StopIteration if there is none."""
    return next(link for link in fabric.links() if interface in (link.a.interface, link.b.interface))


def links_of(fabric: Fabric, fault: PlannedFault) -> list[Link]:
    """The links that a fault of the network touches: one, or all of a switch; none for other faults."""
    if fault.kind == "switch-restart":
        return [link for link in fabric.links() if fault.place in (link.a.device, link.b.device)]
    return [link_at(fabric, fault.place)] if fault.place else []


def impaired_ports(fabric: Fabric, faults: Iterable[PlannedFault]) -> frozenset[Port]:
    """Ports that need a queue which can lose and delay packets."""
    links = (link_at(fabric, fault.place) for fault in faults if fault.kind in IMPAIRS)
    return frozenset(port for link in links for port in (link.a, link.b))


def state_of(fabric: Fabric, link: Link, active: Collection[PlannedFault]) -> LinkState:
    """State of a link while these faults are active."""
    here = [fault for fault in active if link in links_of(fabric, fault)]
    return LinkState(
        is_up=not any(fault.kind in (*CUTS, "switch-restart") for fault in here),
        loss=1 - math.prod(1 - fault.value for fault in here if fault.kind == "loss"),
        delay_s=sum(fault.value for fault in here if fault.kind == "delay"),
        rate_bps=min((fault.value for fault in here if fault.kind == "rate"), default=math.inf),
    )


def link_commands(
    link: Link,
    before: LinkState,
    after: LinkState,
    naming: Naming,
    *,
    shaper: Shaper,
    has_seed: bool,
    own_loss: Callable[[Port], float],
) -> NetworkCommands:
    """Commands that bring a link from one state to another.

    A link is cut at the end that is in the initial network namespace: the other end then has no carrier, but keeps its
    address and routes. What waits at both ends is lost, as it is when a cable is pulled.

    has_seed: whether netem takes a seed, with which losses repeat. own_loss: what the fabric itself loses at a port.
    """
    ip: dict[str, list[list[str]]] = {}
    tc: dict[str, list[list[str]]] = {}
    if before.is_up != after.is_up:
        ends = [naming.interface(near_end(link, naming)), inner_end_of_far(link, naming)]
        ip[""] = [["link", "set", end, "up" if after.is_up else "down"] for end in ends if end is not None]
    for port in (link.a, link.b):
        commands: list[list[str]] = []
        interface = naming.interface(port)
        if (before.loss, before.delay_s) != (after.loss, after.delay_s):
            loss = 1 - (1 - after.loss) * (1 - own_loss(port))
            seed = _seed(naming.fabric, port) if has_seed else None
            for band in range(naming.fabric.bands):
                options = band_options(naming.fabric, band, loss, after.delay_s, seed)
                commands.append(["qdisc", "change", "dev", interface, *options])
        if before.rate_bps != after.rate_bps:
            rate_bps = min(after.rate_bps, link.rate_bps)
            commands.append(["class", "change", "dev", interface, *shaper.line(naming.fabric, rate_bps)])
        if commands:
            tc.setdefault("" if naming.is_switch(port.device) else port.device, []).extend(commands)
    return NetworkCommands(ip, tc)


def _seed(fabric: Fabric, port: Port) -> int:
    """A seed of the port's own, with room for one of each band."""
    ports = [each for each, _ in fabric.ports()]
    return abs(fabric.seed) + (1 + ports.index(port)) * MAX_BANDS


def leave_controller(switch: str, naming: Naming) -> list[list[str]]:
    """Commands after which a switch has no controller, so that nobody installs rules while it is away."""
    return [asked_of_switches("ovs-vsctl", "del-controller", naming.device(switch))]


def forget_rules(switch: str, naming: Naming) -> list[list[str]]:
    """Commands after which a switch has no rules, as after its start."""
    bridge = naming.device(switch)
    return [asked_of_switches("ovs-ofctl", "-O", "OpenFlow13", words, bridge) for words in ("del-flows", "del-groups")]


def find_controller(switch: str, naming: Naming, controller_port: int) -> list[list[str]]:
    """Commands after which a switch connects to its controller, which installs its rules."""
    return [asked_of_switches("ovs-vsctl", *controller_arguments(naming.device(switch), controller_port)[1:])]
