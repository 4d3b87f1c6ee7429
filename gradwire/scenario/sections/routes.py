"""A table of routes that a user writes, as a scenario has it under `defined.routes`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from gradwire.datatypes.routing import Route
from gradwire.workloads.fields import InWords, Section

MOST_ROWS = 10_000
"""As many as 64 switches with 156 hosts have without patterns."""
MOST_NEXT = 256
NodePattern = Annotated[str, Field(min_length=1, max_length=64)]


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
