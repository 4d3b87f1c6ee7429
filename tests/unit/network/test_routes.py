"""Ways through graphs: shortest, balanced, the same in both directions, and as the switches' rules have them."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest

from gradwire.controller.switch_flows import switch_rules, trace, trace_group
from gradwire.faults import InputFault
from gradwire.network.balanced_routes import BalancedRoutes
from gradwire.network.fabric import Fabric, MulticastGroup, Topology, dscp_of_band
from gradwire.network.graph_shapes import Dragonfly, FullMesh, Linear, Ring, Torus
from gradwire.network.network_graph import GraphLink, NetworkGraph, spread
from gradwire.network.routes import line_interfaces, lines_of, routes_of

RATE_BPS = 10e9
LARGEST = "torus 4 x 4 with 3 hosts each"
PARALLEL = [(0, 1), (0, 1), (1, 2), (0, 2)]
GRAPHS = {
    "triangle": (6, 3, FullMesh(3).pairs()),
    "ring of 6": (6, 6, Ring(6).pairs()),
    "line of 4": (8, 4, Linear(4).pairs()),
    "torus 4 x 4": (16, 16, Torus((4, 4)).pairs()),
    "torus 4 x 4 with 2 hosts each": (32, 16, Torus((4, 4)).pairs()),
    LARGEST: (48, 16, Torus((4, 4)).pairs()),
    "torus 2 x 3 x 2": (24, 12, Torus((2, 3, 2)).pairs()),
    "dragonfly": (24, 12, Dragonfly(4, 3, 1).pairs()),
    "parallel links": (9, 3, PARALLEL),
    "switches without hosts": (3, 9, Torus((3, 3)).pairs()),
    "one switch": (4, 1, []),
}


def fabric_of(name: str, seed: int = 1, groups: tuple[MulticastGroup, ...] = ()) -> Fabric:
    hosts, switches, pairs = GRAPHS[name]
    graph = spread(hosts, switches, pairs, RATE_BPS, name)
    return Fabric(hosts, RATE_BPS, Topology.CUSTOM, graph=graph, seed=seed, groups=groups)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=[pytest.mark.long] if name == LARGEST else [])
        for name in GRAPHS
        for seed in (1, 2)
    ],
)
def test_the_rules_of_switches_are_the_routes(name: str, seed: int) -> None:
    fabric = fabric_of(name, seed)
    rules, routes, interfaces = switch_rules(fabric), routes_of(fabric), line_interfaces(fabric)
    for source, target in permutations(range(fabric.hosts), 2):
        for band in range(fabric.bands):
            hops = trace(fabric, rules, source, target, dscp_of_band(band))
            ports = [f"{hop.switch}-eth{hop.output_port}" for hop in hops]
            assert ports == [interfaces[line] for line in routes.path(source, target)[1:]]
            assert {hop.band for hop in hops} == {band}


@pytest.mark.parametrize("name", GRAPHS)
def test_ways_are_shortest_and_the_same_in_both_directions(name: str) -> None:
    fabric = fabric_of(name)
    assert fabric.graph is not None
    routes, links = routes_of(fabric), lines_of(fabric)
    for source, target in permutations(range(fabric.hosts), 2):
        near, far = fabric.leaf_of(source), fabric.leaf_of(target)
        there = routes.path(source, target)
        assert len(there) == 2 + fabric.graph.distances(near)[far]
        assert [links[line] for line in there] == [links[line] for line in routes.path(target, source)[::-1]]
        assert not set(there) & set(routes.path(target, source)[1:-1])


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_balanced_over_equal_ways(seed: int) -> None:
    """Of a torus of 4 x 4, every link carries about as many pairs; a plain hash leaves some with twice as many as others."""
    fabric = fabric_of(LARGEST, seed)
    routes = routes_of(fabric)
    used = Counter(line for ends in permutations(range(fabric.hosts), 2) for line in routes.path(*ends)[1:-1])
    assert len(used) == 64
    assert max(used.values()) <= 1.4 * min(used.values())


def test_parallel_links_are_all_used() -> None:
    fabric = fabric_of("parallel links")
    routes = routes_of(fabric)
    used = {line for ends in permutations(range(9), 2) for line in routes.path(*ends)[1:-1]}
    assert len(used) == 8
    assert [link.name for link in fabric.trunk_links()] == ["s1-s2", "s1-s2#2", "s2-s3", "s1-s3"]


def test_the_seed_decides_among_equal_ways() -> None:
    ways = [
        [routes_of(fabric_of("torus 4 x 4", seed)).path(0, target) for target in range(1, 16)] for seed in (1, 1, 2)
    ]
    assert ways[0] == ways[1] != ways[2]


@pytest.mark.parametrize("name", GRAPHS)
def test_a_multicast_reaches_every_member_once(name: str) -> None:
    hosts = GRAPHS[name][0]
    group = MulticastGroup(0, tuple(range(1, hosts)))
    fabric = fabric_of(name, groups=(group,))
    routes, interfaces = routes_of(fabric), line_interfaces(fabric)
    tree = routes.tree(0, group.members)
    hops = trace_group(fabric, switch_rules(fabric), 0, dscp_of_band(1))
    assert sorted(f"{hop.switch}-eth{hop.output_port}" for hop in hops) == sorted(interfaces[line] for line in tree[1:])
    assert len(set(tree)) == len(tree)
    for member in group.members:
        assert set(routes.branch(0, member, group.members)) <= set(tree)


def test_a_graph_keeps_its_shape_in_json() -> None:
    fabric = fabric_of("dragonfly")
    assert Fabric.from_json(fabric.to_json()) == fabric


def test_a_link_at_twice_the_rate_carries_twice_as_many_pairs() -> None:
    """Two ways of two links each between the same switches, one of them faster."""
    pairs = {(0, 1): 20e9, (1, 3): 20e9, (0, 2): 10e9, (2, 3): 10e9}
    graph = NetworkGraph(
        4,
        tuple(GraphLink(host, 3 * (host // 6), 1e9) for host in range(12)),
        tuple(GraphLink(a, b, rate) for (a, b), rate in pairs.items()),
    )
    routes = BalancedRoutes.of(graph, 1)
    used = Counter(trunk for source in range(6) for target in range(6, 12) for trunk, _ in routes.steps(source, target))
    assert used[0] == 2 * used[2] == 24


@pytest.mark.parametrize(
    ("trunks", "rate_bps", "said"),
    [
        ([(0, 1)], RATE_BPS, "no way leads from s1 to s3: the network must be connected"),
        ([(0, 1), (1, 2)], 0.0, "has a rate of 0 bit/s"),
    ],
)
def test_what_cannot_be_built_is_refused(trunks: list[tuple[int, int]], rate_bps: float, said: str) -> None:
    with pytest.raises(InputFault, match=said):
        Fabric(3, RATE_BPS, Topology.CUSTOM, graph=spread(3, 3, trunks, rate_bps, "wrong"))
