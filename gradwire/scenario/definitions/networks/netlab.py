"""netlab's topology files (https://netlab.tools): nodes with devices, and links in any of its forms.

A link's rate is its `tc.rate` or else its `bandwidth`, both in kbit/s. A link of more than two nodes is a switch of its own, as netlab
makes a bridge of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.scenario.definitions.networks.lab_links import LabError, LabTopology, items, refused, table
from gradwire.scenario.definitions.networks.network_form import Content, shown

HOST_DEVICES = frozenset({"linux"})
"""Devices that are hosts where no `role` says otherwise (netsim/devices/linux.yml)."""
OF_LINKS = frozenset(
    ("interfaces", "bandwidth", "tc", "type", "name", "role", "prefix", "pool", "linkindex", "gateway", "unnumbered")
)
"""Keys of a link that are read, or have no effect on what it carries."""
OF_INTERFACES = ("bandwidth", "tc")
"""Keys that an interface may have as well, which are not read there: links are the same in both directions."""
OF_NETLAB = frozenset({"defaults", "provider", "module", "plugin", "groups"})
"""Keys of the whole, of which no other form has any."""
WITH_DOTS = ("defaults", "lag", "tc")
"""Tables whose keys may be written with a dot, such as tc.delay."""
MOST_DEEP = 8


def is_netlab(document: object) -> bool:
    """Returns whether a document is a topology file of netlab: it has a key of netlab's, or links and nodes without ids."""
    if not isinstance(document, dict) or "instances" in document:
        return False
    if any(str(key).partition(".")[0] in OF_NETLAB for key in document):
        return True
    nodes = document.get("nodes")
    is_list = isinstance(nodes, list) and not any(isinstance(node, dict) and "id" in node for node in nodes)
    return "links" in document and (is_list or isinstance(nodes, dict))


def netlab(path: Path, document: object) -> Content:
    """The content of a NetworkDefinition. Raises InputFault for the first key that is wrong."""
    try:
        return _lab(document).content(path)
    except LabError as error:
        raise refused(path, error) from error


def _lab(document: object) -> LabTopology:
    written = _nested(document, "the file")
    default = str(table(written.get("defaults"), "defaults").get("device", ""))
    groups = _groups(written.get("groups"))
    lab = LabTopology({})
    for name, given in _nodes(written.get("nodes"), groups).items():
        layers = [table(given, f"nodes.{name}")]
        layers += [group for group in groups if any(fnmatchcase(name, member) for member in _members(group))]
        device, role = (
            next((str(layer[key]) for layer in layers if layer.get(key)), otherwise)
            for key, otherwise in (("device", default), ("role", ""))
        )
        is_host = role == "host" or (device in HOST_DEVICES and not role)
        lab.kinds[name] = "hosts" if is_host else "switches"
    for number, link in enumerate(_links(written.get("links")), 1):
        _add(lab, number, link)
    return lab


def _nodes(nodes: DocumentValue, groups: Sequence[DocumentTable]) -> Document:
    """Returns the table of each node. A list has names, tables with a name, or tables of one name each; groups may create
    nodes."""
    listed = nodes.split(",") if isinstance(nodes, str) else nodes
    found: Document = {} if isinstance(listed, list) else table(nodes, "nodes")
    for node in listed if isinstance(listed, list) else ():
        if isinstance(node, dict):
            found |= {str(node["name"]): node} if "name" in node else table(node, "nodes")
        else:
            found[str(node).strip()] = None
    created = [member for group in groups if group.get("_auto_create") for member in _members(group)]
    return {**found, **{name: None for name in created if name not in found}}


def _groups(groups: DocumentValue) -> list[Document]:
    """The groups, each a table with its members."""
    by_name = table(groups, "groups")
    creates = by_name.get("_auto_create")
    return [
        {"_auto_create": creates, **({"members": group} if isinstance(group, list) else table(group, f"groups.{name}"))}
        for name, group in by_name.items()
        if not name.startswith("_")
    ]


def _members(group: DocumentTable) -> list[str]:
    """Names of nodes, or patterns of them."""
    members = group.get("members")
    return [members] if isinstance(members, str) else [str(each) for each in items(members, "groups.members")]


