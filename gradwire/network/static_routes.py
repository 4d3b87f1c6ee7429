"""Ways that a table says (`fabric.routing = "static"`): where each switch sends packets to each host. Pure; imports
only frozen data.

Of the rows that match a switch and a destination, the last one counts. Where it has several next hops, the switch
hashes connections over them, as in network/hashed_routes.py. The host's own switch needs no row. Ways need not be
the shortest ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.name_patterns import NumberedNames
from gradwire.faults import InputFault
from gradwire.network.hashed_routes import Exit, HashedRoutes
from gradwire.network.routed_network import Route, RoutedNetwork

KEY = "fabric.routes"
MOST_CELLS = 2 * 10**8
"""Pairs of a switch and a host that rows match, all rows together: a second of work, and 700 times the pairs of the
largest network."""
NO_ROW = -1
UNDER_WAY = -1
Rows = npt.NDArray[np.int32]


class StaticRoutes(HashedRoutes):
    """The ways of a table, and the choice among next hops."""

    def __init__(self, fabric: RoutedNetwork) -> None:
        super().__init__(fabric)
        self._names = fabric.switch_names()
        self._rows = rows_of(fabric)
        self._exits_of_row: dict[tuple[int, int], tuple[Exit, ...]] = {}
        self._exits_by_name: dict[int, dict[str, list[Exit]]] = {}

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
        if switch not in self._exits_by_name:
            by_name = self._exits_by_name.setdefault(switch, {})
            for each in self._exits[switch]:
                by_name.setdefault(f"{self._names[switch]}-eth{each.port}", []).append(each)
                by_name.setdefault(self._names[each.far], []).append(each)
        return self._exits_by_name[switch].get(word, [])

    @cached_property
    def used_at(self) -> dict[int, set[int]]:
        """The switches at which each row counts for any endpoint, other than those on the switch."""
        switches, endpoints = self._rows.shape
        at = np.array([self.fabric.switch_of(endpoint) for endpoint in range(endpoints)])
        elsewhere = np.arange(switches)[:, None] != at[None, :]
        used: dict[int, set[int]] = {}
        for switch in range(switches):
            for row in np.unique(self._rows[switch, elsewhere[switch]]).tolist():
                used.setdefault(row, set()).add(switch)
        return used

    def way_key(self, endpoint: int) -> tuple[int, bytes]:
        """Returns all that decides the ways to an endpoint: its switch, and the number of the row that each switch uses
        for it. Endpoints with equal keys have equal ways."""
        return self.fabric.switch_of(endpoint), self._rows[:, endpoint].tobytes()

    def neighbours(self, switch: int) -> list[str]:
        """Names of a switch's neighbours."""
        return list(dict.fromkeys(self._names[each.far] for each in self._exits[switch]))


def longest_way(fabric: RoutedNetwork) -> int:
    """Links between switches that a packet passes at most by a fabric's table. Raises InputFault as `rows_of` does."""
    routes = StaticRoutes(fabric)
    targets = {routes.way_key(target): target for target in range(fabric.endpoints)}
    return max(_longest(routes, target) for target in targets.values())


def _longest(routes: StaticRoutes, target: int) -> int:
    """The most links between switches on a way to an endpoint; as many as there are switches, where ways are circles."""
    circle = len(routes.fabric.switch_names())
    found: dict[int, int] = {}
    for start in {routes.fabric.switch_of(endpoint) for endpoint in range(routes.fabric.endpoints)}:
        way = [start]
        while way:
            here, far = way[-1], [each.far for each in routes.exits_to(way[-1], target)]
            if any(found.get(switch) == UNDER_WAY for switch in far):
                return circle
            if ahead := [switch for switch in far if switch not in found]:
                found[here] = UNDER_WAY
                way.append(ahead[0])
            else:
                found[here] = max((found[switch] + 1 for switch in far), default=0)
                way.pop()
    return max(found.values())


def rows_of(fabric: RoutedNetwork) -> Rows:
    """The row that counts for each switch and endpoint; NO_ROW where none does. Raises InputFault if rows match too
    much."""
    return _rows(tuple(fabric.switch_names()), tuple(fabric.endpoint_names()), fabric.routes)


@lru_cache(maxsize=8)
def _rows(switches: tuple[str, ...], endpoints: tuple[str, ...], routes: tuple[Route, ...]) -> Rows:
    found: Rows = np.full((len(switches), len(endpoints)), NO_ROW, np.int32)
    switch_names, endpoint_names = _names(switches), _names(endpoints)
    cells = 0
    last = {(route.switch, route.destination): number for number, route in enumerate(routes)}
    for number in sorted(last.values()):  # of rows with the same patterns, the others never count
        route = routes[number]
        at = _matching(route.switch, switch_names)
        to = _matching(route.destination, endpoint_names)
        cells += len(at) * len(to)
        if cells > MOST_CELLS:
            raise InputFault(
                f"{KEY}: row {number + 1} ({route}): the rows up to here match more than {MOST_CELLS:,} pairs of a switch and a host; use "
                "fewer rows"
            )
        found[np.ix_(at, to)] = number
    found.flags.writeable = False
    return found


