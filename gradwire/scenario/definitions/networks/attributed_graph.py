"""A graph whose nodes and links have attributes, as GraphML, GML and networkx's node-link form write it, as the contents of a
NetworkDefinition.

Attributes that are not known are noted and ignored. Values that are known and wrong are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradwire.documents import DocumentTable
from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.link_attributes import read_link
from gradwire.scenario.definitions.networks.network_form import Content, noted, refuse_many, shown
from gradwire.scenario.sections.network import NoteKind

DESCRIBING = frozenset(
    {
        *("label", "name", "id", "key", "x", "y", "z", "pos", "color", "colour", "shape", "note", "title"),
        *("description", "latitude", "longitude", "lat", "lon", "lng", "country", "city", "region", "internal"),
        *("hyperedge", "linklabel", "linktype", "linknote", "url"),
    }
)
"""Attributes, in small letters, that only describe a node or a link, or that are read with the nodes."""
TYPES = ("type", "kind", "role")
"""Attributes that may say what a node is; the first with a type that is known counts."""
KINDS = {"host": "hosts", "server": "hosts", "switch": "switches", "router": "switches"}
"""Types of nodes, in small letters."""
HOST_NAME = re.compile(r"h(ost)?[-_]?\d+", re.IGNORECASE)
LATITUDES, LONGITUDES = ("latitude", "lat"), ("longitude", "lon", "lng")
EARTH_RADIUS_KM = 6371.0088
"""Mean radius of the Earth (Moritz, Geodetic Reference System 1980, Journal of Geodesy 74, 2000)."""


@dataclass(frozen=True)
class AttributedGraph:
    """A graph as a file has it."""

    #: Attributes by node.
    nodes: Mapping[str, DocumentTable]
    #: Two nodes, and the attributes of their link.
    edges: Sequence[tuple[str, str, DocumentTable]]
    #: Attributes of the whole.
    attributes: DocumentTable = field(default_factory=dict)


def content_of_graph(path: Path, graph: AttributedGraph) -> Content:
    """The content of a NetworkDefinition. Raises InputFault with a line for each defect."""
    refuse_many(path, len(graph.nodes), len(graph.edges))
    return _GraphReading(path, graph).content()


class _GraphReading:
    """Goes through a graph once."""

    def __init__(self, path: Path, graph: AttributedGraph) -> None:
        self._path, self._graph = path, graph
        self._lines: list[str] = []
        self._unused: dict[str, None] = {}
        self._unused_nodes = self._unused_links = 0
        self._notes: list[Content] = []

    def content(self) -> Content:
        """The content of a NetworkDefinition."""
        kinds = self._kinds()
        links = self._links()
        if links:
            self._leave_out_alone(kinds, links)
        if self._lines:
            raise InputFault("\n".join(f"{self._path}: {line}" for line in self._lines))
        if self._unused:
            self._note(NoteKind.UNUSED, self._unused, nodes=self._unused_nodes, links=self._unused_links)
        nodes: dict[str, list[str]] = {"hosts": [], "switches": []}
        for node, kind in kinds.items():
            nodes[kind].append(node)
        content: Content = {**nodes, "links": links}
        return {**content, "notes": self._notes} if self._notes else content

    def _note(self, kind: NoteKind, names: Mapping[str, None], *, nodes: int = 0, links: int = 0) -> None:
        self._notes.append(noted(kind, names, nodes=nodes, links=links))

    def _kinds(self) -> dict[str, str]:
        """The list of a NetworkDefinition that each node is in."""
        kinds: dict[str, str] = {}
        taken: dict[str, None] = {}
        of_other_types = outside = 0
        for node, attributes in self._graph.nodes.items():
            types = {key: value for key in TYPES if (value := attributes.get(key)) is not None}
            if wrong := next((key for key, value in types.items() if not isinstance(value, str)), None):
                self._lines.append(
                    f"node '{node}': {wrong} = {shown(types[wrong])}: must be a text, such as host or switch"
                )
                continue
            texts = [value for value in types.values() if isinstance(value, str)]
            known = next((kind for text in texts if (kind := KINDS.get(text.strip().lower()))), None)
            if known is None and types:
                taken |= dict.fromkeys(texts)
                of_other_types += 1
            kinds[node] = known or ("hosts" if not types and HOST_NAME.fullmatch(node) else "switches")
            outside += str(attributes.get("Internal")) == "0"
            unused = [name for name in attributes if name.lower() not in DESCRIBING and name not in TYPES]
            self._unused |= dict.fromkeys(unused)
            self._unused_nodes += bool(unused)
        if taken:
            self._note(NoteKind.SWITCHES, taken, nodes=of_other_types)
        if outside:
            self._note(NoteKind.OUTSIDE, {}, nodes=outside)
        return kinds

    def _links(self) -> list[Content]:
        links: list[Content] = []
        loops: list[str] = []
        overruled: dict[str, None] = {}
        overruled_links = 0
        for a, b, attributes in self._graph.edges:
            if a == b:
                loops.append(a)
                continue
            read = read_link(attributes, self._graph.attributes, DESCRIBING)
            self._lines += [f"link '{a}' to '{b}': {line}" for line in read.wrong]
            self._unused |= dict.fromkeys(read.unused)
            self._unused_links += bool(read.unused)
            overruled |= dict.fromkeys(read.overruled)
            overruled_links += bool(read.overruled)
            links.append({"a": a, "b": b, **read.values, **self._distance(a, b)})
        if loops:
            self._note(NoteKind.LOOPS, dict.fromkeys(loops), links=len(loops))
        if overruled:
            self._note(NoteKind.OVERRULED, overruled, links=overruled_links)
        return links

    def _distance(self, a: str, b: str) -> Content:
        """The distance of two nodes, where both have coordinates."""
        near, far = (_coordinates(self._graph.nodes.get(node, {})) for node in (a, b))
        return {} if near is None or far is None else {"distance_km": distance_km(near, far)}

    def _leave_out_alone(self, kinds: dict[str, str], links: Sequence[Content]) -> None:
        """Leaves out switches without links; hosts without links are a defect of the network."""
        joined = {end for link in links for end in (link["a"], link["b"])}
        alone = [node for node, kind in kinds.items() if kind == "switches" and node not in joined]
        for node in alone:
            del kinds[node]
        if alone:
            self._note(NoteKind.ALONE, dict.fromkeys(alone), nodes=len(alone))


def _coordinates(attributes: DocumentTable) -> tuple[float, float] | None:
    """Latitude and longitude in degrees; None if either is missing or impossible."""
    by_name = {name.lower(): value for name, value in attributes.items()}
    found = []
    for names, most in ((LATITUDES, 90.0), (LONGITUDES, 180.0)):
        value = next((by_name[name] for name in names if by_name.get(name) is not None), None)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        try:
            degrees = float(value)
        except (ValueError, OverflowError):
            return None
        if not abs(degrees) <= most:
            return None
        found.append(degrees)
    return found[0], found[1]


def distance_km(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The distance of two places on the Earth, taken for a sphere, along a great circle (by the haversine formula).
    They are latitudes and longitudes in degrees."""
    (latitude, longitude), (other_latitude, other_longitude) = (
        tuple(map(math.radians, place)) for place in (one, other)
    )
    haversine = (
        math.sin((other_latitude - latitude) / 2) ** 2
        + math.cos(latitude) * math.cos(other_latitude) * math.sin((other_longitude - longitude) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(haversine)))
