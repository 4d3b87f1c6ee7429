"""Files that describe a network: GraphML, node-link JSON, InfraGraph, and a class of Mininet's Topo, as contents of a
NetworkDefinition.

Every name of an attribute is known or refused: ignoring one silently would leave a network that is not the user's.

GraphML (http://graphml.graphdrawing.org) is XML that comes from others. Before networkx reads a file, expat goes
through it, and refuses constructs that would take all memory or read other files (declarations of entities, which
GraphML has no use for), and those that networkx would silently leave out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.parsers import expat

from gradwire.faults import InputFault
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.scenario.definitions.infragraph import YAML_ENDINGS, infragraph, is_infragraph, read_document
from gradwire.scenario.definitions.topo_process import topo_said
from gradwire.scenario.file_references import python_reference
from gradwire.scenario.sections.network import MOST_LINKS, MOST_NODES, MOST_SWITCHES
from gradwire.workloads.fields import MOST_WORKERS

Content = dict[str, Any]
DESCRIBING = frozenset(
    {
        *(
            "label",
            "name",
            "id",
            "key",
            "x",
            "y",
            "z",
            "pos",
            "color",
            "colour",
            "shape",
            "note",
            "title",
            "description",
        ),
        *(
            "latitude",
            "longitude",
            "country",
            "city",
            "region",
            "internal",
            "hyperedge",
            "linklabel",
            "linktype",
            "linknote",
        ),
    }
)
"""Attributes, in small letters, that only describe a node or a link."""
KINDS = {"host": "hosts", "switch": "switches", "router": "switches"}
HOST_NAME = re.compile(r"h(ost)?[-_]?\d+", re.IGNORECASE)
FRAME_BYTES = 1514
"""Size of a place of Mininet's max_queue_size: a full frame at an MTU of 1500."""
HARMLESS_OPTIONS = frozenset(
    {"node1", "node2", "port1", "port2", "use_htb", "use_tbf", "use_hfsc", "cls", "intf", "fast", "addr1", "addr2"}
)
"""Options of Mininet's links that only say how Mininet would build them."""
HARMLESS_PARAMETERS = frozenset(
    {"ip", "mac", "cls", "defaultRoute", "isSwitch", "dpid", "protocols", "failMode", "datapath", "inNamespace", "stp"}
)
LONGEST_VALUE = 80
Conversion = tuple[str, Callable[[Any], Any]]
LONGEST_ID = 200


def network_in(text: str, path: Path) -> Content:
    """Reads a network from a file. text: the path as the scenario has it, such as "lab.py:Campus".

    Raises InputFault with a line for each defect.
    """
    if (class_name := python_reference(text)) is not None:
        return _of_topo(path, topo_said(path, class_name or None, MOST_NODES))
    with reading_budget(path):
        return _of_file(path, _read(path))


def _of_file(path: Path, written: str) -> Content:
    if path.suffix == ".graphml":
        return _of_graph(path, *graphml(path, written))
    content = read_document(path, written)
    if path.suffix in YAML_ENDINGS or is_infragraph(content):
        found = infragraph(path, content)
        _refuse_crowds(path, len(found["hosts"]) + len(found["switches"]), len(found["links"]))
        return found
    return _of_node_link(path, content)


def _read(path: Path) -> str:
    try:
        return read_text(path, MESSAGE_BYTES, follow=True)
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such network file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputFault(f"{path}: cannot be read as a network file: {error}") from error


def _of_node_link(path: Path, content: Any) -> Content:
    """Reads a network in the node-link form of networkx (node_link_data), with the edges at "edges", or at "links" as
    before version 3.4."""
    if not isinstance(content, dict):
        raise InputFault(f"{path}: must be an object with nodes and edges, as networkx's node_link_data writes it")
    if content.get("directed"):
        raise InputFault(f"{path}: is directed; links carry both directions: write an undirected graph")
    nodes, edges = content.get("nodes"), content.get("edges", content.get("links"))
    if not isinstance(nodes, list) or not isinstance(edges, list):
        raise InputFault(f"{path}: has no lists nodes and edges (or links), as networkx's node_link_data writes them")
    _refuse_crowds(path, len(nodes), len(edges))
    found: dict[str, Mapping[str, Any]] = {}
    for number, node in enumerate(nodes):
        name = _end(path, f"nodes.{number}", node, "id")
        if name in found:
            raise InputFault(f"{path}: two nodes have the id '{name}'")
        found[name] = {key: value for key, value in node.items() if key != "id"}
    links = [
        (
            _end(path, f"edges.{number}", edge, "source"),
            _end(path, f"edges.{number}", edge, "target"),
            {key: value for key, value in edge.items() if key not in ("source", "target", "key")},
        )
        for number, edge in enumerate(edges)
    ]
    return _of_graph(path, found, links)


def _end(path: Path, place: str, holder: Any, key: str) -> str:
    """The name of a node, from a node or an edge of node-link JSON."""
    if not isinstance(holder, dict) or key not in holder:
        raise InputFault(f"{path}: {place} has no {key}")
    name = holder[key]
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        raise InputFault(f"{path}: {place}.{key}: must be a text or a number")
    return str(name)


