"""The OpenFlow rules of every switch of a fabric, as frozen data. Pure: nothing here depends on a controller.

Every pair of hosts has its path in every band before traffic starts; no rule floods or learns. A rule matches no more fields than its
decision needs. Where the next hop depends only on the destination (on spines, and on the destination's leaf), all sources share one rule
and so one entry of the datapath cache, which takes one upcall for all of them instead of one for each.

Unmarked packets (DSCP 0: a ping, a tool of the user's) travel with control, as they do at a host's own port. Packets with any other
unknown DSCP match only the table-miss rule, which drops and counts them.

A multicast group has a tree: up from its source's leaf to one spine, chosen by the seed, and down to each leaf with members. Where the tree
branches there is an OpenFlow group of type `all` for each band, so each link carries one copy. Members need not report (IGMP). The reports
that a host's kernel sends anyway when an agent joins are dropped by a rule of their own, so that they do not count as table misses.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from gradwire.topo.fabric import CONTROL_BAND, Fabric, MulticastGroup, dscp_of_band

UNMARKED_DSCP = 0
IGMP_REPORTS_IP = "224.0.0.22"
IGMP_DSCP = 48
"""Linux marks IGMP reports with CS6, "internetwork control"."""
MULTICAST_PRIORITY = 300
PAIR_PRIORITY = 200
"""Rules that match source and destination."""
DESTINATION_PRIORITY = 100
MISS_PRIORITY = 0


@dataclass(frozen=True)
class Match:
    """IPv4 packets with these fields; None matches anything."""

    source_ip: str | None
    destination_ip: str
    dscp: int


@dataclass(frozen=True)
class FlowRule:
    """Sends matching packets through a band of a switch port, or to a group; drops them if it has neither."""

    priority: int
    #: None for the table-miss rule.
    match: Match | None
    #: The tc band of the port.
    band: int | None = None
    output_port: int | None = None
    group_id: int | None = None


@dataclass(frozen=True)
class Bucket:
    """Sends one copy of a packet through a band of a port."""

    band: int
    output_port: int


@dataclass(frozen=True)
class GroupRule:
    """An OpenFlow group of type `all`, in which every bucket gets a copy."""

    group_id: int
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True)
class SwitchRules:
    """All rules of one switch."""

    #: Its position in Fabric.switch_names(), counted from 1.
    dpid: int
    name: str
    flows: tuple[FlowRule, ...]
    groups: tuple[GroupRule, ...] = field(default=())


@dataclass(frozen=True)
class Hop:
    """A switch on a packet's path, and the port and band through which the packet leaves it."""

    switch: str
    band: int
    output_port: int


def switch_rules(fabric: Fabric) -> list[SwitchRules]:
    """Rules of every switch, leaves first, in the order of Fabric.switch_names()."""
    spine_of = SpineChoice(fabric)
    leaves = len(fabric.leaf_names())
    unicast = [_leaf_flows(fabric, leaf, spine_of) for leaf in range(leaves)]
    unicast += [_spine_flows(fabric, spine) for spine in range(fabric.spines if fabric.spine_names() else 0)]
    trees = [_tree(fabric, group) for group in fabric.groups]
    rules = []
    for switch, (name, flows) in enumerate(zip(fabric.switch_names(), unicast, strict=True)):
        groups, to_groups = _multicast(
            fabric, {number: tree[switch] for number, tree in enumerate(trees) if switch in tree}
        )
        reports = [_drop_reports()] if fabric.groups and switch < leaves else []
        rules.append(SwitchRules(switch + 1, name, (*to_groups, *reports, *flows, _table_miss()), tuple(groups)))
    return rules


def _tree(fabric: Fabric, group: MulticastGroup) -> dict[int, list[int]]:
    """Output ports of one packet to a group, by index of the switch."""
    here, leaves = fabric.leaf_of(group.source), len(fabric.leaf_names())
    ports: dict[int, list[int]] = {}
    for member in group.members:
        ports.setdefault(fabric.leaf_of(member), []).append(member % fabric.hosts_per_leaf + 1)
    far = sorted(ports.keys() - {here})
    if far:
        spine = _stable_hash(fabric.seed, "group", group.source, *group.members) % fabric.spines
        ports.setdefault(here, []).append(fabric.hosts_per_leaf + spine + 1)
        ports[leaves + spine] = [leaf + 1 for leaf in far]
    return ports


