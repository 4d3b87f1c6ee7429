"""A network of any shape as frozen data: switches, the links between them, and which hosts are where. Imports only the
standard library.

Hosts of networks that a few numbers describe (network/graph_shapes.py) are spread evenly: host i of n is at switch
i * switches / n, rounded down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from gradwire.network.links import Link, LinkBetween, Port

Pairs = list[tuple[int, int]]
"""The switches at the ends of each link."""


@dataclass(frozen=True)
class GraphLink(LinkBetween[int, int]):
    """A link between two devices, by their numbers: `a` is a host or a switch, and `b` a switch."""

    def between(self, a: Port, b: Port) -> Link:
        """The link at these ports."""
        return Link(a, b, **{name: value for name, value in asdict(self).items() if name not in ("a", "b")})


@dataclass(frozen=True)
class NetworkGraph:
    """Switches and their links. Every host has one link, to a switch; a switch may have none. Several links may join
    two switches."""

    switches: int
    #: The link of each host: the one from host i is element i.
    host_links: tuple[GraphLink, ...]
    #: Links between switches.
    trunks: tuple[GraphLink, ...]
    #: Names that the author of the network gave to hosts and switches; empty for h1, h2, ... and s1, s2, ...
    host_labels: tuple[str, ...] = ()
    switch_labels: tuple[str, ...] = ()
    #: Description of the network: "torus 4 x 4".
    title: str = ""

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> NetworkGraph:
        """Inverse of `dataclasses.asdict`, also after a passage through JSON."""
        return NetworkGraph(
            fields["switches"],
            tuple(GraphLink(**link) for link in fields["host_links"]),
            tuple(GraphLink(**link) for link in fields["trunks"]),
            tuple(fields["host_labels"]),
            tuple(fields["switch_labels"]),
            fields["title"],
        )

    def with_rates_times(self, factor: float) -> NetworkGraph:
        """The network with the rate of every link multiplied."""

        def faster(links: tuple[GraphLink, ...]) -> tuple[GraphLink, ...]:
            return tuple(replace(link, rate_bps=link.rate_bps * factor) for link in links)

        return replace(self, host_links=faster(self.host_links), trunks=faster(self.trunks))

    @cached_property
    def hosts_of_switches(self) -> tuple[tuple[int, ...], ...]:
        """Hosts at each switch, in the order of its ports, which are the first."""
        hosts: list[list[int]] = [[] for _ in range(self.switches)]
        for host, link in enumerate(self.host_links):
            hosts[link.b].append(host)
        return tuple(tuple(each) for each in hosts)

    @cached_property
    def host_ports(self) -> tuple[int, ...]:
        """Number of the switch's port towards each host."""
        ports = {host: place for hosts in self.hosts_of_switches for place, host in enumerate(hosts, 1)}
        return tuple(ports[host] for host in range(len(self.host_links)))

    @cached_property
    def trunk_ports(self) -> tuple[tuple[int, int], ...]:
        """Numbers of the ports at the ends of each trunk: behind those towards hosts, in the order of the trunks."""
        used = [len(hosts) for hosts in self.hosts_of_switches]
        ports = []
        for trunk in self.trunks:
            ends = []
            for switch in (trunk.a, trunk.b):
                used[switch] += 1
                ends.append(used[switch])
            ports.append((ends[0], ends[1]))
        return tuple(ports)

    @cached_property
    def neighbours(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Returns, for each switch, the switch at the other end of each of its trunks, with the trunk's number."""
        found: list[list[tuple[int, int]]] = [[] for _ in range(self.switches)]
        for number, trunk in enumerate(self.trunks):
            found[trunk.a].append((trunk.b, number))
            found[trunk.b].append((trunk.a, number))
        return tuple(tuple(each) for each in found)

    def links(self, host_names: Sequence[str], switch_names: Sequence[str]) -> Iterator[Link]:
        """The links of hosts, then those between switches."""
        for host, link in enumerate(self.host_links):
            yield link.between(Port(host_names[host], 0), Port(switch_names[link.b], self.host_ports[host]))
        for trunk, (port_a, port_b) in zip(self.trunks, self.trunk_ports, strict=True):
            yield trunk.between(Port(switch_names[trunk.a], port_a), Port(switch_names[trunk.b], port_b))

    def distances(self, switch: int) -> list[int]:
        """Trunks from a switch to each other one on the shortest way; -1 where none leads there."""
        distances = [-1] * self.switches
        distances[switch], reached = 0, [switch]
        for here in reached:
            for there, _ in self.neighbours[here]:
                if distances[there] < 0:
                    distances[there] = distances[here] + 1
                    reached.append(there)
        return distances

    def defects(self) -> Iterator[str]:
        """Yields the reasons why the network is impossible, a line each."""
        if not self.switches:
            yield "fabric: the network has no switch"
            return
        for kind, labels, links in (("host", self.host_labels, self.host_links), ("link", (), self.trunks)):
            for number, link in enumerate(links):
                if not link.rate_bps > 0:
                    name = labels[number] if labels else f"{kind} {number + 1}"
                    yield f"fabric: {name} has a rate of {link.rate_bps:g} bit/s; must be above 0"
        lost = [switch for switch, distance in enumerate(self.distances(self.switch_of_first_host)) if distance < 0]
        if lost:
            first = self.switch_name(self.switch_of_first_host)
            yield f"fabric: no way leads from {first} to {self.switch_name(lost[0])}: the network must be connected"

    @property
    def switch_of_first_host(self) -> int:
        """The switch that the first host is at; the first one without hosts."""
        return self.host_links[0].b if self.host_links else 0

    def switch_name(self, switch: int) -> str:
        """Returns the user's name for a switch, or s1, s2, ... if the network has no names."""
        return self.switch_labels[switch] if self.switch_labels else f"s{switch + 1}"


def spread(
    hosts: int, switches: int, pairs: Pairs, rate_bps: float, title: str, nics_per_host: int = 1
) -> NetworkGraph:
    """A network with these links between switches, whose hosts are spread over all of them. With several NICs per machine, a
    host is a NIC, and those of a machine are at the same switch."""
    return NetworkGraph(
        switches,
        tuple(GraphLink(host, switch, rate_bps) for host, switch in enumerate(places(hosts, switches, nics_per_host))),
        tuple(GraphLink(a, b, rate_bps) for a, b in pairs),
        title=title,
    )


def places(hosts: int, switches: int, nics_per_host: int = 1) -> list[int]:
    """The switch of each host, spread evenly; of each NIC, where machines have several."""
    machines = hosts // nics_per_host
    return [host // nics_per_host * switches // machines for host in range(hosts)]
