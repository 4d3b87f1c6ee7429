"""The network that a class of Mininet's Topo describes (scenario/definitions/topo_process.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.network_form import Content, noted, refuse_many, shown
from gradwire.scenario.definitions.topo_process import TopologyReply
from gradwire.scenario.sections.network import NoteKind

FRAME_BYTES = 1514
"""Size of a place of Mininet's max_queue_size: a full frame at an MTU of 1500."""
HARMLESS_OPTIONS = frozenset(
    {"node1", "node2", "port1", "port2", "use_htb", "use_tbf", "use_hfsc", "cls", "intf", "fast", "addr1", "addr2"}
)
"""Options of Mininet's links that only say how Mininet would build them."""
HARMLESS_PARAMETERS = frozenset(
    {"ip", "mac", "cls", "defaultRoute", "isSwitch", "dpid", "protocols", "failMode", "datapath", "inNamespace", "stp"}
)


def _megabits(value: str | float) -> str:
    return f"{float(value) * 1e6:.17g}bit"


def _seconds(value: str | float) -> str:
    return value if isinstance(value, str) else f"{float(value):.17g}s"


def _frames(value: str | float) -> str:
    return f"{int(value) * FRAME_BYTES}B"


def _percent(value: str | float) -> float:
    return float(value) / 100


OPTIONS: Mapping[str, tuple[str, Callable[[str | float], str | float]]] = {
    "bw": ("rate", _megabits),
    "delay": ("delay", _seconds),
    "jitter": ("jitter", _seconds),
    "loss": ("loss", _percent),
    "max_queue_size": ("buffer", _frames),
}
"""Options of Mininet's TCLink, the keys that they stand for, and their units: Mbit/s, per cent, packets."""


def content_of_topo(path: Path, said: TopologyReply) -> Content:
    """The content of a NetworkDefinition. Raises InputFault with a line for each value that is wrong."""
    refuse_many(path, said.nodes or 0, len(said.links))
    unused: dict[str, None] = {}
    nodes = links = 0
    for parameters in said.parameters.values():
        others = [name for name, value in parameters.items() if value is not None and name not in HARMLESS_PARAMETERS]
        unused |= dict.fromkeys(others)
        nodes += bool(others)
    lines: list[str] = []
    joined: list[Content] = []
    for a, b, options in said.links:
        given = {name: value for name, value in options.items() if value not in (None, {})}
        others = [name for name in given if name not in OPTIONS and name not in HARMLESS_OPTIONS]
        unused |= dict.fromkeys(others)
        links += bool(others)
        values, wrong = _values(given)
        lines += [f"link '{a}' to '{b}': {line}" for line in wrong]
        joined.append({"a": a, "b": b, **values})
    if lines:
        raise InputFault("\n".join(f"{path}: {line}" for line in lines))
    content: Content = {"hosts": said.hosts, "switches": said.switches, "links": joined}
    notes = [noted(NoteKind.UNUSED, unused, nodes=nodes, links=links)] if unused else []
    return {**content, "notes": notes} if notes else content


def _values(options: Mapping[str, object]) -> tuple[Content, list[str]]:
    """Values of a link's keys from its options, and a line for each option whose value is of a wrong kind."""
    values: Content = {}
    lines = []
    for name, (key, converted) in OPTIONS.items():
        value = options.get(name)
        if value is None:
            continue
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise TypeError
            values[key] = converted(value)
        except (TypeError, ValueError, OverflowError):
            lines.append(f"{name} = {shown(value)}: is not a number, or a text with its unit")
    return values, lines
