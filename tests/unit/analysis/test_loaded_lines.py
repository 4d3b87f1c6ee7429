"""The most loaded lines between switches, and how many flows meet there, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.link_loads import lines_in_words, loaded_lines
from gradwire.network.fabric import Fabric, Routing, Topology
from gradwire.network.graph_shapes import Ring
from gradwire.network.links import LinkSetting
from gradwire.network.network_graph import spread
from gradwire.network.routes import line_titles, lines_of, routes_of
from gradwire.network.wire.flows import connections_of
from gradwire.runs.stored.spines import find_loaded_lines
from gradwire.workloads.divided_messages import divided
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.parts import tells

RATE_BPS = 10e9
LINE = Fabric(6, RATE_BPS, Topology.CUSTOM, classes=1, graph=spread(6, 3, [(0, 1), (1, 2)], RATE_BPS, ""))
SIZE_BYTES = 14_480_000


def test_flows_that_pass_a_line_are_counted_and_their_bytes_are_its_time() -> None:
    """Two hosts at each of three switches in a row: two flows pass both links, and one passes the second alone."""
    transfers = [Transfer(0, 4, SIZE_BYTES), Transfer(1, 5, SIZE_BYTES), Transfer(2, 4, 3 * SIZE_BYTES)]
    plan = compile_transfers("some", 6, transfers)
    alone_s = SIZE_BYTES / LINE.goodput_share() * 8 / RATE_BPS
    second, first = loaded_lines(plan, LINE)
    assert [(line.name, line.flows) for line in (second, first)] == [("s2-s3 to s3", 3), ("s1-s2 to s2", 2)]
    assert second.busy_s == pytest.approx(5 * alone_s, rel=1e-3)
    assert first.busy_s == pytest.approx(2 * alone_s, rel=1e-3)
    of_second, of_first = (
        ("s2-s3 to s3", f"{second.busy_s:.4g} s", "3 flows"),
        ("s1-s2 to s2", f"{first.busy_s:.4g} s", "2"),
    )
    assert tells(lines_in_words([second, first]), *of_second, *of_first)


def test_hashed_connections_are_counted_where_their_hashes_lead() -> None:
    fabric = Fabric(8, RATE_BPS, Topology.LEAF_SPINE, leaves=2, spines=4, classes=1, routing=Routing.ECMP)
    plan = divided(compile_transfers("one", 8, [Transfer(0, 7, SIZE_BYTES)]), 16)
    routes, titles = routes_of(fabric), line_titles(fabric)
    expected: dict[str, int] = {}
    for connection in connections_of(plan):
        if connection.traffic_class >= 0:
            for line in routes.path(0, 7, connection.ports)[1:-1]:
                expected[titles[line]] = expected.get(titles[line], 0) + 1
    assert {line.name: line.flows for line in loaded_lines(plan, fabric)} == expected
    assert max(expected.values()) < 16


def test_nothing_is_said_where_there_is_one_way() -> None:
    single = Fabric(2, RATE_BPS)
    plan = compile_transfers("one", 2, [Transfer(0, 1, SIZE_BYTES)])
    assert find_loaded_lines(plan, single) == []
    assert lines_in_words([]) == ""
    one_spine = Fabric(2, RATE_BPS, Topology.LEAF_SPINE, leaves=2, spines=1)
    assert find_loaded_lines(plan, one_spine) == []
    two_spines = replace(one_spine, spines=2)
    assert len(find_loaded_lines(plan, two_spines)) == 2


def test_a_ring_of_switches_has_lines_of_either_direction() -> None:
    fabric = Fabric(4, RATE_BPS, Topology.RING, classes=1, graph=spread(4, 4, Ring(4).pairs(), RATE_BPS, ""))
    plan = compile_transfers("both", 4, [Transfer(0, 1, SIZE_BYTES), Transfer(1, 0, 2 * SIZE_BYTES)])
    assert [line.name for line in find_loaded_lines(plan, fabric)] == ["s1-s2 to s1", "s1-s2 to s2"]


def test_lines_have_the_names_that_links_have_in_scenarios() -> None:
    """Each name begins with one that `fabric.link` takes for that very link."""
    fabric = Fabric(8, RATE_BPS, Topology.FAT_TREE, pods=2, leaves=2, spines=2, cores=4, classes=1)
    titles = line_titles(fabric)
    assert len(set(titles)) == len(titles)
    for title, link in zip(titles, lines_of(fabric), strict=True):
        name = title.split(" ")[0]
        slower = replace(fabric, link_settings=(LinkSetting(name, rate_bps=1e6),))
        assert [each.name for each in slower.links() if each.rate_bps == 1e6] == [link.name]
