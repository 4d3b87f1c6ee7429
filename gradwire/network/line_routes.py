"""The ways of finding the lines that a packet passes through a fabric. Pure; imports only frozen data.

network/routes.py says how lines are numbered. Which of these classes finds the ways of a fabric, its policy says
(network/policies/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from gradwire.faults import InternalFault
from gradwire.network.balanced_routes import BalancedRoutes
from gradwire.network.hashed_routes import HashedRoutes
from gradwire.network.read_ways import steps_of_way
from gradwire.network.routed_network import RoutedNetwork
from gradwire.network.switch_hash import FlowPorts

SummitOf = Callable[[int, int, tuple[int, ...]], int | None]
"""The spine or core (see network/tiers.py: the summit) between two endpoints of different leaves. The third argument
has the hosts of a multicast group; it is empty for unicast."""


class Routes(Protocol):
    """The ways through a fabric."""

    def path(self, source: int, target: int, ports: FlowPorts | None = None) -> list[int]:
        """The lines from one endpoint to another, in order. ports: of the connection; needed where switches hash
        them."""

    def all_lines(self, source: int, target: int) -> list[int]:
        """All lines that connections from one endpoint to another may pass."""

    def tree(self, source: int, members: tuple[int, ...]) -> list[int]:
        """The lines from a host to all others of a multicast group, each once."""

    def branch(self, source: int, target: int, members: tuple[int, ...]) -> list[int]:
        """The lines of `tree` that lead to one of the group's members."""


class GraphRoutes:
    """Ways through a graph."""

    def __init__(self, fabric: RoutedNetwork) -> None:
        assert fabric.graph is not None
        self._hosts, self._graph = fabric.hosts, fabric.graph
        self._balanced = BalancedRoutes.of(fabric.graph, fabric.seed)

    def path(self, source: int, target: int, _ports: FlowPorts | None = None) -> list[int]:
        """Returns the lines from one host to another."""
        steps = self._balanced.steps(source, target)
        return [source, *map(self._line, steps), self._hosts + target]

    def all_lines(self, source: int, target: int) -> list[int]:
        """Returns the lines of `path`, which all connections between two endpoints share."""
        return self.path(source, target)

    def tree(self, source: int, members: tuple[int, ...]) -> list[int]:
        """Returns the lines from a host to all others of a group."""
        others = [member for member in members if member != source]
        steps = self._balanced.tree(source, tuple(others))
        return [source, *map(self._line, steps), *(self._hosts + member for member in others)]

    def branch(self, source: int, target: int, members: tuple[int, ...]) -> list[int]:
        """Returns the lines of `tree` that lead to one of the members."""
        others = tuple(member for member in members if member != source)
        steps = self._balanced.tree(source, others, (target,))
        return [source, *map(self._line, steps), self._hosts + target]

    def _line(self, step: tuple[int, bool]) -> int:
        trunk, is_up = step
        return 2 * self._hosts + trunk + (0 if is_up else len(self._graph.trunks))


class EqualCostRoutes:
    """Ways that switches choose by hashes of connections; a multicast takes the tree that it takes without."""

    def __init__(self, fabric: RoutedNetwork, hashed: HashedRoutes, trees: Routes) -> None:
        self._fabric, self._hashed, self._trees = fabric, hashed, trees
        self._trunks = len(fabric.trunk_links())

    def path(self, source: int, target: int, ports: FlowPorts | None = None) -> list[int]:
        """Returns the lines from one endpoint to another. Raises what `HashedRoutes.steps` raises."""
        return self._with_ends(source, target, self._hashed.steps(source, target, ports))

    def all_lines(self, source: int, target: int) -> list[int]:
        """Returns the lines that any connection between two endpoints may pass."""
        return self._with_ends(source, target, sorted(self._hashed.all_steps(source, target)))

    def tree(self, source: int, members: tuple[int, ...]) -> list[int]:
        """Returns the lines from a host to all others of a group."""
        return self._trees.tree(source, members)

    def branch(self, source: int, target: int, members: tuple[int, ...]) -> list[int]:
        """Returns the lines of `tree` that lead to one of the members."""
        return self._trees.branch(source, target, members)

    def _with_ends(self, source: int, target: int, steps: Iterable[tuple[int, bool]]) -> list[int]:
        hosts = self._fabric.hosts
        between = [2 * hosts + trunk + (0 if is_up else self._trunks) for trunk, is_up in steps]
        return [
            *([source] if source < hosts else []),
            *between,
            *([hosts + target] if target < hosts else []),
        ]