def _nested(value: object, where: str) -> Document:
    """A table, with those of WITH_DOTS whose keys are written with dots."""
    found: Document = {}
    for key, each in table(value, where).items():
        name, dot, inner = key.partition(".")
        if dot and name in WITH_DOTS:
            found[name] = {**table(found.get(name), where), inner: each}
        else:
            found[key] = each
    return found


def _links(links: DocumentValue, depth: int = 0) -> Iterator[DocumentValue]:
    """The links one by one, also those in tables of lists, in groups of links, and those that are one by link aggregation."""
    if depth > MOST_DEEP:
        raise LabError(f"links: are in tables more than {MOST_DEEP} deep")
    if isinstance(links, dict):
        for each in links.values():
            yield from _links(each, depth + 1)
        return
    for link in items(links, "links"):
        given = _nested(link, "links") if isinstance(link, dict) else {}
        aggregated = given.get("lag")
        if "group" in given and "members" in given:
            yield from _links(given["members"], depth + 1)
        elif isinstance(aggregated, dict) and "members" in aggregated:
            yield from _links(aggregated["members"], depth + 1)
        else:
            yield link


def _add(lab: LabTopology, number: int, link: DocumentValue) -> None:
    where = f"links.{number - 1}"
    if isinstance(link, str):
        link = [link] if link in lab.kinds else link.split("-")
    if isinstance(link, list):
        lab.join(number, _known(lab, [_node(each, where) for each in link], where), {})
        return
    given = _nested(link, where)
    if given.get("disable") is True:
        return
    if given.get("type") in ("loopback", "tunnel"):
        lab.skip([f"type: {given['type']}"], of_link=True)
        return
    if "interfaces" in given:
        ends = [_node(each, f"{where}.interfaces") for each in items(given["interfaces"], f"{where}.interfaces")]
    else:
        ends = [key for key in given if key in lab.kinds]
    others = [key for key in given if key not in OF_LINKS and key not in lab.kinds]
    values, shaping = _values(given, where)
    lab.skip([*others, *shaping, *_of_interfaces(given, lab)], of_link=True)
    if not ends:
        raise LabError(f"{where}: {shown(link)}: joins no node of this lab")
    lab.join(number, _known(lab, ends, where), values)


def _of_interfaces(link: DocumentTable, lab: LabTopology) -> list[str]:
    """Keys of a link's interfaces that are not used."""
    listed = link.get("interfaces")
    interfaces = listed if isinstance(listed, list) else [value for key, value in link.items() if key in lab.kinds]
    return [
        f"{key} of an interface"
        for key in OF_INTERFACES
        if any(isinstance(each, dict) and key in each for each in interfaces)
    ]


def _node(end: DocumentValue, where: str) -> str:
    if isinstance(end, dict) and isinstance(end.get("node"), str):
        return str(end["node"])
    if isinstance(end, str):
        return end
    raise LabError(f"{where}: {shown(end)}: must be the name of a node, or a table with the key node")


def _known(lab: LabTopology, ends: list[str], where: str) -> list[str]:
    if unknown := [end for end in ends if end not in lab.kinds]:
        raise LabError(f"{where}: no node is called {shown(unknown[0])}")
    return ends


def _values(link: DocumentTable, where: str) -> tuple[Content, list[str]]:
    """The values of a link, and keys of its impairments that are not used. netem shapes what leaves either interface, so a
    delay is that of each direction."""
    shaping = table(link.get("tc"), f"{where}.tc")
    values: Content = {}
    rate = shaping.get("rate", link.get("bandwidth"))
    if rate is not None:
        values["rate"] = f"{_number(rate, f'{where}.bandwidth') * 1e3:.17g}bit"
    for key in ("delay", "jitter"):
        if shaping.get(key) is not None:
            value = shaping[key]
            values[key] = value if isinstance(value, str) else f"{_number(value, f'{where}.tc.{key}'):.17g}ms"
    if shaping.get("loss") is not None:
        values["loss"] = _number(shaping["loss"], f"{where}.tc.loss") / 100
    return values, [f"tc.{key}" for key in shaping if key not in ("rate", "delay", "jitter", "loss")]


def _number(value: DocumentValue, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LabError(f"{where} = {shown(value)}: must be a number")
    try:
        return float(value)
    except OverflowError as error:
        raise LabError(f"{where}: is too large") from error
