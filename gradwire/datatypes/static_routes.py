"""Ways that a table says (`fabric.routing = "static"`): where each switch sends packets to each host. Pure; imports
only frozen data.

Of the rows that match a switch and a destination, the last one counts. Where it has several next hops, the switch
hashes connections over them, as in datatypes/hashed_routes.py. The host's own switch needs no row. Ways need not be
the shortest ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.hashed_routes import Exit, HashedRoutes
from gradwire.datatypes.routing import Route, Routing
from gradwire.faults import InputFault

KEY = "fabric.routes"
MOST_CELLS = 10**9
"""Pairs of a switch and a host that rows match, all rows together: a few seconds of work."""
WILDCARDS = frozenset("*?[")
NO_ROW = -1
Rows = npt.NDArray[np.int32]


class StaticRoutes(HashedRoutes):
    """The ways of a table, and the choice among next hops."""

    def __init__(self, fabric: Fabric) -> None:
        super().__init__(fabric)
        self._names = fabric.switch_names()
        self._rows = rows_of(fabric)
        self._exits_of_row: dict[tuple[int, int], tuple[Exit, ...]] = {}

    def row(self, switch: int, endpoint: int) -> int:
        """Number of the row, from 0 on, by which a switch sends to an endpoint; NO_ROW if none says it."""
        return int(self._rows[switch, endpoint])

    def exits_to(self, switch: int, endpoint: int) -> tuple[Exit, ...]:
        """The ways out of a switch towards an endpoint, by number of the port; none at its own switch, and where no
        row says any."""
        row = self.row(switch, endpoint)
        if row == NO_ROW or switch == self.fabric.switch_of(endpoint):
            return ()
        if (switch, row) not in self._exits_of_row:
            found = [each for word in self.fabric.routes[row].next for each in self.exits_named(switch, word)]
            self._exits_of_row[switch, row] = tuple(sorted(set(found), key=lambda each: each.port))
        return self._exits_of_row[switch, row]

    def exits_named(self, switch: int, word: str) -> list[Exit]:
        """The ways out of a switch that a next hop stands for: the port of that name, or all links to the switch of
        that name."""
        name = self._names[switch]
        return [each for each in self._exits[switch] if word in (f"{name}-eth{each.port}", self._names[each.far])]

    def neighbours(self, switch: int) -> list[str]:
        """Names of a switch's neighbours."""
        return list(dict.fromkeys(self._names[each.far] for each in self._exits[switch]))


def connection_routes(fabric: Fabric) -> HashedRoutes:
    """The ways of connections, where each may take another one. Raises InputFault for a table that matches too much."""
    return StaticRoutes(fabric) if fabric.routing is Routing.STATIC else HashedRoutes(fabric)


def most_trunks_on_way(fabric: Fabric) -> int:
    """Links between switches that a packet passes at most."""
    if fabric.routing is Routing.STATIC:
        routes = StaticRoutes(fabric)
        return max(_longest(routes, target) for target in range(fabric.endpoints))
    if fabric.graph is None:
        return 2 * len(fabric.tree.tiers)
    ends = [switch for switch, hosts in enumerate(fabric.graph.hosts_of_switches) if hosts]
    return max(distance for switch in ends for distance in fabric.graph.distances(switch))


def _longest(routes: StaticRoutes, target: int) -> int:
    """The most links between switches on a way to an endpoint; no more than there are switches, where ways are
    circles."""
    here = {routes.fabric.switch_of(endpoint) for endpoint in range(routes.fabric.endpoints)}
    for passed in range(len(routes.fabric.switch_names())):
        here = {each.far for switch in here for each in routes.exits_to(switch, target)}
        if not here:
            return passed
    return len(routes.fabric.switch_names())


def rows_of(fabric: Fabric) -> Rows:
    """The row that counts for each switch and endpoint; NO_ROW where none does. Raises InputFault if rows match too
    much."""
    return _rows(tuple(fabric.switch_names()), tuple(fabric.endpoint_names()), fabric.routes)


@lru_cache(maxsize=8)
def _rows(switches: tuple[str, ...], endpoints: tuple[str, ...], routes: tuple[Route, ...]) -> Rows:
    found: Rows = np.full((len(switches), len(endpoints)), NO_ROW, np.int32)
    switch_numbers, endpoint_numbers = _numbers(switches), _numbers(endpoints)
    cells = 0
    for number, route in enumerate(routes):
        at = _matching(route.switch, switch_numbers)
        to = _matching(route.destination, endpoint_numbers)
        cells += len(at) * len(to)
        if cells > MOST_CELLS:
            raise InputFault(
                f"{KEY}: row {number + 1} ({route}): the rows up to here match more than {MOST_CELLS:,} pairs of a switch and a host; use "
                "fewer rows"
            )
        found[np.ix_(at, to)] = number
    found.flags.writeable = False
    return found


