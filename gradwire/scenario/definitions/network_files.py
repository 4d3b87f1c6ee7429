"""Files that describe a network: GraphML, node-link JSON, and a class of Mininet's Topo. Each becomes the content of a NetworkDefinition.

Every name of an attribute is known or refused: one that is passed over in silence would leave a network that is not the user's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.scenario.definitions.topo_classes import topo_in
from gradwire.scenario.file_references import python_reference
from gradwire.scenario.sections.network import MOST_SWITCHES
from gradwire.workloads.fields import MOST_WORKERS

Content = dict[str, Any]
MOST_NODES = MOST_SWITCHES + MOST_WORKERS
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
"""What a place of Mininet's max_queue_size holds: a full frame at an MTU of 1500."""
HARMLESS_OPTIONS = frozenset(
    {"node1", "node2", "port1", "port2", "use_htb", "use_tbf", "use_hfsc", "cls", "intf", "fast", "addr1", "addr2"}
)
"""Options of Mininet's links that only say how Mininet would build them."""
HARMLESS_PARAMETERS = frozenset(
    {"ip", "mac", "cls", "defaultRoute", "isSwitch", "dpid", "protocols", "failMode", "datapath", "inNamespace", "stp"}
)


def network_in(text: str, path: Path) -> Content:
    """What a file says of a network. text: as the scenario has it, such as "lab.py:Campus".

    Raises InputFault with a line for each defect.
    """
    if (class_name := python_reference(text)) is not None:
        return _of_topo(path, topo_in(path, class_name or None))
    written = _read(path)
    if path.suffix == ".graphml":
        return _of_graphml(path, written)
    return _of_node_link(path, written)


def _read(path: Path) -> str:
    try:
        return read_text(path, MESSAGE_BYTES, follow=True)
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such network file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputFault(f"{path}: cannot be read as a network file: {error}") from error


def _of_graphml(path: Path, text: str) -> Content:
    # It takes a third of a second to import, and few scenarios need it.
    nx = import_module("networkx")
    try:
        graph = nx.parse_graphml(text)
    except Exception as error:  # its parser raises whatever the XML or a value leads to
        raise InputFault(f"{path}: cannot be read as GraphML: {type(error).__name__}: {error}") from error
    if graph.is_directed():
        raise InputFault(f'{path}: is directed; links carry both directions: write edgedefault="undirected"')
    return _of_graph(path, dict(graph.nodes(data=True)), list(graph.edges(data=True)))


def _of_node_link(path: Path, text: str) -> Content:
    """As networkx writes it (node_link_data), with the edges at "edges", or at "links" as before version 3.4."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputFault(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputFault(f"{path}: must be an object with nodes and edges, as networkx's node_link_data writes it")
    if content.get("directed"):
        raise InputFault(f"{path}: is directed; links carry both directions: write an undirected graph")
    nodes, edges = content.get("nodes"), content.get("edges", content.get("links"))
    if not isinstance(nodes, list) or not isinstance(edges, list):
        raise InputFault(f"{path}: has no lists nodes and edges (or links), as networkx's node_link_data writes them")
    for kind, each, needed in (
        *(("node", node, ("id",)) for node in nodes),
        *(("edge", e, ("source", "target")) for e in edges),
    ):
        if not isinstance(each, dict) or any(key not in each for key in needed):
            raise InputFault(f"{path}: {kind} {json.dumps(each)[:80]} has no {' and '.join(needed)}")
    return _of_graph(
        path,
        {node["id"]: {key: value for key, value in node.items() if key != "id"} for node in nodes},
        [
            (edge["source"], edge["target"], {k: v for k, v in edge.items() if k not in ("source", "target", "key")})
            for edge in edges
        ],
    )


def _of_graph(
    path: Path, nodes: Mapping[Any, Mapping[str, Any]], edges: list[tuple[Any, Any, Mapping[str, Any]]]
) -> Content:
    _refuse_crowds(path, len(nodes))
    lines: list[str] = []
    content: Content = {"hosts": [], "switches": [], "links": []}
    for node, attributes in nodes.items():
        kind = attributes.get("type", "host" if HOST_NAME.fullmatch(str(node)) else "switch")
        if kind not in KINDS:
            lines.append(f"node '{node}': type = '{kind}': must be host or switch")
            continue
        lines += [f"node '{node}': {line}" for line in _unknown(attributes, ("type",))]
        content[KINDS[kind]].append(str(node))
    for a, b, attributes in edges:
        link = f"link '{a}' to '{b}'"
        lines += [f"{link}: {line}" for line in _unknown(attributes, tuple(EDGE_KEYS))]
        values, wrong = _values(attributes, EDGE_KEYS)
        lines += [f"{link}: {line}" for line in wrong]
        content["links"].append({"a": str(a), "b": str(b), **values})
    if lines:
        raise InputFault("\n".join(f"{path}: {line}" for line in lines[:MOST_LINES]))
    return content


MOST_LINES = 10


def _refuse_crowds(path: Path, nodes: int) -> None:
    if nodes > MOST_NODES:
        raise InputFault(
            f"{path}: has {nodes:,} nodes; must be at most {MOST_SWITCHES:,} switches and {MOST_WORKERS:,} hosts"
        )


def _unknown(attributes: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[str]:
    for name in attributes:
        if name not in known and name.lower() not in DESCRIBING:
            yield f"unknown attribute '{name}'; known are {', '.join(known)}"


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


Conversion = tuple[str, Callable[[Any], Any]]
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
"""The same for options of Mininet's TCLink: Mbit/s, per cent, packets."""


def _values(attributes: Mapping[str, Any], keys: Mapping[str, Conversion]) -> tuple[Content, list[str]]:
    """What attributes say of a link, and a line for each that has no value of its kind."""
    values: Content = {}
    lines = []
    for name, (key, converted) in keys.items():
        if attributes.get(name) is None:
            continue
        try:
            values[key] = converted(attributes[name])
        except (TypeError, ValueError, OverflowError):
            lines.append(f"{name} = {attributes[name]!r}: is not a number, or a text with its unit")
    return values, lines


def _of_topo(path: Path, topo: Any) -> Content:
    """What an instance of Mininet's Topo says, asked by its own methods."""
    try:
        hosts, switches = list(map(str, topo.hosts())), list(map(str, topo.switches()))
        links = [(str(a), str(b), dict(options)) for a, b, options in topo.links(sort=False, withInfo=True)]
        parameters = {node: dict(topo.nodeInfo(node)) for node in (*hosts, *switches)}
    except Exception as error:  # the class is the user's own
        raise InputFault(f"{path}: is not a Topo of Mininet: {type(error).__name__}: {error}") from error
    _refuse_crowds(path, len(hosts) + len(switches))
    lines = [
        f"node '{node}': unknown parameter '{name}'"
        for node, given in parameters.items()
        for name, value in given.items()
        if value is not None and name not in HARMLESS_PARAMETERS
    ]
    content: Content = {"hosts": hosts, "switches": switches, "links": []}
    for a, b, options in links:
        given = {
            name: value for name, value in options.items() if value not in (None, {}) and name not in HARMLESS_OPTIONS
        }
        values, wrong = _values(given, TOPO_KEYS)
        lines += [f"link '{a}' to '{b}': {line}" for line in (*_unknown(given, tuple(TOPO_KEYS)), *wrong)]
        content["links"].append({"a": a, "b": b, **values})
    if lines:
        raise InputFault("\n".join(f"{path}: {line}" for line in lines[:MOST_LINES]))
    return content
