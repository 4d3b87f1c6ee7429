"""Switches in no tiers: a network of one of the shapes of network/graph_shapes.py, or one of the user's own
(`fabric.topology = "custom"`). Its switches and links are a `NetworkGraph`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradwire.faults import InternalFault
from gradwire.network.graph_shapes import GraphShape, GraphShapeClass
from gradwire.network.links import Link, numbered
from gradwire.network.network_graph import NetworkGraph
from gradwire.network.shape_numbers import ShapeNumbers
from gradwire.network.structures.structure import Structure, nic_defects
from gradwire.network.tiers import Tiers

WITH_DEFAULT = "global_links"
"""The one key of such shapes that need not be given."""


class GraphStructure(Structure):
    """Any links between switches. Every switch can have hosts."""

    is_tiered = False

    def __init__(self, name: str, keys: Sequence[str], shape_class: GraphShapeClass | None = None) -> None:
        self.name, self.keys, self._shape_class = name, keys, shape_class
        self.wanted_keys = tuple(key for key in keys if key != WITH_DEFAULT)

    def shape(self, values: Mapping[str, Any]) -> GraphShape:
        """Returns the shape that a few numbers describe. values: of the keys of `fabric`, also those that do not concern
        it. Raises InternalFault for a network of the user's own."""
        if self._shape_class is None:
            raise InternalFault(f"fabric.topology = '{self.name}': no numbers describe it")
        return self._shape_class(**{key: values[key] for key in self.keys})

    def defects(self, numbers: ShapeNumbers) -> Iterator[str]:
        """Yields the reasons why there is no such network, a line each."""
        if numbers.graph is None:
            yield f"fabric.topology = '{self.name}': needs its switches and links"
            return
        if numbers.hosts != len(numbers.graph.host_links):
            yield f"fabric: a network for {len(numbers.graph.host_links)} hosts cannot have {numbers.hosts}"
        yield from nic_defects(numbers)
        yield from numbers.graph.defects()

    def tree(self, numbers: ShapeNumbers) -> Tiers:
        """Returns tiers without anything above the leaves."""
        return Tiers(numbers.hosts)

    def summits(self, _numbers: ShapeNumbers) -> int:
        """Returns 1: nothing is known of how many ways there are."""
        return 1

    def switch_count(self, numbers: ShapeNumbers) -> int:
        """Number of switches; 0 as long as the graph is missing, which is a defect."""
        return numbers.graph.switches if numbers.graph else 0

    def leaf_count(self, numbers: ShapeNumbers) -> int:
        """Number of switches, all of which can have hosts."""
        return self.switch_count(numbers)

    def place_of(self, numbers: ShapeNumbers, host: int) -> tuple[int, int]:
        """Index of the switch that a host is on, and the number of the port there."""
        graph = _graph_of(numbers)
        return graph.host_links[host].b, graph.host_ports[host]

    def hosts_of_leaves(self, numbers: ShapeNumbers) -> tuple[tuple[int, ...], ...]:
        """Host indices on each switch, in the order of its ports."""
        return _graph_of(numbers).hosts_of_switches

    def links(self, numbers: ShapeNumbers, hosts: Sequence[str], switches: Sequence[str]) -> tuple[Link, ...]:
        """The links of hosts, then those between switches, with their own delays where the network has none for all."""
        links = numbered(_graph_of(numbers).links(hosts, switches))
        return tuple(replace(link, delay_s=numbers.delay_s) if numbers.delay_s else link for link in links)

    def aliases(
        self, numbers: ShapeNumbers, hosts: Sequence[str], switches: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """The names that the network's author gave to devices, by those in the fabric."""
        graph = _graph_of(numbers)
        labels = [*zip(hosts, graph.host_labels, strict=False), *zip(switches, graph.switch_labels, strict=False)]
        return {name: (label,) for name, label in labels}

    def most_trunks(self, numbers: ShapeNumbers) -> int:
        """Links between switches on the longest of the shortest ways between hosts."""
        graph = _graph_of(numbers)
        ends = [switch for switch, hosts in enumerate(graph.hosts_of_switches) if hosts]
        return max(distance for switch in ends for distance in graph.distances(switch))

    def words(self, numbers: ShapeNumbers) -> str:
        """Describes what hosts are on."""
        graph = _graph_of(numbers)
        trunks = len(graph.trunks)
        return f"on {graph.title}, {trunks} link{'s' if trunks != 1 else ''} between them"

    def short_words(self, _oversubscription: float, _core_oversubscription: float) -> str:
        """Describes it in titles."""
        return f", {self.name}"


def _graph_of(numbers: ShapeNumbers) -> NetworkGraph:
    assert numbers.graph is not None  # whose lack is a defect of the shape
    return numbers.graph