def _numbers(names: Sequence[str]) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(names)}


def _matching(pattern: str, numbers: Mapping[str, int]) -> list[int]:
    if pattern in numbers:
        return [numbers[pattern]]
    if WILDCARDS.isdisjoint(pattern):
        return []
    return [number for name, number in numbers.items() if fnmatchcase(name, pattern)]


def route_defects(fabric: Fabric) -> list[str]:
    """What is wrong with a fabric's table, a line each, which names the row and its key: names, and then pairs of
    hosts without a way.

    Raises InputFault as `rows_of` does.
    """
    routes = StaticRoutes(fabric)
    lines = [line for number, route in enumerate(fabric.routes) for line in _of_row(routes, number, route)]
    return lines or list(_of_pairs(routes))


def _of_row(routes: StaticRoutes, number: int, route: Route) -> Iterator[str]:
    fabric, which = routes.fabric, f"{KEY}: row {number + 1} ({route})"
    switches, hosts = fabric.switch_names(), fabric.endpoint_names()
    at, to = (
        _matching(text, _numbers(names)) for text, names in ((route.switch, switches), (route.destination, hosts))
    )
    for key, found, names, noun in (("switch", at, switches, "switch"), ("destination", to, hosts, "host")):
        if not found:
            yield f"{which}: {key}: no {noun} is called that; they are {_some(names)}"
    for word in route.next:
        without = next(
            (switch for switch in at if not routes.exits_named(switch, word) and _is_used(routes, switch, number)), None
        )
        if without is not None:
            yield (
                f"{which}: next = '{word}': {switches[without]} has neither a link to a switch nor a port of that name; its neighbours are "
                f"{_some(routes.neighbours(without))}"
            )


def _is_used(routes: StaticRoutes, switch: int, number: int) -> bool:
    """Whether a row counts for any endpoint at a switch, other than those on it."""
    fabric = routes.fabric
    return any(
        routes.row(switch, endpoint) == number and fabric.switch_of(endpoint) != switch
        for endpoint in range(fabric.endpoints)
    )


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _of_pairs(routes: StaticRoutes) -> Iterator[str]:
    """Pairs of hosts whose packets are dropped or go in a circle: of each circle, and of each switch that drops some, the
    first one, and how many other destinations it has."""
    fabric = routes.fabric
    first: dict[tuple[int, ...], str] = {}
    others: dict[tuple[int, ...], list[str]] = {}
    hosts: dict[int, int] = {}
    for endpoint in range(fabric.endpoints):
        hosts.setdefault(fabric.switch_of(endpoint), endpoint)
    names = fabric.endpoint_names()
    for target in range(fabric.endpoints):
        done: set[int] = {fabric.switch_of(target)}
        for start, source in hosts.items():
            if start in done:
                continue
            if switches := _walk(routes, start, target, done):
                if switches in first:
                    others.setdefault(switches, []).append(names[target])
                else:
                    wrong = _in_words(routes, switches, target)
                    first[switches] = f"{KEY}: packets from {names[source]} to {names[target]} {wrong}"
                break
    for switches, line in first.items():
        more = others.get(switches, [])
        yield line + (f"; the same holds for packets to {_some(more)}" if more else "")


def _in_words(routes: StaticRoutes, found: tuple[int, ...], target: int) -> str:
    """What happens at the switches that `_walk` found."""
    switches = routes.fabric.switch_names()
    if len(found) == 1:
        name = switches[found[0]]
        return f"are dropped at {name}: no row says how {name} sends to {routes.fabric.endpoint_names()[target]}"
    rows = sorted({routes.row(switch, target) + 1 for switch in found})
    numbers = f"row{'s' if len(rows) > 1 else ''} {' and '.join(map(str, rows))}"
    return f"go in a circle, {' -> '.join(switches[switch] for switch in (*found, found[0]))}, by {numbers}"


def _walk(routes: StaticRoutes, start: int, target: int, done: set[int]) -> tuple[int, ...]:
    """What is wrong with the ways from a switch to an endpoint: the one switch that drops packets, or those of a circle,
    from the lowest on; empty if nothing is. done: switches from which all ways arrive."""
    way: list[int] = [start]
    left = [iter(routes.exits_to(start, target))]
    if not routes.exits_to(start, target):
        return (start,)
    while way:
        following = next(left[-1], None)
        if following is None:
            done.add(way.pop())
            left.pop()
        elif following.far in way:
            circle = way[way.index(following.far) :]
            lowest = circle.index(min(circle))
            return (*circle[lowest:], *circle[:lowest])
        elif following.far not in done:
            exits = routes.exits_to(following.far, target)
            if not exits:
                return (following.far,)
            way.append(following.far)
            left.append(iter(exits))
    return ()
