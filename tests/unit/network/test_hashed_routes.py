"""Ways that switches choose by hashing connections: as Open vSwitch chooses, spread as luck would have it, and as the rules have them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations
from math import sqrt

import pytest

from gradwire.controller.switch_flows import switch_rules, trace
from gradwire.faults import InternalFault
from gradwire.network.fabric import Fabric, Routing, Topology, dscp_of_band
from gradwire.network.graph_shapes import Dragonfly, Torus
from gradwire.network.hashed_routes import parameter_of
from gradwire.network.network_graph import spread
from gradwire.network.routes import line_interfaces, routes_of
from gradwire.network.switch_hash import UDP, FlowPorts, chosen_bucket
from gradwire.network.wire.flows import ports_of

RATE_BPS = 10e9
LEAF_SPINE = Fabric(16, RATE_BPS, Topology.LEAF_SPINE, leaves=4, spines=4, routing=Routing.ECMP)
FABRICS = {
    "leaf-spine": LEAF_SPINE,
    "leaf-spine with aggregators": Fabric(
        8, RATE_BPS, Topology.LEAF_SPINE, leaves=4, spines=2, routing=Routing.ECMP, aggregators=True
    ),
    "fat tree": Fabric(
        16, RATE_BPS, Topology.FAT_TREE, leaves=2, spines=2, pods=4, cores=4, routing=Routing.ECMP, classes=1
    ),
    "torus": Fabric(
        16, RATE_BPS, Topology.TORUS, graph=spread(16, 16, Torus((4, 4)).pairs(), RATE_BPS, ""), routing=Routing.ECMP
    ),
    "dragonfly": Fabric(
        12,
        RATE_BPS,
        Topology.DRAGONFLY,
        graph=spread(12, 12, Dragonfly(4, 3, 2).pairs(), RATE_BPS, ""),
        routing=Routing.ECMP,
    ),
}


@pytest.mark.parametrize(("source_port", "bucket"), [(33000, 3), (33001, 0), (33002, 1), (33003, 0)])
def test_the_hash_is_that_of_open_vswitch(source_port: int, bucket: int) -> None:
    """What `ovs-appctl ofproto/trace` of Open vSwitch 3.1.0 said of a group of four buckets with this parameter."""
    assert chosen_bucket(12345, "10.0.0.1", "10.0.0.9", FlowPorts(source_port, 7000), 4) == bucket


def test_10000_connections_are_spread_as_the_binomial_says() -> None:
    """Each of four paths has 2,500 of them with a standard deviation of 43, and pairs of consecutive ports are as independent."""
    count, paths = 10_000, 4
    chosen = [
        chosen_bucket(parameter_of(1, 0), "10.0.0.1", "10.0.0.9", ports_of(number), paths) for number in range(count)
    ]
    deviation = sqrt(count / paths * (1 - 1 / paths))
    for connections in Counter(chosen).values():
        assert abs(connections - count / paths) < 4 * deviation
    same = sum(here == there for here, there in pairwise(chosen))
    assert abs(same - count / paths) < 4 * deviation
    chi_squared = sum((each - count / paths) ** 2 / (count / paths) for each in Counter(chosen).values())
    assert 0.1 < chi_squared < 16.3  # with 3 degrees of freedom, 98 % and 0.1 % are above


def test_each_switch_and_each_seed_hashes_in_another_way() -> None:
    def chosen(seed: int, switch: int) -> list[int]:
        parameter = parameter_of(seed, switch)
        return [chosen_bucket(parameter, "10.0.0.1", "10.0.0.9", ports_of(number), 4) for number in range(400)]

    first = chosen(1, 0)
    assert first == chosen(1, 0)
    for other in (chosen(1, 1), chosen(2, 0)):
        same = sum(here == there for here, there in zip(first, other, strict=True))
        assert abs(same - 100) < 4 * sqrt(400 * 0.25 * 0.75)


@pytest.mark.parametrize("name", FABRICS)
def test_the_rules_of_switches_are_the_routes(name: str) -> None:
    fabric = FABRICS[name]
    rules, routes, interfaces = switch_rules(fabric), routes_of(fabric), line_interfaces(fabric)
    for number, (source, target) in enumerate(permutations(range(fabric.hosts), 2)):
        for ports in (ports_of(number), ports_of(number).back(), FlowPorts(number + 1, 9, UDP)):
            hops = trace(fabric, rules, source, target, dscp_of_band(1), ports)
            assert [f"{hop.switch}-eth{hop.output_port}" for hop in hops] == [
                interfaces[line] for line in routes.path(source, target, ports)[1:]
            ]
            assert set(routes.path(source, target, ports)) <= set(routes.all_lines(source, target))


def test_aggregators_have_ways_as_well() -> None:
    fabric = FABRICS["leaf-spine with aggregators"]
    rules, routes = switch_rules(fabric), routes_of(fabric)
    for target in range(fabric.hosts, fabric.endpoints):
        hops = trace(fabric, rules, 0, target, dscp_of_band(1), ports_of(0))
        assert len(hops) == len(routes.path(0, target, ports_of(0)))
        assert hops[-1].output_port == fabric.aggregator_port(target - fabric.hosts)


def test_a_way_is_not_guessed_where_ports_are_unknown() -> None:
    with pytest.raises(InternalFault, match="ports of one are not known"):
        routes_of(LEAF_SPINE).path(0, 15)


def test_a_fabric_comes_back_from_json() -> None:
    assert Fabric.from_json(LEAF_SPINE.to_json()) == LEAF_SPINE
