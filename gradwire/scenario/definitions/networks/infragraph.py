"""Reads InfraGraph (https://infragraph.dev, version 3), as its `Infrastructure.serialize` writes it: YAML or JSON.

Its graph has components of devices as nodes. A network here has a host for each network interface with a link, and a switch for each device
that has ports and neither an interface nor an accelerator. What is inside a device, such as NVLink and PCI Express, is passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.network_form import Content
from gradwire.scenario.definitions.yaml_documents import MOST_DEEP
from gradwire.scenario.sections.network import MOST_LINKS

OF_HOSTS, OF_SWITCHES = frozenset({"nic", "xpu"}), frozenset({"port", "switch"})
"""Kinds of components (Component.choice) that make a device a host, or else a switch."""
KEYS: Mapping[str, frozenset[str]] = {
    "": frozenset({"name", "description", "devices", "links", "instances", "edges"}),
    "devices": frozenset({"name", "description", "components", "links", "edges"}),
    "components": frozenset({"name", "description", "count", "choice", *OF_HOSTS, *OF_SWITCHES})
    | {"cpu", "memory", "device", "custom"},
    "instances": frozenset({"name", "description", "device", "count"}),
    "links": frozenset({"name", "description", "physical"}),
    "physical": frozenset({"bandwidth", "latency"}),
    "edges": frozenset({"ep1", "ep2", "scheme", "link"}),
    "ep1": frozenset({"instance", "component"}),
}
"""Keys that each table may have."""
RATES = {"gigabits_per_second": (1, "gbit"), "gigabytes_per_second": (8, "gbit")}
DURATIONS = {"ms": (1, "ms"), "us": (1, "us"), "ns": (1, "ns")}
"""Units of bandwidths and latencies: how many of which of a scenario's units they are."""
MOST_LISTED = 2**14
LARGEST_COUNT = 2**20
LONGEST_NAME = 4_000
"""Characters by which names are sorted; Python reads no number of more digits."""
LARGEST_NUMBER = 1e15
"""Largest number of a rate or a delay in its unit."""
STEP = re.compile(r"([\w-]+)(?:\[([-\d:]*)\])?")


def is_infragraph(document: object) -> bool:
    """Returns whether a document is an Infrastructure, and not a graph of another form."""
    inner = _infrastructure(document)
    return isinstance(inner, dict) and "instances" in inner and "nodes" not in inner


def _infrastructure(document: object) -> object:
    """The Infrastructure in an answer of the service (`get_graph`), or the document itself."""
    return document["infrastructure"] if isinstance(document, dict) and "infrastructure" in document else document


def infragraph(path: Path, document: object) -> Content:
    """The content of a NetworkDefinition. Raises InputFault, with the key, for keys that are wrong or cannot be
    emulated."""
    try:
        return _InfrastructureReading(_infrastructure(document)).content()
    except _Defect as defect:
        raise InputFault(f"{path}: {defect}") from defect


class _Defect(Exception):
    """Something wrong with the document, by its key."""


@dataclass(frozen=True)
class _End:
    """A component of an instance of a device."""

    instance: str
    number: int
    component: str


@dataclass(frozen=True)
class _Ends:
    """Components that an end names, as InfraGraph counts them: of each instance, of each component, all of the next.

    They are made one by one: an edge may name thousands, of which it joins one.
    """

    instance: str
    numbers: range
    #: Components in one another, from the device inwards, with their indices.
    steps: tuple[tuple[str, range], ...]

    @property
    def count(self) -> int:
        """Number of the ends."""
        return len(self.numbers) * math.prod(len(indices) for _, indices in self.steps)

    def __iter__(self) -> Iterator[_End]:
        """Yields the ends one by one."""
        for number in self.numbers:
            for path in _paths(self.steps):
                yield _End(self.instance, number, path)


def _paths(steps: Sequence[tuple[str, range]], before: str = "") -> Iterator[str]:
    (component, indices), *others = steps
    for index in indices:
        path = f"{before}{component}.{index}"
        if others:
            yield from _paths(others, f"{path}.")
        else:
            yield path