def _of_graph(
    path: Path, nodes: Mapping[str, Mapping[str, Any]], edges: Sequence[tuple[str, str, Mapping[str, Any]]]
) -> Content:
    _refuse_crowds(path, len(nodes), len(edges))
    lines: list[str] = []
    content: Content = {"hosts": [], "switches": [], "links": []}
    for node, attributes in nodes.items():
        kind = attributes.get("type", "host" if HOST_NAME.fullmatch(node) else "switch")
        if not isinstance(kind, str) or kind not in KINDS:
            lines.append(f"node '{node}': type = {shown(kind)}: must be host or switch")
            continue
        lines += [f"node '{node}': {line}" for line in _unknown(attributes, ("type",))]
        content[KINDS[kind]].append(node)
    for a, b, attributes in edges:
        link = f"link '{a}' to '{b}'"
        lines += [f"{link}: {line}" for line in _unknown(attributes, tuple(EDGE_KEYS))]
        values, wrong = _values(attributes, EDGE_KEYS)
        lines += [f"{link}: {line}" for line in wrong]
        content["links"].append({"a": a, "b": b, **values})
    if lines:
        raise InputFault("\n".join(f"{path}: {line}" for line in lines))
    return content


def shown(value: Any) -> str:
    """A value of an attribute in a message."""
    try:
        words = repr(value)
    except (RecursionError, ValueError):
        words = f"a {type(value).__name__}"
    return words if len(words) <= LONGEST_VALUE else f"{words[:LONGEST_VALUE]}..."


def _refuse_crowds(path: Path, nodes: int, links: int) -> None:
    if nodes > MOST_NODES:
        raise InputFault(
            f"{path}: has {nodes:,} nodes; must be at most {MOST_SWITCHES:,} switches and {MOST_WORKERS:,} hosts"
        )
    if links > MOST_LINKS:
        raise InputFault(f"{path}: has {links:,} links; must be at most {MOST_LINKS:,}")


def _unknown(attributes: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[str]:
    for name in attributes:
        if name not in known and name.lower() not in DESCRIBING:
            yield f"unknown attribute '{name[:LONGEST_VALUE]}'; known are {', '.join(known)}"


def _bits_per_s(value: Any) -> Any:
    return value if isinstance(value, str) else f"{float(value):.17g}bit"


def _seconds(value: Any) -> Any:
    return value if isinstance(value, str) else f"{float(value):.17g}s"


def _bytes(value: Any) -> Any:
    return value if isinstance(value, str) else f"{int(value)}B"


def _megabits(value: Any) -> str:
    return f"{float(value) * 1e6:.17g}bit"


def _frames(value: Any) -> str:
    return f"{int(value) * FRAME_BYTES}B"


def _percent(value: Any) -> float:
    return float(value) / 100


EDGE_KEYS: Mapping[str, Conversion] = {
    "rate": ("rate", _bits_per_s),
    "bw": ("rate", _megabits),
    "LinkSpeedRaw": ("rate", _bits_per_s),
    "delay": ("delay", _seconds),
    "jitter": ("jitter", _seconds),
    "loss": ("loss", float),
    "buffer": ("buffer", _bytes),
    "ecn": ("ecn", _bytes),
}
"""Attributes of links in files, the keys that they stand for, and what numbers are: bit/s (bw: Mbit/s), seconds, shares, bytes."""
TOPO_KEYS: Mapping[str, Conversion] = {
    "bw": ("rate", _megabits),
    "delay": ("delay", _seconds),
    "jitter": ("jitter", _seconds),
    "loss": ("loss", _percent),
    "max_queue_size": ("buffer", _frames),
}
"""Options of Mininet's TCLink, the keys that they stand for, and their units: Mbit/s, per cent, packets."""


def _values(attributes: Mapping[str, Any], keys: Mapping[str, Conversion]) -> tuple[Content, list[str]]:
    """Values of a link's keys from its attributes, and a line for each attribute whose value is of a wrong kind."""
    values: Content = {}
    lines = []
    for name, (key, converted) in keys.items():
        value = attributes.get(name)
        if value is None:
            continue
        try:
            if isinstance(value, bool):
                raise TypeError
            values[key] = converted(value)
        except (TypeError, ValueError, OverflowError):
            lines.append(f"{name} = {shown(value)}: is not a number, or a text with its unit")
    return values, lines


def _of_topo(path: Path, said: Mapping[str, Any]) -> Content:
    """Makes a network of the answer of a class of Mininet's Topo (scenario/definitions/topo_process.py)."""
    _refuse_crowds(path, said.get("nodes", 0), len(said.get("links", ())))
    lines = [
        f"node '{node}': unknown parameter '{name}'"
        for node, given in said["parameters"].items()
        for name, value in given.items()
        if value is not None and name not in HARMLESS_PARAMETERS
    ]
    content: Content = {"hosts": said["hosts"], "switches": said["switches"], "links": []}
    for a, b, options in said["links"]:
        given = {
            name: value for name, value in options.items() if value not in (None, {}) and name not in HARMLESS_OPTIONS
        }
        values, wrong = _values(given, TOPO_KEYS)
        lines += [f"link '{a}' to '{b}': {line}" for line in (*_unknown(given, tuple(TOPO_KEYS)), *wrong)]
        content["links"].append({"a": a, "b": b, **values})
    if lines:
        raise InputFault("\n".join(f"{path}: {line}" for line in lines))
    return content


def graphml(path: Path, text: str) -> tuple[dict[str, Mapping[str, Any]], list[tuple[str, str, Mapping[str, Any]]]]:
    """The nodes with their attributes, and the edges. Raises InputFault."""
    _Scan(path).of(text)
    # It takes a third of a second to import, and few scenarios need it.
    nx = import_module("networkx")
    try:
        graph = nx.parse_graphml(text)
    except Exception as error:  # its parser raises whatever the XML or a value leads to
        raise _unreadable(path, error) from error
    if graph.is_directed():
        raise InputFault(f'{path}: is directed; links carry both directions: write edgedefault="undirected"')
    return dict(graph.nodes(data=True)), list(graph.edges(data=True))


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

    def _doctype(self, *_: Any) -> None:
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
