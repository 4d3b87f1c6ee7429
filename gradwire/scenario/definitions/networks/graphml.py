"""GraphML (http://graphml.graphdrawing.org), which is XML that comes from others.

Before networkx reads a file, expat goes through it, and refuses constructs that would take all memory or read other files
(declarations of entities, which GraphML has no use for), and those that networkx would silently leave out.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from xml.parsers import expat

from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.attributed_graph import AttributedGraph, content_of_graph
from gradwire.scenario.definitions.networks.network_form import Content
from gradwire.scenario.sections.network import MOST_LINKS

LONGEST_ID = 200


def graphml(path: Path, text: str) -> Content:
    """The content of a NetworkDefinition. Raises InputFault with a line for each defect."""
    _Scan(path).of(text)
    # It takes a third of a second to import, and few scenarios need it.
    nx = import_module("networkx")
    try:
        graph = nx.parse_graphml(text)
    except Exception as error:  # its parser raises whatever the XML or a value leads to
        raise _unreadable(path, error) from error
    if graph.is_directed():
        raise InputFault(f'{path}: is directed; links carry both directions: write edgedefault="undirected"')
    found = AttributedGraph(dict(graph.nodes(data=True)), list(graph.edges(data=True)), graph.graph)
    return content_of_graph(path, found)


def _unreadable(path: Path, error: Exception) -> InputFault:
    return InputFault(f"{path}: cannot be read as GraphML: {type(error).__name__}: {error}")


class _Scan:
    """Goes through a file once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[str] = []
        self._graphs = 0
        self._nodes: set[str] = set()
        self._edges: list[tuple[str, str, str | None]] = []

    def of(self, text: str) -> None:
        """Goes through a text, and refuses what networkx must not read. Raises InputFault."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        try:
            parser.Parse(text.encode("utf-8", "surrogatepass"), True)
        except (expat.ExpatError, ValueError) as error:
            raise _unreadable(self._path, error) from error
        if self._graphs != 1:
            raise InputFault(f"{self._path}: has {self._graphs} graphs; must have one")
        self._refuse_what_networkx_leaves_out()

    def _doctype(self, *_: object) -> None:
        raise InputFault(
            f"{self._path}: has a DOCTYPE, with which XML declares entities and names other files; remove it"
        )

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        if name == "graph":
            self._graphs += 1
            if "node" in self._open:
                raise InputFault(f"{self._path}: has a graph in a node; must have one graph, and all nodes in it")
        elif name == "node":
            self._node(attributes.get("id", ""))
        elif name == "edge":
            self._edges.append((attributes.get("source", ""), attributes.get("target", ""), attributes.get("id")))
            if len(self._edges) > MOST_LINKS:
                raise InputFault(f"{self._path}: has more than {MOST_LINKS:,} links")
        self._open.append(name)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _node(self, node: str) -> None:
        if node in self._nodes:
            raise InputFault(f"{self._path}: two nodes have the id '{node[:LONGEST_ID]}'")
        self._nodes.add(node)

    def _refuse_what_networkx_leaves_out(self) -> None:
        """Raises InputFault for ends that are not nodes, which networkx would make nodes of, and for parallel edges
        with the same id, which it would make one of."""
        known: set[tuple[frozenset[str], str]] = set()
        for source, target, number in self._edges:
            edge = f"link '{source[:LONGEST_ID]}' to '{target[:LONGEST_ID]}'"
            for end in (source, target):
                if end not in self._nodes:
                    raise InputFault(f"{self._path}: {edge}: there is no node '{end[:LONGEST_ID]}'")
            if number is not None:
                key = frozenset((source, target)), number
                if key in known:
                    raise InputFault(f"{self._path}: {edge}: two of these links have the id '{number[:LONGEST_ID]}'")
                known.add(key)
