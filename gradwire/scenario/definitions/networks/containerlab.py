"""containerlab's topology files (https://containerlab.dev/manual/topo-def-file/): nodes of kinds, and links between their interfaces.

Impairments are no part of such a file: `containerlab tools netem` sets them in a lab that runs. Here, `[fabric.link.NAME]` does.
"""

from __future__ import annotations

from pathlib import Path

from gradwire.documents import DocumentTable, DocumentValue
from gradwire.scenario.definitions.networks.lab_links import LabError, LabTopology, items, refused, table
from gradwire.scenario.definitions.networks.network_form import Content, shown

HOSTS = frozenset({"linux", "ext-container", "k8s-kind", "host"})
"""Kinds of nodes that are hosts, unless their image is that of a router; all others are switches."""
ROUTER_IMAGES = (
    "frr",
    "bird",
    "quagga",
    "gobgp",
    "vyos",
    "openbgpd",
    "exabgp",
    "sonic",
    "holo",
    "xdp",
    "ovs",
    "openvswitch",
)
"""Words in the names of images that make a node of kind linux a router."""
ICONS = {"host": "hosts", "server": "hosts", "client": "hosts", "switch": "switches", "router": "switches"}
"""Values of the label graph-icon, which says how containerlab draws a node, and what it is."""
OUTSIDE = frozenset({"host", "mgmt-net", "macvlan"})
"""Names that stand for the machine in endpoints."""
OF_LINKS = frozenset(
    {
        "endpoints",
        "endpoint",
        "type",
        "host-interface",
        "labels",
        "vars",
        "mode",
        "remote",
        "vni",
        "dst-port",
        "src-port",
    }
)


def is_containerlab(document: object) -> bool:
    """Returns whether a document is a topology file of containerlab."""
    inner = document.get("topology") if isinstance(document, dict) else None
    return isinstance(inner, dict) and "nodes" in inner


def containerlab(path: Path, document: object) -> Content:
    """The content of a NetworkDefinition. Raises InputFault for the first key that is wrong."""
    try:
        return _lab(table(table(document, "the file")["topology"], "topology")).content(path)
    except LabError as error:
        raise refused(path, error) from error


def _lab(topology: DocumentTable) -> LabTopology:
    nodes = table(topology["nodes"], "topology.nodes")
    defaults, kinds, groups = (table(topology.get(key), f"topology.{key}") for key in ("defaults", "kinds", "groups"))
    lab = LabTopology({})
    for name, given in nodes.items():
        node = table(given, f"topology.nodes.{name}")
        group = table(groups.get(str(node.get("group", defaults.get("group", "")))), "topology.groups")
        kind = str(node.get("kind") or group.get("kind") or defaults.get("kind") or "")
        of_kind = table(kinds.get(kind), f"topology.kinds.{kind}")
        layers = (defaults, of_kind, group, node)
        image = next((str(layer["image"]) for layer in reversed(layers) if layer.get("image")), "")
        labels = {key: value for layer in layers for key, value in table(layer.get("labels"), "labels").items()}
        icon = str(labels.get("graph-icon", "")).lower()
        lab.kinds[name] = ICONS.get(icon) or ("hosts" if kind in HOSTS and not _is_router(image) else "switches")
    for number, given in enumerate(items(topology.get("links"), "topology.links"), 1):
        _add(lab, number, table(given, f"topology.links.{number - 1}"))
    return lab


def _is_router(image: str) -> bool:
    return any(word in image.lower() for word in ROUTER_IMAGES)


def _add(lab: LabTopology, number: int, link: DocumentTable) -> None:
    where = f"topology.links.{number - 1}"
    lab.skip([key for key in link if key not in OF_LINKS], of_link=True)
    if "endpoints" not in link:
        # Links of type mgmt-net, macvlan, host, vxlan and dummy have one endpoint, and lead to the machine or beyond.
        lab.stubs.append(_node(link.get("endpoint"), f"{where}.endpoint"))
        return
    ends = [_node(each, f"{where}.endpoints") for each in items(link["endpoints"], f"{where}.endpoints")]
    if len(ends) != 2:
        raise LabError(f'{where}.endpoints: has {len(ends)}; must be two, such as ["leaf1:e1-1", "spine1:e1-1"]')
    inside = [end for end in ends if end in lab.kinds]
    if unknown := [end for end in ends if end not in lab.kinds and end not in OUTSIDE]:
        raise LabError(f"{where}.endpoints: no node is called {shown(unknown[0])}")
    if len(inside) == 2:
        lab.join(number, ends, {})
    else:
        lab.stubs += inside


def _node(end: DocumentValue, where: str) -> str:
    """The node of an endpoint: "leaf1:e1-1", or a table with the key node."""
    if isinstance(end, dict) and isinstance(end.get("node"), str):
        return str(end["node"])
    if isinstance(end, str) and end:
        return end.split(":", 1)[0]
    raise LabError(f'{where}: {shown(end)}: must be a text such as "leaf1:e1-1", or a table with node and interface')
