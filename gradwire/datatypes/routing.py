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

    @property
    def is_by_connection(self) -> bool:
        """Whether two connections of the same hosts may take different ways."""
        return self is not Routing.BALANCED


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