class ReadRoutes:
    """Ways that were read back from the switches; multicasts do not occur."""

    def __init__(self, fabric: RoutedNetwork, trees: Routes) -> None:
        self._fabric, self._trees = fabric, trees
        self._trunks = len(fabric.trunk_links())

    def path(self, source: int, target: int, _ports: FlowPorts | None = None) -> list[int]:
        """Returns the lines from one host to another."""
        hosts = self._fabric.hosts
        between = [
            2 * hosts + trunk + (0 if is_up else self._trunks)
            for trunk, is_up in steps_of_way(self._fabric.ways[source * hosts + target])
        ]
        return [source, *between, hosts + target]

    def all_lines(self, source: int, target: int) -> list[int]:
        """Returns the lines of `path`, which all connections between two endpoints share."""
        return self.path(source, target)

    def tree(self, source: int, members: tuple[int, ...]) -> list[int]:
        """Returns the lines from a host to all others of a group, as without the controller."""
        return self._trees.tree(source, members)

    def branch(self, source: int, target: int, members: tuple[int, ...]) -> list[int]:
        """Returns the lines of `tree` that lead to one of the members, as without the controller."""
        return self._trees.branch(source, target, members)


class TieredRoutes:
    """Ways up to a summit and down again."""

    def __init__(self, fabric: RoutedNetwork, summit_of: SummitOf | None) -> None:
        self._fabric, self._summit_of = fabric, summit_of
        self._paths: dict[tuple[int, int], list[int]] = {}

    def path(self, source: int, target: int, _ports: FlowPorts | None = None) -> list[int]:
        """Returns the lines from one endpoint to another. Raises InternalFault if there are several spines and nothing
        says which."""
        if (source, target) not in self._paths:
            near, far = self._fabric.switch_of(source), self._fabric.switch_of(target)
            between = [] if near == far else self._between(near, [far], self._summit(source, target, ()))
            self._paths[source, target] = [*self._out(source), *between, *self._into(target)]
        return self._paths[source, target]

    def all_lines(self, source: int, target: int) -> list[int]:
        """Returns the lines of `path`, which all connections between two endpoints share."""
        return self.path(source, target)

    def tree(self, source: int, members: tuple[int, ...]) -> list[int]:
        """Returns the lines from a host to all others of a group. Raises InternalFault as `path` does."""
        others = [member for member in members if member != source]
        near = self._fabric.switch_of(source)
        far = sorted({self._fabric.switch_of(member) for member in others} - {near})
        between = self._between(near, far, self._group_summit(source, near, far, members)) if far else []
        return [*self._out(source), *between, *(port for member in others for port in self._into(member))]

    def branch(self, source: int, target: int, members: tuple[int, ...]) -> list[int]:
        """Returns the lines of `tree` that lead to one of the members. Raises InternalFault as `path` does."""
        near, far = self._fabric.switch_of(source), self._fabric.switch_of(target)
        between = [] if near == far else self._between(near, [far], self._summit(source, target, members))
        return [*self._out(source), *between, *self._into(target)]

    def _out(self, endpoint: int) -> list[int]:
        return [endpoint] if endpoint < self._fabric.hosts else []

    def _into(self, endpoint: int) -> list[int]:
        return [self._fabric.hosts + endpoint] if endpoint < self._fabric.hosts else []

    def _between(self, near: int, far: list[int], summit: int) -> list[int]:
        """Returns the lines up from a leaf and down to others; either end may be a spine, whose aggregator sends or
        receives."""
        up, down = self._fabric.tree.between(near, far, summit)
        first = 2 * self._fabric.hosts
        return [first + number for number in up] + [first + len(self._fabric.tree.trunks) + number for number in down]

    def _group_summit(self, source: int, near: int, far: list[int], members: tuple[int, ...]) -> int:
        """The summit of a multicast tree, which is a core if any of its leaves is in another pod."""
        tree = self._fabric.tree
        farthest = max(far, key=lambda leaf: tree.pod_of(leaf) != tree.pod_of(near))
        target = next(each for each in members if self._fabric.switch_of(each) == farthest)
        return self._summit(source, target, members)

    def _summit(self, source: int, target: int, members: tuple[int, ...]) -> int:
        only = self._fabric.tree.only_summit(self._fabric.switch_of(source), self._fabric.switch_of(target))
        summit = only if only is not None or self._summit_of is None else self._summit_of(source, target, members)
        if summit is None:
            raise InternalFault(
                f"no spine is known between endpoints {source} and {target}; report this with the scenario"
            )
        return summit
