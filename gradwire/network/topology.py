"""The structures of networks, by their names in scenarios and in the records of runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gradwire.network.graph_shapes import GRAPH_SHAPES
from gradwire.network.structures.fat_tree import FatTree
from gradwire.network.structures.graph_structure import GraphStructure
from gradwire.network.structures.leaf_spine import LeafSpine
from gradwire.network.structures.single_switch import SingleSwitch
from gradwire.network.structures.structure import Structure


class Topology(StrEnum):
    """Shape of the fabric."""

    SINGLE_SWITCH = SingleSwitch.name
    LEAF_SPINE = LeafSpine.name
    FAT_TREE = FatTree.name
    RING = "ring"
    LINEAR = "linear"
    FULL_MESH = "full-mesh"
    HYPERCUBE = "hypercube"
    TORUS = "torus"
    DRAGONFLY = "dragonfly"
    CUSTOM = "custom"

    @property
    def structure(self) -> Structure:
        """How the switches of such a fabric are joined."""
        return STRUCTURES[self]


STRUCTURES: Mapping[str, Structure] = {
    each.name: each
    for each in (
        SingleSwitch(),
        LeafSpine(),
        FatTree(),
        *(GraphStructure(name, shape.keys, shape) for name, shape in GRAPH_SHAPES.items()),
        GraphStructure("custom", ("file",)),
    )
}
"""The structures by name."""
