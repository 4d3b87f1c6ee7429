"""htsim's .topo (https://github.com/Broadcom/csg-htsim, sim/datacenter/fat_tree_topology.cpp): a fat tree of two or three tiers by its
numbers.

Each switch on a way delays packets by its Switch_Latency_ns, of which its links have half each here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.network_form import Content, noted, refuse_crowds, shown
from gradwire.scenario.sections.network import NoteKind

OF_ALL = ("nodes", "tiers", "podsize")
OF_TIERS = (
    "downlink_speed_gbps",
    "radix_down",
    "radix_up",
    "downlink_latency_ns",
    "switch_latency_ns",
    "bundle",
    "oversubscribed",
)
DEFAULTS = {"switch_latency_ns": 0, "bundle": 1, "radix_up": 0, "oversubscribed": 1}
UNUSED = ("queue_up", "queue_down")
"""Keys for queues, which depend on htsim's own kinds of queues."""
LARGEST = 10**9


def htsim_topology(path: Path, text: str) -> Content:
    """The content of a NetworkDefinition. Raises InputFault for the first key that is wrong."""
    try:
        return _content(path, _read(text))
    except _KeyError as error:
        raise InputFault(f"{path}: {error}") from error


class _KeyError(Exception):
    """A key that is wrong or missing."""


@dataclass
class _Numbers:
    """The numbers of a file."""

    of_all: dict[str, int] = field(default_factory=dict)
    tiers: dict[int, dict[str, int]] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)

    def of_tier(self, tier: int, key: str) -> int:
        """A number of a tier. Raises _KeyError if it is missing."""
        found = self.tiers.get(tier, {}).get(key, DEFAULTS.get(key))
        if found is None:
            raise _KeyError(f"Tier {tier}: {key} is missing")
        return found


def _read(text: str) -> _Numbers:
    found = _Numbers()
    tier: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key = words[0].lower()
        if len(words) != 2 or not (words[1].isdecimal() and words[1].isascii() and len(words[1]) < 10):
            raise _KeyError(
                f"line {number}: {shown(line.strip())}: must be a key and a whole number, such as Nodes 128"
            )
        value = int(words[1])
        if key == "tier":
            if value > 2 or value in found.tiers:
                raise _KeyError(f"line {number}: Tier {value}: must be 0, 1 or 2, each once")
            tier = value
            found.tiers[tier] = {}
        elif key in UNUSED:
            found.unused.append(words[0])
        elif key not in (OF_ALL if tier is None else OF_TIERS):
            known = OF_ALL if tier is None else (*OF_TIERS, *UNUSED)
            raise _KeyError(f"line {number}: unknown key {shown(words[0])} here; known are {', '.join(known)}")
        else:
            numbers = found.of_all if tier is None else found.tiers[tier]
            if key in numbers:
                raise _KeyError(f"line {number}: {words[0]} is given twice")
            numbers[key] = value
    return found


def _content(path: Path, numbers: _Numbers) -> Content:
    for key in OF_ALL:
        if not numbers.of_all.get(key):
            raise _KeyError(f"{key} is missing, or 0")
    nodes, tiers, pod = (numbers.of_all[key] for key in OF_ALL)
    if tiers not in (2, 3):
        raise _KeyError(f"Tiers {tiers}: must be 2 or 3")
    per_tor, up = numbers.of_tier(0, "radix_down"), numbers.of_tier(0, "radix_up")
    bundle = numbers.of_tier(1, "bundle")
    pods = _quotient(nodes, pod, "Nodes", "Podsize")
    tors = _quotient(pod, per_tor, "Podsize", "Radix_Down of tier 0")
    aggregations = _quotient(up, bundle, "Radix_Up of tier 0", "Bundle of tier 1")
    # As htsim wants it: a switch of tier 1 is joined to all of tier 0 in its pod.
    if numbers.of_tier(1, "radix_down") != tors * bundle:
        raise _KeyError(
            f"Tier 1: Radix_Down {numbers.of_tier(1, 'radix_down')}: must be {tors * bundle}, for {tors} switches below"
        )
    if numbers.of_tier(0, "bundle") != 1:
        raise _KeyError("Tier 0: Bundle: must be 1, for hosts have one link")
    if tiers == 2 and pods != 1:
        raise _KeyError(f"Podsize {pod}: must be {nodes}, the number of nodes, for two tiers")
    cores_each, bundle_of_cores = _cores(numbers, pods) if tiers == 3 else (0, 0)
    switches = [f"tor{number}" for number in range(tors * pods)]
    switches += [f"agg{number}" for number in range(aggregations * pods)]
    switches += [f"core{number}" for number in range(aggregations * cores_each)]
    count = nodes + pods * tors * up + pods * aggregations * cores_each * bundle_of_cores
    refuse_crowds(path, nodes, len(switches), count)
    ends = _ends(nodes, per_tor, pods, tors, aggregations, cores_each)
    links = [
        {"a": a, "b": b, **_link(numbers, tier)} for tier, a, b in ends for _ in range(numbers.of_tier(tier, "bundle"))
    ]
    content: Content = {"hosts": [f"h{number}" for number in range(nodes)], "switches": switches, "links": links}
    return {**content, "notes": [noted(NoteKind.UNUSED, numbers.unused)]} if numbers.unused else content


def _cores(numbers: _Numbers, pods: int) -> tuple[int, int]:
    """Switches of tier 2 that each switch of tier 1 is joined to, and by how many links."""
    bundle = numbers.of_tier(2, "bundle")
    cores = _quotient(numbers.of_tier(1, "radix_up"), bundle, "Radix_Up of tier 1", "Bundle of tier 2")
    if numbers.of_tier(2, "radix_down") != pods * bundle:
        raise _KeyError(
            f"Tier 2: Radix_Down {numbers.of_tier(2, 'radix_down')}: must be {pods * bundle}, for {pods} pods"
        )
    return cores, bundle


def _quotient(whole: int, part: int, of: str, by: str) -> int:
    if not part or whole % part or not whole:
        raise _KeyError(f"{of} {whole}: must be a multiple of {by}, {part}")
    return whole // part


def _ends(
    nodes: int, per_tor: int, pods: int, tors: int, aggregations: int, cores_each: int
) -> Iterator[tuple[int, str, str]]:
    """The links without those that are the same: their tier, and their lower and upper ends."""
    for host in range(nodes):
        yield 0, f"h{host}", f"tor{host // per_tor}"
    for pod in range(pods):
        for tor in range(tors):
            for aggregation in range(aggregations):
                yield 1, f"tor{pod * tors + tor}", f"agg{pod * aggregations + aggregation}"
    for aggregation in range(pods * aggregations):
        for core in range(cores_each):
            yield 2, f"agg{aggregation}", f"core{aggregation % aggregations + aggregations * core}"


def _link(numbers: _Numbers, tier: int) -> Content:
    """Returns the properties of a link down from a tier."""
    below_ns = numbers.of_tier(tier - 1, "switch_latency_ns") if tier else 0
    switches_ns = (numbers.of_tier(tier, "switch_latency_ns") + below_ns) / 2
    delay_ns = numbers.of_tier(tier, "downlink_latency_ns") + switches_ns
    return {"rate": f"{numbers.of_tier(tier, 'downlink_speed_gbps')}gbit", "delay": f"{delay_ns:.17g}ns"}