class _InfrastructureReading:
    """Goes through an Infrastructure once."""

    def __init__(self, document: object) -> None:
        self._document = _table(document, "", "the file")
        #: Kinds of the devices that were looked at.
        self._kinds: dict[str, frozenset[str]] = {}

    def content(self) -> Content:
        edges: list[tuple[_End, _End, Document]] = []
        for number, edge in enumerate(self._list("edges")):
            edges += self._edge(number, edge)
            if len(edges) > MOST_LINKS:
                raise _Defect(f"edges.{number}: with it, the network has more than {MOST_LINKS:,} links")
        nics: dict[tuple[str, int], set[str]] = {}
        switches: dict[str, None] = {}
        for end in (end for a, b, _ in edges for end in (a, b)):
            if self._is_host(end.instance):
                nics.setdefault((end.instance, end.number), set()).add(end.component)
            else:
                switches.setdefault(f"{end.instance}.{end.number}")

        def name(end: _End) -> str:
            device = f"{end.instance}.{end.number}"
            several = len(nics.get((end.instance, end.number), ())) > 1
            return f"{device}.{end.component}" if several else device

        hosts = {name(end): end for a, b, _ in edges for end in (a, b) if self._is_host(end.instance)}
        in_order = sorted(hosts, key=lambda each: self._order(hosts[each]))
        links: list[Content] = [{"a": name(a), "b": name(b), **values} for a, b, values in edges]
        in_order_too: list[str] = sorted(switches, key=_natural)
        return {"hosts": in_order, "switches": in_order_too, "links": links}

    def _order(self, end: _End) -> tuple[int, int, tuple[tuple[int, str], ...]]:
        """Hosts as the instances come, and each one's interfaces by their numbers."""
        return self._place_of_instance[end.instance], end.number, _natural(end.component)

    @cached_property
    def _place_of_instance(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self._instances)}

    def _list(self, key: str, of: DocumentTable | None = None, where: str = "") -> list[DocumentValue]:
        found = (self._document if of is None else of).get(key) or []
        if not isinstance(found, list) or len(found) > MOST_LISTED:
            raise _Defect(f"{where}{key}: must be a list of at most {MOST_LISTED:,}")
        return found

    def _named(self, key: str) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for number, each in enumerate(self._list(key)):
            where = f"{key}.{number}"
            table = _table(each, key, where)
            name = _text(table, "name", where)
            if name in found:
                raise _Defect(f"{where}.name = '{name}': another one of {key} has this name")
            found[name] = table
        return found

    @cached_property
    def _instances(self) -> dict[str, Document]:
        return self._named("instances")

    @cached_property
    def _devices(self) -> dict[str, Document]:
        return self._named("devices")

    @cached_property
    def _links(self) -> dict[str, Document]:
        return {name: _physical(name, link) for name, link in self._named("links").items()}

    @cached_property
    def _components(self) -> dict[str, dict[str, Document]]:
        """The components of each device, by name."""
        found: dict[str, dict[str, Document]] = {}
        for name, device in self._devices.items():
            parts = self._list("components", device, f"devices.{name}.")
            tables = [_table(part, "components", f"devices.{name}.components.{i}") for i, part in enumerate(parts)]
            found[name] = {_text(part, "name", f"devices.{name}.components.{i}"): part for i, part in enumerate(tables)}
        return found

    def _device_of(self, instance: str) -> str:
        device = _text(self._instances[instance], "device", f"instances.{instance}")
        if device not in self._devices:
            raise _Defect(f"instances.{instance}.device = '{device}': no device is called that")
        return device

    def _is_host(self, instance: str) -> bool:
        kinds = self._kinds_of(self._device_of(instance), 0)
        if kinds & OF_HOSTS:
            return True
        if kinds & OF_SWITCHES:
            return False
        raise _Defect(
            f"devices.{self._device_of(instance)}: is neither a host, which has components of choice nic or xpu, nor a switch, which has "
            "ports"
        )

    def _kinds_of(self, device: str, depth: int) -> frozenset[str]:
        """Kinds of a device's components, with those of the devices that it contains. Each device is looked at once,
        because devices may share components."""
        if depth > MOST_DEEP:
            raise _Defect(f"devices.{device}: contains devices more than {MOST_DEEP} deep, or itself")
        if device not in self._kinds:
            kinds: set[str] = set()
            for name, part in self._components[device].items():
                choice = _text(part, "choice", f"devices.{device}.components.{name}")
                inside = choice == "device" and name in self._devices
                kinds |= self._kinds_of(name, depth + 1) if inside else {choice}
            self._kinds[device] = frozenset(kinds)
        return self._kinds[device]

    def _edge(self, number: int, edge: DocumentValue) -> Iterator[tuple[_End, _End, Document]]:
        where = f"edges.{number}"
        table = _table(edge, "edges", where)
        link = _text(table, "link", where)
        if link not in self._links:
            raise _Defect(f"{where}.link = '{link}': no link is called that")
        near, far = (self._ends(table.get(key), f"{where}.{key}") for key in ("ep1", "ep2"))
        scheme = table.get("scheme")
        if scheme == "one2one":
            # As InfraGraph's service does it: what one end has more of is not joined.
            pairs: Iterator[tuple[_End, _End]] = zip(near, far, strict=False)
        elif scheme == "many2many":
            if near.count * far.count > MOST_LINKS:
                raise _Defect(f"{where}: has {near.count * far.count:,} links; must be at most {MOST_LINKS:,}")
            pairs = ((a, b) for a in near for b in far if a != b)
        else:
            raise _Defect(f"{where}.scheme = {str(scheme)[:40]!r}: must be one2one or many2many")
        physical = self._links[link]
        return ((a, b, physical) for a, b in pairs)

    def _ends(self, end: DocumentValue, where: str) -> _Ends:
        """The components that an end names."""
        table = _table(end, "ep1", where)
        instance, slice_text = _step(_text(table, "instance", where), f"{where}.instance")
        if instance not in self._instances:
            raise _Defect(f"{where}.instance: no instance is called '{instance}'")
        count = _count(self._instances[instance], f"instances.{instance}")
        numbers = _chosen(slice_text, count, f"{where}.instance")
        device: str | None = self._device_of(instance)
        steps: list[tuple[str, range]] = []
        for word in _text(table, "component", where).split("."):
            component, slice_text = _step(word, f"{where}.component")
            parts = {} if device is None else self._components[device]
            if component not in parts:
                raise _Defect(f"{where}.component: device '{device}' has no component '{component}'")
            inside = _chosen(slice_text, _count(parts[component], f"devices.{device}.components.{component}"), where)
            steps.append((component, inside))
            if len(steps) > MOST_DEEP:
                raise _Defect(f"{where}.component: names components more than {MOST_DEEP} deep")
            found = _Ends(instance, numbers, tuple(steps))
            if found.count > MOST_LINKS:
                raise _Defect(f"{where}: names more than {MOST_LINKS:,} components")
            device = component if component in self._devices else None
        return found


