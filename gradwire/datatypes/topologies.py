"""Networks of well-known shapes from a few numbers. Pure; imports only frozen data.

Switches are numbered row by row, or group by group. Hosts are spread evenly: host i of n is at switch i * switches /
n, rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from gradwire.datatypes.network_graph import Graph, GraphLink

Pairs = list[tuple[int, int]]
"""The switches at the ends of each link."""


def spread(hosts: int, switches: int, pairs: Pairs, rate_bps: float, title: str) -> Graph:
    """A network with these links between switches, whose hosts are spread over all of them."""
    return Graph(
        switches,
        tuple(GraphLink(host, switch, rate_bps) for host, switch in enumerate(places(hosts, switches))),
        tuple(GraphLink(a, b, rate_bps) for a, b in pairs),
        title=title,
    )


def places(hosts: int, switches: int) -> list[int]:
    """The switch of each host, spread evenly."""
    return [host * switches // hosts for host in range(hosts)]


def ring(switches: int) -> Pairs:
    """Each switch is joined to the next, and the last to the first."""
    return [*linear(switches), (switches - 1, 0)]


def linear(switches: int) -> Pairs:
    """Each switch is joined to the next."""
    return [(switch, switch + 1) for switch in range(switches - 1)]


def full_mesh(switches: int) -> Pairs:
    """Each switch is joined to every other."""
    return list(combinations(range(switches), 2))


def torus(dimensions: Sequence[int]) -> Pairs:
    """A grid of any number of dimensions whose edges are joined. Along a dimension of 2 there is one link, for its
    ends are neighbours."""
    return list(_torus(dimensions))


def _torus(dimensions: Sequence[int]) -> Iterator[tuple[int, int]]:
    strides = [math.prod(dimensions[axis + 1 :]) for axis in range(len(dimensions))]
    for switch in range(math.prod(dimensions)):
        for length, stride in zip(dimensions, strides, strict=True):
            place = switch // stride % length
            if length > 1 and not (length == 2 and place == 1):
                yield switch, switch + ((place + 1) % length - place) * stride


def dragonfly(groups: int, routers: int, global_links: int) -> Pairs:
    """Groups of routers that are all joined to one another, and so many links between any two groups.

    As in Kim, Dally, Scott and Abts (Technology-driven, highly-scalable dragonfly topology, ISCA 2008), where every
    router has as many links to other groups: those of a group go to its routers in turn.
    """
    inside = [(group * routers + a, group * routers + b) for group in range(groups) for a, b in full_mesh(routers)]
    used, between = [0] * groups, []
    for near, far in combinations(range(groups), 2):
        for _ in range(global_links):
            ends = []
            for group in (near, far):
                ends.append(group * routers + used[group] % routers)
                used[group] += 1
            between.append((ends[0], ends[1]))
    return inside + between
