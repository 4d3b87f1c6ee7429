"""A network or a table of routes that a user describes, as a scenario has them under `defined.networks` and
`defined.routes`; files of other forms are turned into these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from gradwire.network.routed_network import Route
from gradwire.scenario.sections.fabric import LARGEST_LOSS, LONGEST_DELAY_S
from gradwire.workloads.fields import MOST_WORKERS, DurationS, InWords, RateBps, Section, SizeBytes

MOST_SWITCHES = 256
"""Each pair of switches with hosts has its ways, and each way needs a rule at every switch: 64 switches with 256 hosts have 139,000."""
MOST_NODES = MOST_SWITCHES + MOST_WORKERS
MOST_LINKS = 2**14
NodeName = Annotated[str, Field(min_length=1, max_length=64)]
MOST_ROWS = 10_000
"""Largest number of rows: as many as 64 switches with 156 hosts have without patterns."""
MOST_NEXT = 256
NodePattern = Annotated[str, Field(min_length=1, max_length=64)]


class NetworkLink(Section):
    """A link between two switches, or of a host to its switch."""

    a: NodeName
    """A host or a switch."""
    b: NodeName
    """The other."""
    rate: RateBps | None = None
    """Line rate of each direction; `fabric.rate` where it is left out."""
    delay: DurationS | None = Field(None, ge=0, le=LONGEST_DELAY_S)
    """How long packets are under way; `fabric.delay` where it is left out."""
    jitter: DurationS = Field(0.0, ge=0, le=LONGEST_DELAY_S)
    """How much longer a packet may be under way, at random."""
    loss: float = Field(0.0, ge=0, le=LARGEST_LOSS)
    """Share of frames of each direction that are lost at random."""
    buffer: SizeBytes | None = Field(None, ge=1)
    """What a switch's port holds of each traffic class there."""
    ecn: SizeBytes | None = Field(None, ge=1)
    """Length from which on such a queue marks packets."""


class NetworkDefinition(Section):
    """A network of your own: its switches, its hosts, and the links between them."""

    hosts: tuple[NodeName, ...] = Field((), max_length=MOST_WORKERS)
    """Names of the hosts, in the order in which ranks are placed on them; one with several links has as many NICs
    (`cluster.nics_per_host`). Without any, the hosts that the job needs are spread over all switches."""
    switches: tuple[NodeName, ...] = Field(min_length=1, max_length=MOST_SWITCHES)
    """Names of the switches."""
    links: tuple[NetworkLink, ...] = Field((), max_length=MOST_LINKS)
    """All links. Several may join the same two switches."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        # Whether a network is in one part shows once its links are right.
        if lines := list(dict.fromkeys(self._defects())) or list(self._islands()):
            raise ValueError("\n".join(lines))
        return self

    def _defects(self) -> Iterator[str]:
        for name, count in Counter((*self.hosts, *self.switches)).items():
            if count > 1:
                yield f"{count} nodes are called '{name}'"
            if not name.isprintable():
                yield f"node {name!a}: names have printable characters alone"
        hosts, switches = set(self.hosts), set(self.switches)
        ends: Counter[str] = Counter()
        for number, link in enumerate(self.links):
            for key, name in (("a", link.a), ("b", link.b)):
                if name not in hosts | switches:
                    yield f"links.{number}.{key} = '{name}': is neither a host nor a switch"
                ends[name] += 1
            if link.a == link.b:
                yield f"links.{number}: joins '{link.a}' to itself"
            if {link.a, link.b} <= hosts:
                yield f"links.{number}: joins the hosts '{link.a}' and '{link.b}'; links of hosts go to switches"
        for host in self.hosts:
            if not ends[host]:
                yield f"host '{host}' has no link; must have one to a switch"

    def _islands(self) -> Iterator[str]:
        """Nodes to which no way leads from the first switch."""
        near: dict[str, list[str]] = {name: [] for name in (*self.hosts, *self.switches)}
        for link in self.links:
            if link.a in near and link.b in near:
                near[link.a].append(link.b)
                near[link.b].append(link.a)
        found = dict.fromkeys(self.switches[:1])
        waiting = list(found)
        for here in waiting:
            for there in near[here]:
                if there not in found:
                    found[there] = None
                    waiting.append(there)
        lost = [name for name in near if name not in found]
        if lost:
            yield f"no way leads from '{self.switches[0]}' to '{lost[0]}': the network must be connected"

    @property
    def drops_or_marks(self) -> bool:
        """Whether the queue of any switch's port drops or marks packets."""
        return any(link.buffer or link.ecn for link in self.links)


def _next_hops(value: Any) -> Any:
    return tuple(value.split()) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


NextHops = Annotated[
    tuple[NodePattern, ...],
    Field(min_length=1, max_length=MOST_NEXT),
    BeforeValidator(_next_hops, json_schema_input_type=str | list[str]),
    InWords('switches or ports, such as "s5" or ["s5", "s6-eth2"]'),
]


class RouteRow(Section):
    """Where switches send packets to hosts. Of the rows that match a switch and a host, the last one counts."""

    switch: NodePattern
    """A switch, or a pattern such as "s*"."""
    destination: NodePattern
    """A host, or a pattern such as "h1?" or "*"."""
    next: NextHops
    """The neighbouring switch, which stands for all links to it, or a port such as "s1-eth3". Over several, connections are hashed."""


class RoutesDefinition(Section):
    """A table of routes of your own."""

    route: tuple[RouteRow, ...] = Field(min_length=1, max_length=MOST_ROWS)
    """The rows."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """The rows as a fabric has them."""
        return tuple(Route(row.switch, row.destination, row.next) for row in self.route)