def _names(names: Sequence[str]) -> NumberedNames:
    return NumberedNames((name,) for name in names)


def _matching(pattern: str, names: NumberedNames) -> tuple[int, ...]:
    """Returns the things with exactly this name, or else those that the pattern matches."""
    return names.called(pattern) or names.matching(pattern)


def route_defects(fabric: RoutedNetwork) -> list[str]:
    """Returns the defects of a fabric's table of routes, a line each with the row and its key: names that match
    nothing, or else pairs of hosts without a way.

    Raises InputFault as `rows_of` does.
    """
    routes = StaticRoutes(fabric)
    switches, hosts = fabric.switch_names(), fabric.endpoint_names()
    names = _names(switches), _names(hosts)
    lines: list[str] = []
    for number, route in enumerate(fabric.routes):
        which = f"{KEY}: row {number + 1} ({route})"
        if not _matching(route.switch, names[0]):
            lines.append(f"{which}: switch: no switch is called that; they are {_some(switches)}")
        if not _matching(route.destination, names[1]):
            lines.append(f"{which}: destination: no host is called that; they are {_some(hosts)}")
        lines += [f"{which}: {line}" for line in _of_next(routes, number, route)]
    return lines or list(_of_pairs(routes))


def _of_next(routes: StaticRoutes, number: int, route: Route) -> Iterator[str]:
    """Next hops that a switch does not have at which the row counts."""
    for word in route.next:
        without = [switch for switch in routes.used_at.get(number, ()) if not routes.exits_named(switch, word)]
        if without:
            switch = min(without)
            yield (
                f"next = '{word}': {routes.fabric.switch_names()[switch]} has neither a link to a switch nor a port of that name; its "
                f"neighbours are {_some(routes.neighbours(switch))}"
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
    known: dict[tuple[int, bytes], tuple[int, tuple[int, ...]] | None] = {}
    for target in range(fabric.endpoints):
        key = routes.way_key(target)
        if key not in known:
            known[key] = _first_wrong(routes, hosts, target)
        if (wrong := known[key]) is None:
            continue
        source, switches = wrong
        if switches in first:
            others.setdefault(switches, []).append(names[target])
        else:
            words = _in_words(routes, switches, target)
            first[switches] = f"{KEY}: packets from {names[source]} to {names[target]} {words}"
    for switches, line in first.items():
        more = others.get(switches, [])
        yield line + (f"; the same holds for packets to {_some(more)}" if more else "")


def _first_wrong(routes: StaticRoutes, hosts: dict[int, int], target: int) -> tuple[int, tuple[int, ...]] | None:
    """The first host whose packets to an endpoint do not arrive, and the switches that `_walk` found. hosts: one of
    each switch that has any."""
    done: set[int] = {routes.fabric.switch_of(target)}
    for start, source in hosts.items():
        if start not in done and (switches := _walk(routes, start, target, done)):
            return source, switches
    return None


def _in_words(routes: StaticRoutes, found: tuple[int, ...], target: int) -> str:
    """Describes what happens to packets at the switches that `_walk` found."""
    switches = routes.fabric.switch_names()
    if len(found) == 1:
        name = switches[found[0]]
        return f"are dropped at {name}: no row says how {name} sends to {routes.fabric.endpoint_names()[target]}"
    rows = sorted({routes.row(switch, target) + 1 for switch in found})
    numbers = f"row{'s' if len(rows) > 1 else ''} {' and '.join(map(str, rows))}"
    return f"go in a circle, {' -> '.join(switches[switch] for switch in (*found, found[0]))}, by {numbers}"


def _walk(routes: StaticRoutes, start: int, target: int, done: set[int]) -> tuple[int, ...]:
    """Finds a fault in the ways from a switch to an endpoint: returns the one switch that drops packets, or those of a
    circle, from the lowest on; empty if all ways arrive. done: switches from which all ways arrive."""
    way: list[int] = [start]
    on_way = {start}
    left = [iter(routes.exits_to(start, target))]
    if not routes.exits_to(start, target):
        return (start,)
    while way:
        following = next(left[-1], None)
        if following is None:
            on_way.remove(way[-1])
            done.add(way.pop())
            left.pop()
        elif following.far in on_way:
            circle = way[way.index(following.far) :]
            lowest = circle.index(min(circle))
            return (*circle[lowest:], *circle[:lowest])
        elif following.far not in done:
            exits = routes.exits_to(following.far, target)
            if not exits:
                return (following.far,)
            way.append(following.far)
            on_way.add(following.far)
            left.append(iter(exits))
    return ()
