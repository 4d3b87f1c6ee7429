"""Ways between hosts as they were read back from switches whose flows a user's controller installed. Pure.

A fabric keeps them in `Fabric.ways`: one for each pair of hosts, that from host a to host b at a * hosts + b, and the
empty way from a host to itself. A way is the links between switches in the order in which packets pass them. Link
`trunk` of `Fabric.trunk_links` is 2 * trunk if it is passed from its end `b` to its end `a`, and one more if from `a`
to `b`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gradwire.network.routed_network import RoutedNetwork

MOST_HOSTS = 128
"""Limit of hosts in a network with a user's controller: they have 16,256 ways, which take seconds to follow."""


def way_of_steps(steps: Iterable[tuple[int, bool]]) -> tuple[int, ...]:
    """A way, out of the links between switches that it passes and whether from `a` to `b`."""
    return tuple(2 * trunk + is_up for trunk, is_up in steps)


def steps_of_way(way: Iterable[int]) -> Iterator[tuple[int, bool]]:
    """Inverse of `way_of_steps`."""
    for step in way:
        yield step // 2, bool(step % 2)


def way_defect(fabric: RoutedNetwork, ways: Sequence[Sequence[int]]) -> str:
    """Returns the reason why these cannot be the ways of a fabric; "" if they can, since each leads from switch to
    switch to its host's."""
    hosts, trunks = fabric.hosts, fabric.trunk_links()
    if len(ways) != hosts * hosts:
        return f"there are {len(ways)} ways, and {hosts * hosts} pairs of hosts"
    names = fabric.switch_names()
    for pair, way in enumerate(ways):
        source, target = divmod(pair, hosts)
        here, end = names[fabric.switch_of(source)], names[fabric.switch_of(target)]
        for trunk, is_up in steps_of_way(way):
            if not 0 <= trunk < len(trunks):
                return f"a way passes link {trunk} of {len(trunks)}"
            near, far = trunks[trunk].a.device, trunks[trunk].b.device
            if here != (near if is_up else far):
                return f"the way from h{source + 1} to h{target + 1} is broken at {here}"
            here = far if is_up else near
        if here != end:
            return f"the way from h{source + 1} to h{target + 1} ends at {here}"
    return ""
