"""Ways that a table says: the rules of switches are the routes, the last row counts, and a table that leaves packets is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations

import pytest

from gradwire.controller.switch_flows import switch_rules, trace
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology, dscp_of_band
from gradwire.network.graph_shapes import Ring
from gradwire.network.network_graph import GraphLink, NetworkGraph, spread
from gradwire.network.routed_network import Route
from gradwire.network.routes import line_ends, line_interfaces, most_trunks_on_way, routes_of
from gradwire.network.routing import Routing
from gradwire.network.static_routes import MOST_CELLS, route_defects, rows_of
from gradwire.network.wire.flows import ports_of
from gradwire.workloads.patterns import probe_phases

RATE_BPS = 10e9
CLOCKWISE = tuple(Route(f"s{switch}", "*", (f"s{switch % 4 + 1}",)) for switch in range(1, 5))
RING = Fabric(
    8,
    RATE_BPS,
    Topology.RING,
    classes=1,
    graph=spread(8, 4, Ring(4).pairs(), RATE_BPS, ""),
    routing=Routing.STATIC,
    routes=CLOCKWISE,
)
SPINES = (
    Route("s[12]", "*", ("s3", "s4")),
    Route("s1", "h3", ("s4",)),
    *(Route(spine, host, (leaf,)) for spine in ("s3", "s4") for host, leaf in (("h[12]", "s1"), ("h[34]", "s2"))),
)
LEAF_SPINE = Fabric(
    4, RATE_BPS, Topology.LEAF_SPINE, leaves=2, spines=2, classes=1, routing=Routing.STATIC, routes=SPINES
)
PARALLEL = Fabric(
    2,
    RATE_BPS,
    Topology.CUSTOM,
    classes=1,
    graph=NetworkGraph(
        2, (GraphLink(0, 0, RATE_BPS), GraphLink(1, 1, RATE_BPS)), (GraphLink(0, 1, RATE_BPS),) * 3, title=""
    ),
    routing=Routing.STATIC,
    routes=(Route("s1", "*", ("s2",)), Route("s2", "*", ("s2-eth3",))),
)


@pytest.mark.parametrize("fabric", [RING, LEAF_SPINE, PARALLEL], ids=["ring", "leaf-spine", "parallel links"])
def test_the_rules_of_switches_are_the_routes(fabric: Fabric) -> None:
    assert route_defects(fabric) == []
    rules, routes, interfaces = switch_rules(fabric), routes_of(fabric), line_interfaces(fabric)
    for number, (source, target) in enumerate(permutations(range(fabric.hosts), 2)):
        for ports in (ports_of(number), ports_of(number).back()):
            hops = trace(fabric, rules, source, target, dscp_of_band(1), ports)
            assert [f"{hop.switch}-eth{hop.output_port}" for hop in hops] == [
                interfaces[line] for line in routes.path(source, target, ports)[1:]
            ]


def test_ways_need_not_be_the_shortest_ones_and_need_no_ports_where_there_is_one() -> None:
    ends = line_ends(RING)
    way = [ends[line] for line in routes_of(RING).path(2, 0)]
    assert way == [("h3", "s2"), ("s2", "s3"), ("s3", "s4"), ("s4", "s1"), ("s1", "h1")]
    assert most_trunks_on_way(RING) == 3
    assert most_trunks_on_way(replace(RING, routing=Routing.BALANCED, routes=())) == 2


def test_the_last_row_that_matches_counts() -> None:
    assert rows_of(LEAF_SPINE)[0].tolist() == [0, 0, 1, 0]
    assert {line_ends(LEAF_SPINE)[line] for line in routes_of(LEAF_SPINE).all_lines(0, 2)} >= {
        ("s1", "s4"),
        ("s4", "s2"),
    }
    assert len(routes_of(LEAF_SPINE).all_lines(0, 2)) == 4
    assert len(routes_of(LEAF_SPINE).all_lines(0, 3)) == 6


def test_a_switch_stands_for_all_links_to_it_and_a_port_for_one() -> None:
    assert len(routes_of(PARALLEL).all_lines(0, 1)) == 5
    assert len(routes_of(PARALLEL).all_lines(1, 0)) == 3


def test_the_probe_has_flows_that_meet_on_no_line() -> None:
    (_, _), (across, _) = probe_phases(RING, 1000)
    lines = [line for each in across for line in routes_of(RING).path(each.src, each.dst)]
    assert lines
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        ((Route("s9", "*", ("s2",)),), r"row 1 \(switch = 's9', destination = '\*'\): switch: no switch is called that; they are s1, s2"),
        ((*CLOCKWISE, Route("s1", "x*", ("s2",))), r"row 5 .*: destination: no host is called that; they are h1"),
        ((Route("s*", "*", ("s2",)),), r"row 1 .*: next = 's2': s2 has neither a link to a switch nor .*; its neighbours are s1, s3"),
        ((Route("s1", "*", ("s1-eth1",)),), r"row 1 .*: next = 's1-eth1': s1 has neither"),
        (CLOCKWISE[:3], r"packets from h\d to h1 are dropped at s4: no row says how s4 sends to h1"),
        (
            (*CLOCKWISE, Route("s3", "h1", ("s2",))),
            r"packets from h3 to h1 go in a circle, s2 -> s3 -> s2, by rows 2 and 5",
        ),
    ],
)  # fmt: skip
def test_a_table_by_which_packets_do_not_arrive_is_refused_with_row_and_key(
    routes: tuple[Route, ...], said: str
) -> None:

    lines = route_defects(replace(RING, routes=routes))
    assert lines
    assert re.search(said, lines[0]), lines


def test_a_circle_of_many_destinations_is_one_line() -> None:
    (line,) = route_defects(replace(RING, routes=(*CLOCKWISE, Route("s3", "*", ("s2",)))))
    assert "go in a circle, s2 -> s3 -> s2, by rows 2 and 5; the same holds for packets to h" in line
    (line,) = route_defects(replace(RING, routes=CLOCKWISE[:3]))
    assert "are dropped at s4: no row says how s4 sends to h1; the same holds for packets to h2, h3" in line


def test_ways_of_a_table_that_nobody_checked_end() -> None:
    circle = replace(RING, routes=(*CLOCKWISE, Route("s3", "h1", ("s2",))))
    with pytest.raises(InputFault, match="do not arrive"):
        routes_of(circle).path(2, 0)
    assert most_trunks_on_way(circle) == 4


def test_a_table_that_matches_too_much_is_refused() -> None:
    hosts, switches = 1024, 64
    rows = MOST_CELLS // (hosts * switches) + 1
    large = Fabric(
        hosts,
        RATE_BPS,
        Topology.RING,
        graph=spread(hosts, switches, Ring(switches).pairs(), RATE_BPS, ""),
        routing=Routing.STATIC,
        routes=tuple(Route("*", "*" * stars, ("s1",)) for stars in range(1, rows + 1)),
    )
    with pytest.raises(InputFault, match=r"row \d+ .*match more than 200,000,000 pairs"):
        rows_of(large)


def test_a_fabric_comes_back_from_json() -> None:
    assert Fabric.from_json(RING.to_json()) == RING
