"""From a fabric to the OpenFlow rules of every switch, as frozen data. Pure: nothing here knows a controller.

Every host pair and band has its path before traffic starts; no rule floods or learns. A rule matches no more fields than its
decision needs: where the next hop depends on the destination only (on spines, and on the leaf where the destination is), all
sources share a rule, and so a datapath cache entry, which is one upcall for all of them instead of one each.

Unmarked packets (DSCP 0: a ping, a tool of the user's) travel with control, as unmarked packets of a host's own port do. Any
other DSCP is nobody's: it falls to the table-miss rule, which drops and counts.

A multicast group has a tree: up from its source's leaf to one spine, chosen by seed, and down to each leaf with members. Where it
parts there is an OpenFlow group of type `all`, one a band, so each link carries one copy. Members need not report (IGMP): the
reports that a host's kernel sends all the same, when an agent joins, are dropped by a rule of their own and so are no table miss.
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
"""Rules that look at source and destination."""
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
    """Puts matching packets into tc band `band` of switch port `output_port`, or hands them to group `group_id`.

    A rule without a match is the table-miss rule; one without output drops.
    """

    priority: int
    match: Match | None
    band: int | None = None
    output_port: int | None = None
    group_id: int | None = None


@dataclass(frozen=True)
class Bucket:
    """One copy of a packet: into band `band` of port `output_port`."""

    band: int
    output_port: int


@dataclass(frozen=True)
class GroupRule:
    """An OpenFlow group of type `all`: every bucket gets a copy."""

    group_id: int
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True)
class SwitchRules:
    """All that one switch is told; `dpid` is its place in Fabric.switch_names(), from 1."""

    dpid: int
    name: str
    flows: tuple[FlowRule, ...]
    groups: tuple[GroupRule, ...] = field(default=())


@dataclass(frozen=True)
class Hop:
    """A switch on a packet's path, and what it does with the packet."""

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
    """Output ports, by index of the switch, that one packet of a group takes."""
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
    """OpenFlow groups of one switch and the flows that lead to them: one a multicast group and band, for a bucket sets its band."""
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

    A plain hash of (seed, source, destination) leaves to luck whether a host's flows to another leaf share one uplink, which would
    measure the seed and not the strategy. So the hash (BLAKE2b, the same on every machine and Python) only decides the order of the
    hosts on each leaf and a first spine for each pair of leaves, and pairs go round robin from there, as in a Latin square: among
    the pairs of any one host with another leaf, and of any two leaves, no spine has more than one pair above another (where the
    spines divide the hosts of a leaf, none). Sparse patterns still collide or not as the seed falls, as with real ECMP.
    Both directions of a pair use the same spine, so a connection depends on one path and its ACKs come back along it.
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

    Returns the switches it passed, in order; an empty list or one that does not end at `destination` is a packet lost.
    A packet that visits a switch twice is cut off there, with that switch as the last hop.
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

    A copy that comes to a switch where one has been before is not followed, but is listed.
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
    """A spine's port i + 1 goes to leaf i (Fabric.links). Another spine's aggregator is nobody's to reach from here."""
    leaves = len(fabric.leaf_names())
    ports = {host: fabric.leaf_of(host) + 1 for host in range(fabric.hosts)}
    if fabric.aggregators:
        ports |= {fabric.aggregator_of(leaf): leaf + 1 for leaf in range(leaves)}
        ports[fabric.aggregator_of(leaves + spine)] = fabric.aggregator_port(leaves + spine)
    return [rule for endpoint, port in ports.items() for rule in _rules_to(fabric, None, endpoint, port)]


def _rules_to(fabric: Fabric, source: int | None, destination: int, output_port: int) -> list[FlowRule]:
    """One rule a band, and one for unmarked packets."""
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
    fitting = [
        rule
        for rule in switch.flows
        if rule.match is None
        or (
            rule.match.source_ip in (None, source_ip)
            and rule.match.destination_ip == destination_ip
            and rule.match.dscp == dscp
        )
    ]
    return max(fitting, key=lambda rule: rule.priority, default=None)


def _stable_hash(*words: int | str) -> int:
    digest = hashlib.blake2b("/".join(str(word) for word in words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
