"""Shapes that a few numbers describe: their links are counted before they are made, and join what they should."""

from __future__ import annotations

import re

import networkx as nx
import pytest

from gradwire.faults import InputFault
from gradwire.network.graph_shapes import (
    GRAPH_SHAPES,
    Dragonfly,
    FullMesh,
    GraphShape,
    Hypercube,
    Linear,
    Ring,
    Torus,
)
from gradwire.network.structures.graph_structure import GraphStructure
from gradwire.network.topology import Topology
from gradwire.scenario.resolution.networks import graph_of
from gradwire.scenario.sections.fabric import FabricSection
from tests.shared.snippets import ROOT

SHAPES: list[GraphShape] = [
    Linear(5),
    Ring(6),
    FullMesh(5),
    Hypercube(1),
    Hypercube(16),
    Torus((4, 4)),
    Torus((2, 3, 2)),
    Torus((1, 5)),
    Dragonfly(4, 3, 2),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.title)
def test_links_are_as_many_as_said_and_join_all_switches(shape: GraphShape) -> None:
    pairs = shape.pairs()
    assert len(pairs) == shape.link_count
    graph: nx.MultiGraph[int] = nx.MultiGraph(pairs)
    graph.add_nodes_from(range(shape.switch_count))
    assert set(graph) == set(range(shape.switch_count))
    assert nx.is_connected(graph)
    assert shape.defect() == ""


def test_every_shape_has_a_case_and_a_row_in_the_documentation() -> None:
    assert {type(shape) for shape in SHAPES} == {*GRAPH_SHAPES.values()}
    table = (ROOT / "docs" / "networks.md").read_text().split("| `fabric.topology` | what it is |")[1].split("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(GRAPH_SHAPES)


def test_a_hypercube_is_that_of_networkx() -> None:
    assert nx.is_isomorphic(nx.Graph(Hypercube(16).pairs()), nx.hypercube_graph(4))


def test_every_topology_that_is_a_graph_has_its_shape() -> None:
    assert set(GRAPH_SHAPES) == {each for each in Topology if not each.structure.is_tiered} - {Topology.CUSTOM}


def structure_of(topology: Topology) -> GraphStructure:
    assert isinstance(topology.structure, GraphStructure)
    return topology.structure


def test_a_shape_takes_its_own_keys_alone() -> None:
    values = {"switches": 8, "dimensions": (4, 4), "groups": 0}
    found = {each: structure_of(each).shape(values).switch_count for each in (Topology.HYPERCUBE, Topology.TORUS)}
    assert found == {Topology.HYPERCUBE: 8, Topology.TORUS: 16}


def test_a_hypercube_has_a_power_of_two() -> None:
    section = FabricSection.model_validate({"rate": "1gbit", "topology": "hypercube", "switches": 6})
    with pytest.raises(InputFault, match=r"fabric\.switches = 6: .* 4 or 8"):
        graph_of(section, 4, {})
