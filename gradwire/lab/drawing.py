"""A lab's network as its user draws it, and the fabric that it stands for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gradwire.datatypes.host_settings import HostTcp
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.network.links import Port
from gradwire.network.network_graph import GraphLink, NetworkGraph
from gradwire.network.topology import Topology
from gradwire.workloads.stand_in import MOST_CAPACITY_BPS
from gradwire.workloads.units import DURATION, RATE, SHARE, SIZE, Quantity, rate_text

HOST_LETTERS, SWITCH_LETTERS = 10, 8
"""Largest lengths of names of hosts and switches: interfaces are called "NAME-eth0" or "NAME-eth123", and Linux allows
15 letters (IFNAMSIZ)."""
NAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?")
TAKEN = re.compile(r"lo|localhost|ip6-.*|ovs-.*|l\d+[ab]", re.IGNORECASE)
"""Names that are taken: loopback, Open vSwitch's devices, and those inside long links (topo/long_links.py)."""
LEAST_BPS, MOST_BPS = 1e3, 1e12
"""Line rates of one link. tc's clock counts a frame in nanoseconds: beyond, they are fewer than 16."""
ETHERNET_HEADER_BYTES = 14
WHOLE_BURST_BYTES = 65536
LEAVING_S = 1e-6
"""The shortest delay of hosts' links where switches have buffers. Without any, a packet counts as not sent by its socket
until it has left the last switch's queue (TCP small queues, net/ipv4/tcp_output.c): cubic and BBR then sent so little
ahead that a buffer of 50 kB dropped nothing. The delay line (topo/long_links.py) takes it from its socket."""


@dataclass(frozen=True)
class LinkLike:
    """Properties of a link, in base units."""

    rate_bps: float
    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    #: Bytes that the ports of switches hold before they drop; 0 for queues without an end.
    buffer_bytes: int = 0
    #: Length of queues from which they mark (ECN); 0 for never.
    ecn_bytes: int = 0


class Drawn(NamedTuple):
    """A link between two devices, by their names."""

    a: str
    b: str
    like: LinkLike


def quantity(key: str, value: str | float, kind: Quantity) -> float:
    """A quantity with its unit, or a number in the base unit. Raises InputFault that names the key."""
    if isinstance(value, str):
        try:
            return kind.parse(value)
        except ValueError as error:
            raise InputFault(f"{key} = {value!r}: {error}") from error
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise InputFault(f"{key} = {value!r}: {kind.expected}")
    return float(value)


def seconds(key: str, value: str | float) -> float:
    """A duration: "10ms", or a number of seconds."""
    return quantity(key, value, DURATION)


def share(key: str, value: str | float) -> float:
    """A share below 1: "1%", or 0.01."""
    found = quantity(key, value, SHARE)
    if found >= 1:
        raise InputFault(f"{key} = {value!r}: must be below 100%; where nothing gets through, the link is down()")
    return found


def line_rate_bps(key: str, value: str | float) -> float:
    """A line rate that a link can have."""
    found = quantity(key, value, RATE)
    if not LEAST_BPS <= found <= MOST_BPS:
        raise InputFault(f"{key} = {value!r}: links have {rate_text(LEAST_BPS)} to {rate_text(MOST_BPS)}")
    return found


def size_bytes(key: str, value: str | float) -> int:
    """A number of bytes: "64KiB"."""
    return round(quantity(key, value, SIZE))


def name_defect(name: str, taken: Mapping[str, str], *, is_host: bool) -> str:
    """Why a device cannot be called that; "" if it can. taken: the kind of each device by its name."""
    most = HOST_LETTERS if is_host else SWITCH_LETTERS
    kind = "host" if is_host else "switch"
    if name in taken:
        return f"{name}: there is a {taken[name]} called that already; names are for one device each"
    if not NAME.fullmatch(name) or TAKEN.fullmatch(name) or len(name) > most:
        return (
            f"{name!r}: a {kind} is called by a letter and up to {most - 1} more letters, digits or dashes, such as "
            f"{'h1' if is_host else 's1'}, and not lo, ip6-... or ovs-..."
        )
    return ""


