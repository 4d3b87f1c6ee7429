"""How switches choose ways, and the rows of a table that says it. Imports only the standard library."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Routing(StrEnum):
    """How switches choose among equally short ways."""

    #: Evenly, pair by pair of hosts (controller/flows.py: SummitChoice, datatypes/balanced_routes.py).
    BALANCED = "balanced"
    #: By a hash of each connection's five-tuple (datatypes/hashed_routes.py).
    ECMP = "ecmp"
    #: By a table, and by such a hash where a row has several next hops (datatypes/static_routes.py).
    STATIC = "static"
    #: As the flows say that a controller of the user's own installs; read back before the first byte
    #: (datatypes/read_ways.py).
    CONTROLLER = "controller"

    @property
    def is_by_connection(self) -> bool:
        """Whether two connections of the same hosts may take different ways."""
        return self in (Routing.ECMP, Routing.STATIC)

    @property
    def is_by_summit(self) -> bool:
        """Whether a spine or core tells the way, where switches are in tiers."""
        return self is Routing.BALANCED


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