def _multicast(fabric: Fabric, ports_of_group: dict[int, list[int]]) -> tuple[list[GroupRule], list[FlowRule]]:
    """A switch's OpenFlow groups and the flows that lead to them, one per multicast group and band, because buckets set the band."""
    groups, flows = [], []
    for group, ports in ports_of_group.items():
        for band in range(fabric.bands):
            group_id = group * fabric.bands + band + 1
            groups.append(GroupRule(group_id, tuple(Bucket(band, port) for port in ports)))
            match = Match(None, fabric.group_ip(group), dscp_of_band(band))
            flows.append(FlowRule(MULTICAST_PRIORITY, match, group_id=group_id))
    return groups, flows


def _drop_reports() -> FlowRule:
    return FlowRule(MULTICAST_PRIORITY, Match(None, IGMP_REPORTS_IP, IGMP_DSCP))


class SpineChoice:
    """Which spine the packets between two hosts of different leaves use: ECMP with a seeded and balanced choice.

    With a plain hash of (seed, source, destination), it would be luck whether a host's flows to another leaf share one uplink, and a run
    would measure the seed instead of the strategy. So the hash (BLAKE2b, the same on every machine and Python) decides only the order of
    the hosts on each leaf and a first spine for each pair of leaves. From there, pairs are assigned round robin, as in a Latin square.
    Among the pairs of a host with another leaf, and among the pairs of two leaves, no spine has more than one pair more than another, and
    all have equally many if the spines divide the hosts of a leaf. Sparse patterns may still collide, depending on the seed, as with real
    ECMP. Both directions of a pair use the same spine, so a connection depends on one path and its ACKs return along it.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._rank: dict[int, int] = {}
        for leaf in range(len(fabric.leaf_names())):
            members = range(leaf * fabric.hosts_per_leaf, (leaf + 1) * fabric.hosts_per_leaf)
            shuffled = sorted(members, key=lambda host: (_stable_hash(fabric.seed, "host", host), host))
            self._rank.update({host: rank for rank, host in enumerate(shuffled)})
            if fabric.aggregators:
                self._rank[fabric.aggregator_of(leaf)] = fabric.hosts_per_leaf

    def __call__(self, source: int, destination: int) -> int:
        """Index of the spine between two endpoints of different leaves (hosts or the leaves' aggregators)."""
        near, far = sorted((self._fabric.switch_of(source), self._fabric.switch_of(destination)))
        first = _stable_hash(self._fabric.seed, "leaves", near, far)
        return (first + self._rank[source] + self._rank[destination]) % self._fabric.spines


def trace(fabric: Fabric, rules: list[SwitchRules], source: int, destination: int, dscp: int) -> list[Hop]:
    """Follows one packet through the rules, as the switches would, until it leaves at a host's port or is dropped.

    Returns the switches that it passed, in order. If the list is empty or does not end at `destination`, the packet is lost. If it
    visits a switch twice, the list ends with that switch.
    """
    by_name = {switch.name: switch for switch in rules}
    far_end = _far_ends(fabric)
    here = fabric.switch_names()[fabric.switch_of(source)]
    hops: list[Hop] = []
    while here in by_name:
        rule = _lookup(by_name[here], fabric.host_ip(source), fabric.host_ip(destination), dscp)
        if rule is None or rule.output_port is None or rule.band is None:
            return hops
        looped = any(hop.switch == here for hop in hops)
        hops.append(Hop(here, rule.band, rule.output_port))
        if looped:
            return hops
        here = far_end[here, rule.output_port]
    return hops


def trace_group(fabric: Fabric, rules: list[SwitchRules], group: int, dscp: int) -> list[Hop]:
    """Follows one packet to a multicast group through the rules; returns every copy that a switch sends, in order.

    A copy that reaches a switch which has had one before is listed, but not followed further.
    """
    by_name = {switch.name: switch for switch in rules}
    far_end = _far_ends(fabric)
    source = fabric.groups[group].source
    waiting, hops = [fabric.leaf_names()[fabric.leaf_of(source)]], list[Hop]()
    visited: set[str] = set()
    while waiting:
        here = waiting.pop(0)
        if here in visited or here not in by_name:
            continue
        visited.add(here)
        switch = by_name[here]
        rule = _lookup(switch, fabric.host_ip(source), fabric.group_ip(group), dscp)
        entries = {entry.group_id: entry for entry in switch.groups}
        if rule is None or rule.group_id is None:
            continue
        copies = [Hop(here, bucket.band, bucket.output_port) for bucket in entries[rule.group_id].buckets]
        hops += copies
        waiting += [far_end[here, copy.output_port] for copy in copies]
    return hops


def _far_ends(fabric: Fabric) -> dict[tuple[str, int], str]:
    return {
        (near.device, near.number): far.device
        for link in fabric.links()
        for near, far in ((link.a, link.b), (link.b, link.a))
    }


def _leaf_flows(fabric: Fabric, leaf: int, spine_of: SpineChoice) -> list[FlowRule]:
    """Unicast rules of a leaf: down to its hosts and aggregator, up to everything else."""
    local = {leaf * fabric.hosts_per_leaf + i: i + 1 for i in range(fabric.hosts_per_leaf)}
    leaves, remote = len(fabric.leaf_names()), [host for host in range(fabric.hosts) if host not in local]
    up: dict[int, int] = {}
    if fabric.aggregators:
        local[fabric.aggregator_of(leaf)] = fabric.aggregator_port(leaf)
        remote += [fabric.aggregator_of(other) for other in range(leaves) if other != leaf]
        spines = range(len(fabric.spine_names()))
        up = {fabric.aggregator_of(leaves + spine): fabric.hosts_per_leaf + spine + 1 for spine in spines}
    own = [rule for endpoint, port in {**local, **up}.items() for rule in _rules_to(fabric, None, endpoint, port)]
    pairs = [
        rule
        for source in local
        for destination in remote
        for rule in _rules_to(fabric, source, destination, fabric.hosts_per_leaf + spine_of(source, destination) + 1)
    ]
    return own + pairs


def _spine_flows(fabric: Fabric, spine: int) -> list[FlowRule]:
    """Unicast rules of a spine, whose port i + 1 leads to leaf i (Fabric.links). No path leads to another spine's aggregator."""
    leaves = len(fabric.leaf_names())
    ports = {host: fabric.leaf_of(host) + 1 for host in range(fabric.hosts)}
    if fabric.aggregators:
        ports |= {fabric.aggregator_of(leaf): leaf + 1 for leaf in range(leaves)}
        ports[fabric.aggregator_of(leaves + spine)] = fabric.aggregator_port(leaves + spine)
    return [rule for endpoint, port in ports.items() for rule in _rules_to(fabric, None, endpoint, port)]


def _rules_to(fabric: Fabric, source: int | None, destination: int, output_port: int) -> list[FlowRule]:
    """One rule per band, and one for unmarked packets."""
    source_ip = None if source is None else fabric.host_ip(source)
    priority = DESTINATION_PRIORITY if source is None else PAIR_PRIORITY
    band_of_dscp = {dscp_of_band(band): band for band in range(fabric.bands)} | {UNMARKED_DSCP: CONTROL_BAND}
    return [
        FlowRule(priority, Match(source_ip, fabric.host_ip(destination), dscp), band, output_port)
        for dscp, band in band_of_dscp.items()
    ]


def _table_miss() -> FlowRule:
    return FlowRule(MISS_PRIORITY, None)


def _lookup(switch: SwitchRules, source_ip: str, destination_ip: str, dscp: int) -> FlowRule | None:
    """The rule that an OpenFlow table would pick."""
    matching = [
        rule
        for rule in switch.flows
        if rule.match is None
        or (
            rule.match.source_ip in (None, source_ip)
            and rule.match.destination_ip == destination_ip
            and rule.match.dscp == dscp
        )
    ]
    return max(matching, key=lambda rule: rule.priority, default=None)


def _stable_hash(*words: int | str) -> int:
    digest = hashlib.blake2b("/".join(str(word) for word in words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
