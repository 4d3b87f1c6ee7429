"""GML (Himsolt, 1997), as networkx and the Topology Zoo write it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.attributed_graph import AttributedGraph, content_of_graph
from gradwire.scenario.definitions.networks.network_form import Content

GRAPH = re.compile(r"^[ \t]*graph\s*\[", re.MULTILINE)


def gml(path: Path, text: str) -> Content:
    """The content of a NetworkDefinition. Raises InputFault with a line for each defect."""
    nx = import_module("networkx")
    try:
        # By their ids: labels may be the same, or missing. The Zoo's files have parallel links, and do not say so.
        several = text if "multigraph" in text else GRAPH.sub("graph [ multigraph 1", text, count=1)
        graph = nx.parse_gml(several, label=None)
    except Exception as error:  # its parser raises whatever a text leads to
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputFault(f"{path}: cannot be read as GML: {words[:300]}") from error
    if graph.is_directed():
        raise InputFault(f"{path}: is directed; links carry both directions: write directed 0")
    nodes = {str(node): attributes for node, attributes in graph.nodes(data=True)}
    edges = [(str(a), str(b), attributes) for a, b, attributes in graph.edges(data=True)]
    return content_of_graph(path, AttributedGraph(nodes, edges, graph.graph))
