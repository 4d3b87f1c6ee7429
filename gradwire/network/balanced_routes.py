"""Balanced shortest ways through a graph, chosen by a seed. Pure; imports only the standard library and frozen data.

Between two switches with hosts, only ways with the fewest links count. Where there are several, as many of them are
taken as there can be pairs of hosts, up to MOST_WAYS. They are chosen one after the other, pair by pair of switches in
an order that the seed decides: each time the way whose links carry the least so far, relative to their rates, for the
pairs of hosts that will use it. So what a plain hash leaves to luck is even here, as it is in tiers
(controller/switch_flows.py: SummitChoice).

Which of the ways a pair of hosts takes follows from the places of both among the hosts of their switches. Both
directions of a pair take the same way. A way with the fewest links never comes to a switch twice.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from gradwire.network.network_graph import NetworkGraph

MOST_WAYS = 8
"""Ways between two switches that are used. Each takes a rule at every switch on it."""

Step = tuple[int, bool]
"""A trunk by its number, and whether it is passed from its end `a` to its end `b`."""


@dataclass(frozen=True)
class BalancedRoutes:
    """The ways between all switches with hosts."""

    graph: NetworkGraph
    seed: int
    #: The ways from one switch to another of a higher number, of which pairs of hosts take one after the other; those
    #: back are the same.
    ways: dict[tuple[int, int], tuple[tuple[Step, ...], ...]]
    #: Place of each host among those of its switch, in an order that the seed decides.
    places: tuple[int, ...]

    @staticmethod
    @lru_cache(maxsize=8)
    def of(graph: NetworkGraph, seed: int) -> BalancedRoutes:
        """The ways through a graph."""
        places = [0] * len(graph.host_links)
        for hosts in graph.hosts_of_switches:
            for place, host in enumerate(sorted(hosts, key=lambda each: (stable_hash(seed, "host", each), each))):
                places[host] = place
        return BalancedRoutes(graph, seed, _chosen(graph, seed), tuple(places))

    @property
    def most_ways(self) -> int:
        """Ways between two switches, where there are several."""
        return _most_ways(self.graph)

    def ways_between(self, near: int, far: int) -> tuple[tuple[Step, ...], ...]:
        """The ways from one switch to another, both with hosts; one that is empty from a switch to itself."""
        if near == far:
            return ((),)
        ways = self.ways[min(near, far), max(near, far)]
        return ways if near < far else tuple(tuple((trunk, not is_up) for trunk, is_up in way[::-1]) for way in ways)

    def choice(self, source: int, target: int) -> int:
        """Returns the number of the way that two hosts take, among those between their switches."""
        near, far = self.graph.host_links[source].b, self.graph.host_links[target].b
        return (self.places[source] + self.places[target]) % self.most_ways % len(self.ways_between(near, far))

    def steps(self, source: int, target: int) -> tuple[Step, ...]:
        """The trunks from one host to another."""
        near, far = self.graph.host_links[source].b, self.graph.host_links[target].b
        return self.ways_between(near, far)[self.choice(source, target)]

    def tree(self, source: int, members: tuple[int, ...], reached: tuple[int, ...] | None = None) -> list[Step]:
        """The trunks of a multicast tree from a host to others: a part of one tree of shortest ways, chosen by the
        seed.

        reached: those of the members to which the trunks are to lead; by default all.
        """
        root = self.graph.host_links[source].b
        distances = self.graph.distances(root)
        steps: dict[int, Step] = {}
        for switch in sorted({self.graph.host_links[member].b for member in (members if reached is None else reached)}):
            here = switch
            while here != root and here not in steps:
                above = [
                    (there, trunk)
                    for there, trunk in self.graph.neighbours[here]
                    if distances[there] == distances[here] - 1
                ]
                number = stable_hash(self.seed, "group", source, *members, "switch", here) % len(above)
                there, trunk = above[number]
                steps[here] = trunk, self.graph.trunks[trunk].a == there
                here = there
        return sorted(steps.values(), key=lambda step: self._distance_of(step, distances))

    def _distance_of(self, step: Step, distances: list[int]) -> tuple[int, int]:
        trunk, is_up = step
        return distances[self.graph.trunks[trunk].a if is_up else self.graph.trunks[trunk].b], trunk


def _most_ways(graph: NetworkGraph) -> int:
    return min(max(map(len, graph.hosts_of_switches)), MOST_WAYS)


def _chosen(graph: NetworkGraph, seed: int) -> dict[tuple[int, int], tuple[tuple[Step, ...], ...]]:
    ends = [switch for switch, hosts in enumerate(graph.hosts_of_switches) if hosts]
    pairs = [(near, far) for place, near in enumerate(ends) for far in ends[place + 1 :]]
    pairs.sort(key=lambda pair: (stable_hash(seed, "pair", *pair), pair))
    wanted = _most_ways(graph)
    load = [0.0] * len(graph.trunks)
    distances = {switch: graph.distances(switch) for switch in ends}
    found = {}
    for near, far in pairs:
        hosts = len(graph.hosts_of_switches[near]), len(graph.hosts_of_switches[far])
        ways = []
        for _ in range(wanted):
            ways.append(_least_loaded(graph, near, far, distances[far], load, seed))
            for trunk, _up in ways[-1]:
                load[trunk] += hosts[0] * hosts[1] / wanted / graph.trunks[trunk].rate_bps
        found[near, far] = tuple(ways) if len(set(ways)) > 1 else (ways[0],)
    return found


def _least_loaded(
    graph: NetworkGraph, near: int, far: int, distances: list[int], load: list[float], seed: int
) -> tuple[Step, ...]:
    """Returns the way with the least total load among those with the fewest links; the seed decides between equal
    ones."""
    layers: list[list[int]] = [[near]]
    for _ in range(distances[near]):
        below = {
            there
            for here in layers[-1]
            for there, _ in graph.neighbours[here]
            if distances[there] == distances[here] - 1
        }
        layers.append(sorted(below))
    costs: dict[int, float] = {far: 0.0}
    first: dict[int, tuple[int, int]] = {}
    for layer in reversed(layers[:-1]):
        for here in layer:
            options = [
                (costs[there] + load[trunk], stable_hash(seed, near, far, here, trunk), trunk, there)
                for there, trunk in graph.neighbours[here]
                if distances[there] == distances[here] - 1
            ]
            costs[here], _, trunk, there = min(options)
            first[here] = trunk, there
    steps, here = [], near
    while here != far:
        trunk, there = first[here]
        steps.append((trunk, graph.trunks[trunk].a == here))
        here = there
    return tuple(steps)


def stable_hash(*words: int | str) -> int:
    """A number that is the same on every machine and Python: BLAKE2b of these words."""
    digest = hashlib.blake2b("/".join(str(word) for word in words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
