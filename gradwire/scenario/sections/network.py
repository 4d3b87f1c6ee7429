"""A network or a table of routes that a user describes, as a scenario has them under `defined.networks` and
`defined.routes`; files of other forms are turned into these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from gradwire.network.routed_network import Route
from gradwire.scenario.sections.fabric import LARGEST_LOSS, LONGEST_DELAY_S
from gradwire.workloads.fields import (
    HIGHEST_RATE_BPS,
    LOWEST_RATE_BPS,
    MOST_WORKERS,
    Because,
    DurationS,
    InWords,
    Section,
    SizeBytes,
    quantity,
)
from gradwire.workloads.units import RATE

MOST_SWITCHES = 256
"""Each pair of switches with hosts has its ways, and each way needs a rule at every switch: 64 switches with 256 hosts have 139,000."""
MOST_NODES = MOST_SWITCHES + MOST_WORKERS
MOST_LINKS = 2**14
NodeName = Annotated[str, Field(min_length=1, max_length=64)]
SLOWEST_LINK_BPS = 9600.0
"""Lowest rate of a link in a file, a modem's: the backbones of the Topology Zoo begin at 20 kbit/s (CESNET, 1993)."""
FARTHEST_KM = 20_100.0
"""Largest distance of two places: half the Earth's circumference is 20,015 km."""
MOST_NOTES = 32
MOST_NOTE_NAMES = 8
LONGEST_NOTE_NAME = 64
MOST_ROWS = 10_000
"""Largest number of rows: as many as 64 switches with 156 hosts have without patterns."""
MOST_NEXT = 256
NodePattern = Annotated[str, Field(min_length=1, max_length=64)]


LinkRateBps = Annotated[
    float,
    quantity(RATE),
    RATE,
    Field(ge=SLOWEST_LINK_BPS, le=HIGHEST_RATE_BPS),
    Because("from that of a modem to beyond the fastest Ethernet"),
]


class NetworkLink(Section):
    """A link between two switches, or of a host to its switch."""

    a: NodeName
    """A host or a switch."""
    b: NodeName
    """The other."""
    rate: LinkRateBps | None = None
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
    distance_km: float | None = Field(None, ge=0, le=FARTHEST_KM)
    """How far apart its ends are by their coordinates, as the crow flies (`fabric.delay_from_coordinates`)."""


class NoteKind(StrEnum):
    """The ways in which a part of a file is not taken as it stands."""

    UNUSED = "unused"
    """Attributes, or keys, that are not used. names: theirs."""
    OVERRULED = "overruled"
    """Attributes that say something else than another one that counts. names: theirs."""
    SWITCHES = "switches"
    """Types of nodes that are taken for switches. names: the types."""
    OUTSIDE = "outside"
    """Nodes of other networks, which are switches as the others are."""
    ALONE = "alone"
    """Nodes without links, which are left out. names: theirs."""
    LOOPS = "loops"
    """Links of a node to itself, which are left out. names: the nodes."""
    STUBS = "stubs"
    """Links with one end, or with an end outside of the network, which are left out. names: the nodes, or the other ends."""
    LANS = "lans"
    """Links of more than two nodes, each of which is a switch. names: those of the switches."""
    INSIDE = "inside"
    """What is inside of machines, and left out. names: what it is."""


class NetworkNote(Section):
    """A part of a file that is not in the network as it is in the file."""

    kind: NoteKind
    """What became of it."""
    names: tuple[Annotated[str, Field(max_length=LONGEST_NOTE_NAME)], ...] = Field((), max_length=MOST_NOTE_NAMES)
    """Names that it is about."""
    more_names: int = Field(0, ge=0)
    """How many names there are besides."""
    nodes: int = Field(0, ge=0)
    """Nodes that it is about."""
    links: int = Field(0, ge=0)
    """Links that it is about."""


class NetworkDefinition(Section):
    """A network of your own: its switches, its hosts, and the links between them."""

    hosts: tuple[NodeName, ...] = Field((), max_length=MOST_WORKERS)
    """Names of the hosts, in the order in which ranks are placed on them; one with several links has as many NICs
    (`cluster.nics_per_host`). Without any, the hosts that the job needs are spread over all switches."""
    switches: tuple[NodeName, ...] = Field(min_length=1, max_length=MOST_SWITCHES)
    """Names of the switches."""
    links: tuple[NetworkLink, ...] = Field((), max_length=MOST_LINKS)
    """All links. Several may join the same two switches."""
    notes: tuple[NetworkNote, ...] = Field((), max_length=MOST_NOTES)
    """What the file has besides."""

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
            more = f" and {len(lost) - 1} more nodes" if len(lost) > 1 else ""
            yield (
                f"no way leads from '{self.switches[0]}' to '{lost[0]}'{more}: the network must be connected; join its parts with links, "
                "or leave one of them out"
            )

    @property
    def drops_or_marks(self) -> bool:
        """Whether the queue of any switch's port drops or marks packets."""
        return any(link.buffer or link.ecn for link in self.links)

    @property
    def is_slow(self) -> bool:
        """Returns whether any link has a lower rate than `fabric.rate` may have: a burst of 64 KiB takes too long there."""
        return any(link.rate is not None and link.rate < LOWEST_RATE_BPS for link in self.links)

    @property
    def fastest_of_hosts_bps(self) -> float | None:
        """The highest rate of the links of hosts; None if a link has no rate, or if there are no hosts."""
        if not self.hosts or any(link.rate is None for link in self.links):
            return None
        hosts = set(self.hosts)
        return max((link.rate or 0.0 for link in self.links if {link.a, link.b} & hosts), default=None)


def _next_hops(value: object) -> object:
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
