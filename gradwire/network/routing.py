"""The rules by which switches choose ways, and the rows of a table of routes. Imports only the standard library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Routing(StrEnum):
    """The rules by which switches choose among equally short ways."""

    #: Evenly, pair by pair of hosts (controller/flows.py: SummitChoice, network/balanced_routes.py).
    BALANCED = "balanced"
    #: By a hash of each connection's five-tuple (network/hashed_routes.py).
    ECMP = "ecmp"
    #: By a table, and by such a hash where a row has several next hops (network/static_routes.py).
    STATIC = "static"
    #: Burst by burst over all shortest ways in turn (network/sprayed_ways.py).
    SPRAY = "spray"
    #: Flowlet by flowlet, by a seeded choice of the sender's host (network/flowlets.py).
    FLOWLET = "flowlet"
    #: As the flows say that a user's controller installs; read back before the first byte
    #: (network/read_ways.py).
    CONTROLLER = "controller"

    @property
    def is_by_connection(self) -> bool:
        """Returns whether two connections between the same hosts may take different ways."""
        return self in (Routing.ECMP, Routing.STATIC)

    @property
    def is_by_summit(self) -> bool:
        """Returns whether packets go up to a spine or core and down again, if switches are in tiers."""
        return self in (Routing.BALANCED, Routing.SPRAY, Routing.FLOWLET)

    @property
    def is_by_burst(self) -> bool:
        """Returns whether bursts of one connection may take different ways; its host writes the way into each."""
        return self in (Routing.SPRAY, Routing.FLOWLET)


MOST_SPRAYED_WAYS = 64
"""Over which bursts are spread: as many rules for each destination at a leaf."""


def spray_defects(routing: Routing, summits: int, *, aggregates: bool, drops: bool) -> Iterator[str]:
    """Yields the reasons why bursts cannot take several ways of a fabric. summits: ways between two leaves of different
    pods; 1 for a graph, and 0 for a single switch. aggregates: whether switches add up. drops: whether anything drops
    or marks."""
    key = f"fabric.routing = '{routing}'"
    if not summits:
        yield f"{key}: needs several switches: any other fabric.topology than 'single'"
    elif summits > MOST_SPRAYED_WAYS:
        yield f"{key}: there are {summits} ways between two leaves (spines, or cores); must be at most {MOST_SPRAYED_WAYS}"
    if aggregates:
        yield (
            f"{key}: strategies that add up on switches need one way to each of them; use 'balanced' or 'ecmp', or another strategy"
        )
    if drops:
        yield (
            f"{key}: leave out fabric.loss, buffer and ecn, and those of links: hosts take what comes in any order, and would wait "
            "for what is lost until a timer expires; use 'balanced' or 'ecmp' with them"
        )


@dataclass(frozen=True)
class Route:
    """A row of a table of routes: where switches send packets to hosts."""

    #: A switch, or a pattern.
    switch: str
    #: A host, or a pattern.
    destination: str
    #: Neighbouring switches, each of which stands for all links to it, or ports such as "s1-eth3".
    next: tuple[str, ...]

    def __str__(self) -> str:
        """The row in an error message, behind its number."""
        return f"switch = '{self.switch}', destination = '{self.destination}'"