def _table(value: object, kind: str, where: str) -> Document:
    if not isinstance(value, dict):
        raise _Defect(f"{where}: must be a table")
    for key in value:
        if key not in KEYS[kind]:
            raise _Defect(f"{where}: unknown key '{str(key)[:40]}'; known are {', '.join(sorted(KEYS[kind]))}")
    return value


def _text(table: DocumentTable, key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise _Defect(f"{where}.{key}: must be a text")
    return value


def _count(table: DocumentTable, where: str) -> int:
    value = table.get("count")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_COUNT:
        raise _Defect(f"{where}.count: must be a number from 1 to {LARGEST_COUNT:,}")
    return value


def _step(word: str, where: str) -> tuple[str, str]:
    """A name, and the text in brackets behind it."""
    match = STEP.fullmatch(word)
    if match is None:
        raise _Defect(f"{where} = '{word[:80]}': must be a name with an index or a slice, such as nic[0] or nic[0:2]")
    return match[1], match[2] or ""


def _chosen(slice_text: str, count: int, where: str) -> range:
    """The indices that a slice names. Raises _Defect if there are none."""
    found = _numbers(slice_text, count, where)
    if not found:
        raise _Defect(f"{where}: [{slice_text[:40]}] names none of {count}, which begin with [0]")
    return found


def _numbers(slice_text: str, count: int, where: str) -> range:
    """The indices that a slice of Python's names."""
    parts = slice_text.split(":")
    try:
        values = [int(part) if part else None for part in parts]
        if len(parts) == 1 and values[0] is not None:
            return range(count)[values[0] : values[0] + 1 or None] if -count <= values[0] < count else range(0, 0)
        return range(count)[slice(*values)] if len(parts) > 1 else range(count)
    except (ValueError, TypeError) as error:
        raise _Defect(f"{where}: [{slice_text[:40]}] is not a slice of Python's") from error


def _physical(name: str, link: DocumentTable) -> Document:
    """The rate and the delay of a link, where it has them."""
    physical = link.get("physical")
    if physical is None:
        return {}
    where = f"links.{name}.physical"
    table = _table(physical, "physical", where)
    values: Document = {}
    for key, units, ours in (("bandwidth", RATES, "rate"), ("latency", DURATIONS, "delay")):
        given = table.get(key)
        if given is None:
            continue
        known = {} if not isinstance(given, dict) else {each: given[each] for each in given if each != "choice"}
        if len(known) != 1 or next(iter(known)) not in units:
            raise _Defect(f"{where}.{key}: must have one of {', '.join(units)}")
        ((word, value),) = known.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_NUMBER:
            raise _Defect(f"{where}.{key}.{word}: must be a number from 0 to {LARGEST_NUMBER:g}")
        factor, unit = units[word]
        values[ours] = f"{Decimal(repr(value)) * factor:f}{unit}"
    return values


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """Sorts numbers in names by their values."""
    words = re.split(r"(\d+)", text[:LONGEST_NAME])
    return tuple((int(word), "") if word.isdecimal() else (-1, word) for word in words)