def link_defect(a: str, b: str, kinds: Mapping[str, str], links: Sequence[Drawn]) -> str:
    """Why there cannot be a link between two devices; "" if there can. kinds: "host" or "switch", by name."""
    if a == b:
        return f"{a}: a link joins two devices"
    if kinds[a] == kinds[b] == "host":
        return f"{a} and {b} are hosts, which meet at a switch: net.link({a}, s1) and net.link({b}, s1)"
    for link in links:
        for host in (a, b):
            if kinds[host] == "host" and host in (link.a, link.b):
                return f"{host} has a link already, to {link.b if link.a == host else link.a}; a host has one"
    return ""


@dataclass(frozen=True)
class Drawing:
    """Hosts, switches and the links between them."""

    hosts: Sequence[str]
    switches: Sequence[str]
    links: Sequence[Drawn]

    def fabric(self, *, seed: int, mtu_bytes: int) -> Fabric:
        """The network to build. Raises InputFault for one that cannot be.

        Hosts' TCP is as Linux comes. Where a link loses packets or has a buffer, hosts send frame by frame, because a
        burst would be lost as a whole.
        """
        defects = list(self._defects())
        if defects:
            raise InputFault("\n".join(defects))
        places = {name: index for names in (self.hosts, self.switches) for index, name in enumerate(names)}
        of_host = {self._host_of(link): self._graph_link(link, places) for link in self.links if self._host_of(link)}
        graph = NetworkGraph(
            switches=len(self.switches),
            host_links=tuple(of_host[name] for name in self.hosts),
            trunks=tuple(self._graph_link(link, places) for link in self.links if not self._host_of(link)),
            host_labels=tuple(self.hosts),
            switch_labels=tuple(self.switches),
            title="a lab's network",
        )
        frame_bytes = mtu_bytes + ETHERNET_HEADER_BYTES
        by_frame = any(link.like.loss or link.like.buffer_bytes or link.like.ecn_bytes for link in self.links)
        return Fabric(
            hosts=len(self.hosts),
            rate_bps=max(link.rate_bps for link in graph.host_links),
            topology=Topology.CUSTOM,
            graph=graph,
            classes=1,
            mtu_bytes=mtu_bytes,
            gso_bytes=frame_bytes if by_frame else WHOLE_BURST_BYTES,
            seed=seed,
            host_tcp=HostTcp.STOCK,
            faulty=True,
        )

    def labels(self) -> dict[str, str]:
        """The user's names of devices, by their names in the fabric."""
        hosts = {f"h{number}": name for number, name in enumerate(self.hosts, 1)}
        return hosts | {f"s{number}": name for number, name in enumerate(self.switches, 1)}

    def port_of(self, number: int, fabric: Fabric) -> str:
        """The interface at one end of the link with this number among those drawn, by its name in the fabric."""
        link = self.links[number]
        if host := self._host_of(link):
            return Port(f"h{self.hosts.index(host) + 1}", 0).interface
        before = sum(not self._host_of(other) for other in self.links[:number])
        return fabric.trunk_links()[before].a.interface

    def _host_of(self, link: Drawn) -> str:
        """The host at a link; "" for one between switches."""
        return next((end for end in (link.a, link.b) if end in self.hosts), "")

    def _graph_link(self, link: Drawn, places: Mapping[str, int]) -> GraphLink:
        a, b = (link.b, link.a) if link.b in self.hosts else (link.a, link.b)
        like = link.like
        if a in self.hosts and any(other.like.buffer_bytes or other.like.ecn_bytes for other in self.links):
            like = replace(like, delay_s=max(like.delay_s, LEAVING_S))
        return GraphLink(
            places[a],
            places[b],
            like.rate_bps,
            like.delay_s,
            like.jitter_s,
            like.loss,
            like.buffer_bytes,
            like.ecn_bytes,
        )

    def _defects(self) -> Iterator[str]:
        if not self.hosts:
            yield 'the network has no host: net.host("h1") adds one'
        linked = {self._host_of(link) for link in self.links}
        for name in self.hosts:
            if name not in linked:
                yield f"{name} has no link: net.link({name}, s1) joins it to a switch"
        total_bps = sum(link.like.rate_bps for link in self.links if self._host_of(link))
        if total_bps > MOST_CAPACITY_BPS:
            yield (
                f"all hosts together could send {rate_text(total_bps)}, and the virtual clock carries "
                f"{rate_text(MOST_CAPACITY_BPS)}; use fewer hosts or lower rates"
            )
