"""The node-link form of networkx (node_link_data), with the edges at "edges", or at "links" as before version 3.4."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.attributed_graph import AttributedGraph, content_of_graph
from gradwire.scenario.definitions.networks.network_form import Content, refuse_many


def is_node_link(document: object) -> bool:
    """Returns whether a document has lists of nodes and of edges between them, by the keys of the first ones."""
    if not isinstance(document, dict):
        return False
    nodes, edges = document.get("nodes"), document.get("edges", document.get("links"))
    if not isinstance(nodes, list) or not isinstance(edges, list):
        return False
    return all(isinstance(each[0], dict) and key in each[0] for each, key in ((nodes, "id"), (edges, "source")) if each)


def node_link(path: Path, document: object) -> Content:
    """The content of a NetworkDefinition. Raises InputFault with a line for each defect."""
    if not isinstance(document, dict):
        raise InputFault(f"{path}: must be an object with nodes and edges, as networkx's node_link_data writes it")
    if document.get("directed"):
        raise InputFault(f"{path}: is directed; links carry both directions: write an undirected graph")
    nodes, edges = document.get("nodes"), document.get("edges", document.get("links"))
    if not isinstance(nodes, list) or not isinstance(edges, list):
        raise InputFault(f"{path}: has no lists nodes and edges (or links), as networkx's node_link_data writes them")
    refuse_many(path, len(nodes), len(edges))
    found: dict[str, DocumentTable] = {}
    for number, node in enumerate(nodes):
        name = _end(path, f"nodes.{number}", node, "id")
        if name in found:
            raise InputFault(f"{path}: two nodes have the id '{name}'")
        found[name] = _attributes(node, ("id",))
    links = [
        (
            _end(path, f"edges.{number}", edge, "source"),
            _end(path, f"edges.{number}", edge, "target"),
            _attributes(edge, ("source", "target", "key")),
        )
        for number, edge in enumerate(edges)
    ]
    of_graph = document.get("graph")
    return content_of_graph(path, AttributedGraph(found, links, of_graph if isinstance(of_graph, dict) else {}))


def _attributes(holder: Mapping[object, DocumentValue], without: tuple[str, ...]) -> Document:
    """Attributes by their names, which may be numbers in YAML."""
    return {str(key): value for key, value in holder.items() if key not in without}


def _end(path: Path, place: str, holder: object, key: str) -> str:
    """The name of a node, from a node or an edge."""
    if not isinstance(holder, dict) or key not in holder:
        raise InputFault(f"{path}: {place} has no {key}")
    name = holder[key]
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        raise InputFault(f"{path}: {place}.{key}: must be a text or a number")
    return str(name)
