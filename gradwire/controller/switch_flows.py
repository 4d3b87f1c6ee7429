"""The OpenFlow rules of every switch of a fabric, as frozen data. Pure: nothing here depends on a controller.

Every pair of hosts has its path in every band before traffic starts; no rule learns, and none floods what agents send.
A rule matches no more fields than its decision needs. Where the next hop depends only on the destination (on the way
down), all sources share one rule and so one entry of the datapath cache, which takes one upcall for all of them instead
of one for each.

On the way up the next hop depends on both ends of a pair, and a rule for each pair would be 700,000 rules for 512
hosts. So the decision has two steps: a first table has a rule for each source, which sets the band, writes the
source's turn (see SummitChoice) as metadata and continues in a second table, and that has a rule for each turn and
destination. There are as many turns as summits.

Packets whose DSCP stands for no band (a ping has none, ssh has its own) travel with control, as they do at a host's
own port: of rules that are alike, the one for any DSCP comes last. Only what has no destination here matches the
table-miss rule, which drops and counts it.

A multicast group has a tree: up from its source's leaf to one spine or core, chosen by the seed, and down to each leaf
with members. Where the tree branches there is an OpenFlow group of type `all` for each band, so each link carries one
copy. Members need not report (IGMP). The reports that a host's kernel sends anyway when an agent joins are dropped by
a separate rule, so that they do not count as table misses.

Where hosts have IPv6 addresses, each unicast rule has a twin for these, so that packets of both versions take the same
ways through the same bands. There, programs run, and what they send to all, to groups and to other addresses of a host
takes the tree of controller/tree_flows.py.

Where switches are in no tiers, rules are those of controller/graph_flows.py, where they hash connections, those of
controller/hashed_flows.py, and where bursts take all ways in turn, those of controller/sprayed_flows.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gradwire.controller.graph_flows import graph_flows, graph_tree
from gradwire.controller.hashed_flows import hashed_flows
from gradwire.controller.rules import (
    ANY_DSCP,
    IGMP_DSCP,
    MULTICAST_PRIORITY,
    PAIR_PRIORITY,
    PAIR_TABLE,
    SOURCE_PRIORITY,
    FlowRule,
    GroupBucket,
    GroupRule,
    Hop,
    Match,
    SwitchRules,
    band_of_dscp,
    lookup,
    priority_for,
    rules_to,
    table_misses,
)
from gradwire.controller.sprayed_flows import sprayed_flows
from gradwire.controller.tree_flows import tree_rules
from gradwire.network.balanced_routes import BalancedRoutes, stable_hash
from gradwire.network.fabric import Fabric, MulticastGroup, dscp_of_band
from gradwire.network.group_addresses import IGMP_REPORTS_IP, LISTENER_REPORTS
from gradwire.network.hashed_routes import HashedRoutes
from gradwire.network.ipv6 import host_ip6
from gradwire.network.sprayed_ways import SprayedRoutes
from gradwire.network.switch_hash import FlowPorts, chosen_bucket
from gradwire.network.tiers import Tiers


def switch_rules(fabric: Fabric) -> list[SwitchRules]:
    """Rules of every switch, leaves first, in the order of Fabric.switch_names()."""
    leaves = len(fabric.leaf_names())
    tree_of = _tree if fabric.is_tiered else graph_tree
    trees = [tree_of(fabric, group) for group in fabric.groups]
    by_tree = tree_rules(fabric) if fabric.ipv6 else [([], [])] * len(fabric.switch_names())
    rules = []
    for switch, (name, (flows, choices)) in enumerate(zip(fabric.switch_names(), _unicast(fabric), strict=True)):
        groups, to_groups = _multicast(
            fabric, {number: tree[switch] for number, tree in enumerate(trees) if switch in tree}
        )
        reports = [_drop_reports()] if fabric.ipv6 or (fabric.groups and switch < leaves) else []
        on_tree, copies = by_tree[switch]
        own = [*to_groups, *reports, *flows, *twins(fabric, flows), *on_tree]
        rules.append(SwitchRules(switch + 1, name, (*own, *table_misses(own)), (*groups, *choices, *copies)))
    return rules


def _unicast(fabric: Fabric) -> list[tuple[list[FlowRule], list[GroupRule]]]:
    """Unicast rules of every switch, and the groups that they choose by."""
    match fabric.routing.policy.next_hops(fabric):
        case HashedRoutes() as routes:
            return hashed_flows(fabric, routes)
        case SprayedRoutes() as routes:
            return [(flows, []) for flows in sprayed_flows(fabric, routes)]
        case BalancedRoutes() as routes:
            return [(flows, []) for flows in graph_flows(fabric, routes)]
        case Tiers():
            return [(flows, []) for flows in _tiered_flows(fabric)]


def _tiered_flows(fabric: Fabric) -> list[list[FlowRule]]:
    leaves, summit_of = len(fabric.leaf_names()), SummitChoice(fabric)
    of_leaves = [_leaf_flows(fabric, leaf, summit_of) for leaf in range(leaves)]
    of_others = [_upper_flows(fabric, switch, summit_of) for switch in range(leaves, fabric.tree.switches)]
    return [*of_leaves, *of_others]


def _tree(fabric: Fabric, group: MulticastGroup) -> dict[int, list[int]]:
    """Output ports of one packet to a group, by index of the switch."""
    tree, here = fabric.tree, fabric.leaf_of(group.source)
    ports: dict[int, list[int]] = {}
    for member in group.members:
        ports.setdefault(fabric.leaf_of(member), []).append(fabric.leaf_port(member))
    far = sorted(ports.keys() - {here})
    if far:
        choice = stable_hash(fabric.seed, "group", group.source, *group.members)
        up, down = tree.between(here, far, group_summit(fabric, here, far, choice))
        for number in up:
            ports.setdefault(tree.trunks[number].lower, []).append(tree.trunks[number].lower_port)
        for number in down:
            ports.setdefault(tree.trunks[number].upper, []).append(tree.trunks[number].upper_port)
    return ports


def group_summit(fabric: Fabric, near: int, far: list[int], choice: int) -> int:
    """The summit of a multicast tree from leaf `near`: a spine if all leaves `far` are in its pod, else a core."""
    others = [leaf for leaf in far if fabric.tree.pod_of(leaf) != fabric.tree.pod_of(near)]
    return fabric.tree.summit(near, (others or far)[0], choice)


def _multicast(fabric: Fabric, ports_of_group: dict[int, list[int]]) -> tuple[list[GroupRule], list[FlowRule]]:
    """A switch's OpenFlow groups and the flows that lead to them, one per multicast group and band, because buckets
    set the band."""
    groups, flows = [], []
    for group, ports in ports_of_group.items():
        for band in range(fabric.bands):
            group_id = group * fabric.bands + band + 1
            groups.append(GroupRule(group_id, tuple(GroupBucket(band, port) for port in ports)))
            match = Match(None, fabric.group_ip(group), dscp_of_band(band))
            flows.append(FlowRule(MULTICAST_PRIORITY, match, group_id=group_id))
    return groups, flows


def _drop_reports() -> FlowRule:
    return FlowRule(MULTICAST_PRIORITY, Match(None, IGMP_REPORTS_IP, IGMP_DSCP))


class SummitChoice:
    """Over which spine or core the packets between two hosts of different leaves go: ECMP with a seeded and balanced
    choice.

    With a plain hash of (seed, source, destination), it would be luck whether a host's flows to another leaf share one
    uplink, and a run would measure the seed instead of the strategy. So the hash (BLAKE2b, the same on every machine
    and Python) decides only the order of the hosts on each leaf and a first way for each pair of leaves, or of pods.
    From there, pairs are assigned round robin, as in a Latin square. Among the pairs of a host with another leaf, and
    among the pairs of two leaves, no spine has more than one pair more than another, and all have equally many if the
    spines divide the hosts of a leaf. The same holds for cores among the pairs of a host with another pod. Sparse
    patterns may still collide, depending on the seed, as with real ECMP. Both directions of a pair take the same way,
    so a connection depends on one path and its ACKs return along it.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        #: Place on the leaf, in the leaf's own order.
        self._rank: dict[int, int] = {}
        self._firsts: dict[tuple[str, int, int], int] = {}
        for leaf, members in enumerate(fabric.hosts_of_leaves):
            shuffled = sorted(members, key=lambda host: (stable_hash(fabric.seed, "host", host), host))
            self._rank.update({host: rank for rank, host in enumerate(shuffled)})
            if fabric.aggregators:
                self._rank[fabric.aggregator_of(leaf)] = fabric.hosts_per_leaf

    def __call__(self, source: int, destination: int) -> int:
        """Summit (see network/tiers.py) between two endpoints of different leaves: hosts, or the leaves'
        aggregators."""
        tree = self._fabric.tree
        near, far = sorted((self._fabric.switch_of(source), self._fabric.switch_of(destination)))
        number = self._rank[source] + self._rank[destination]
        if tree.pod_of(near) == tree.pod_of(far):
            return tree.summit(near, far, self._first("leaves", near, far) + number)
        first = self._first("pods", tree.pod_of(near), tree.pod_of(far))
        # The order of hosts in a pod: those of its first leaf come first.
        number += (near % tree.leaves + far % tree.leaves) * self._fabric.hosts_per_leaf
        return tree.summit(near, far, first + number)

    def turn(self, endpoint: int) -> int:
        """Number by which an endpoint's ways up are chosen: two endpoints on the same leaf with the same turn reach any
        other leaf over the same summits.

        So do two in the same pod, on the way to other pods. There are as many turns as a pod has ways to another leaf
        or pod.
        """
        tree, leaf = self._fabric.tree, self._fabric.switch_of(endpoint)
        place = self._rank[endpoint] + leaf % tree.leaves * self._fabric.hosts_per_leaf
        return place % (tree.spines * max(1, tree.cores_per_spine))

    def _first(self, word: str, near: int, far: int) -> int:
        """The first way between two leaves or pods."""
        if (word, near, far) not in self._firsts:
            self._firsts[word, near, far] = stable_hash(self._fabric.seed, word, near, far)
        return self._firsts[word, near, far]


def trace(
    fabric: Fabric,
    rules: list[SwitchRules],
    source: int,
    destination: int,
    dscp: int,
    ports: FlowPorts | None = None,
    address: Callable[[int], str] | None = None,
) -> list[Hop]:
    """Follows one packet through the rules, as the switches would, until it leaves at a host's port or is dropped.

    ports: of its connection, where switches hash them. address: of a host, by default its IPv4 one. Returns the
    switches that it passed, in order. If the list is empty or does not end at `destination`, the packet is lost. If it
    visits a switch twice, the list ends with that
    switch.
    """
    by_name = {switch.name: switch for switch in rules}
    far_end, address = _far_ends(fabric), address or fabric.host_ip
    here = fabric.switch_names()[fabric.switch_of(source)]
    hops: list[Hop] = []
    while here in by_name:
        passed = lookup(by_name[here], address(source), address(destination), dscp)
        bands = [rule.band for rule in passed if rule.band is not None]
        if not passed or not bands:
            return hops
        output_port = passed[-1].output_port
        if output_port is None and ports is not None:
            output_port = _hashed_port(fabric, by_name[here], passed[-1].group_id, source, destination, ports)
        if output_port is None:
            return hops
        looped = any(hop.switch == here for hop in hops)
        hops.append(Hop(here, bands[-1], output_port))
        if looped:
            return hops
        here = far_end[here, hops[-1].output_port]
    return hops


def _hashed_port(
    fabric: Fabric, switch: SwitchRules, group_id: int | None, source: int, destination: int, ports: FlowPorts
) -> int | None:
    """The port that a switch's group chooses for a connection; None if the group does not choose."""
    for group in switch.groups:
        if group.group_id == group_id and group.hash_parameter is not None:
            ips = fabric.host_ip(source), fabric.host_ip(destination)
            return group.buckets[chosen_bucket(group.hash_parameter, *ips, ports, len(group.buckets))].output_port
    return None


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
        passed = lookup(switch, fabric.host_ip(source), fabric.group_ip(group), dscp)
        entries = {entry.group_id: entry for entry in switch.groups}
        if not passed or passed[-1].group_id is None:
            continue
        copies = [
            Hop(here, bucket.band, bucket.output_port)
            for bucket in entries[passed[-1].group_id].buckets
            if bucket.band is not None
        ]
        hops += copies
        waiting += [far_end[here, copy.output_port] for copy in copies]
    return hops


def _far_ends(fabric: Fabric) -> dict[tuple[str, int], str]:
    return {
        (near.device, near.number): far.device
        for link in fabric.links()
        for near, far in ((link.a, link.b), (link.b, link.a))
    }


def _leaf_flows(fabric: Fabric, leaf: int, summit_of: SummitChoice) -> list[FlowRule]:
    """Unicast rules of a leaf: down to its hosts and aggregator, up to everything else."""
    tree = fabric.tree
    local = {host: fabric.leaf_port(host) for host in fabric.hosts_of_leaves[leaf]}
    remote = [host for host in range(fabric.hosts) if host not in local]
    up: dict[int, int] = {}
    if fabric.aggregators:
        local[fabric.aggregator_of(leaf)] = fabric.aggregator_port(leaf)
        remote += [fabric.aggregator_of(other) for other in range(tree.leaf_count) if other != leaf]
        spines = range(len(fabric.spine_names()))
        up = {fabric.aggregator_of(tree.leaf_count + spine): fabric.hosts_per_leaf + spine + 1 for spine in spines}
    own = [rule for endpoint, port in {**local, **up}.items() for rule in rules_to(fabric, endpoint, port)]
    if not remote:
        return own
    port_of = {
        summit: tree.trunks[tree.climb(leaf, summit)[0]].lower_port
        for summit in range(tree.spine_count + tree.cores)
        if tree.pod_of(tree.leaf_count + summit) in (-1, tree.pod_of(leaf))
    }
    return own + _up_flows(fabric, list(local), remote, summit_of, port_of)


def _up_flows(
    fabric: Fabric, sources: list[int], destinations: list[int], summit_of: SummitChoice, port_of: Mapping[int, int]
) -> list[FlowRule]:
    """Rules for packets from these sources to destinations elsewhere. port_of: by summit, for those that are above
    this switch."""
    example: dict[int, int] = {summit_of.turn(source): source for source in reversed(sources)}
    by_turn = [
        FlowRule(
            PAIR_PRIORITY, Match(None, fabric.host_ip(destination), None, turn), None, port_of[summit], table=PAIR_TABLE
        )
        for turn, source in sorted(example.items())
        for destination in destinations
        if (summit := summit_of(source, destination)) in port_of
    ]
    by_source = [
        FlowRule(
            priority_for(SOURCE_PRIORITY, dscp),
            Match(fabric.host_ip(source), None, dscp),
            band,
            turn=summit_of.turn(source),
        )
        for source in sources
        for dscp, band in band_of_dscp(fabric).items()
    ]
    # The second table comes first: a packet that the first one sends on finds its rule there.
    return by_turn + by_source


def _upper_flows(fabric: Fabric, switch: int, summit_of: SummitChoice) -> list[FlowRule]:
    """Unicast rules of a spine or core: down to the leaves below it, and from a pod's spine up to the other pods.

    No path leads to another spine's aggregator.
    """
    tree, summit, pod = fabric.tree, switch - fabric.tree.leaf_count, fabric.tree.pod_of(switch)
    leaves = range(tree.leaf_count)
    ports = {
        host: tree.trunks[tree.climb(leaf, summit)[-1]].upper_port
        for leaf in leaves
        if pod in (-1, tree.pod_of(leaf))
        for host in fabric.hosts_of_leaves[leaf]
    }
    if fabric.aggregators:
        ports |= {fabric.aggregator_of(leaf): leaf + 1 for leaf in leaves}
        ports[fabric.aggregator_of(switch)] = fabric.aggregator_port(switch)
    down = [rule for endpoint, port in sorted(ports.items()) for rule in rules_to(fabric, endpoint, port)]
    if not tree.cores or pod < 0:
        return down
    outside = [host for host in range(fabric.hosts) if tree.pod_of(fabric.leaf_of(host)) != pod]
    cores = {trunk.upper - tree.leaf_count: trunk.lower_port for trunk in tree.trunks if trunk.lower == switch}
    return down + _up_flows(fabric, sorted(ports), outside, summit_of, cores)


def twins(fabric: Fabric, rules: Iterable[FlowRule]) -> list[FlowRule]:
    """The rules for IPv6 that correspond to these unicast rules for IPv4, in their order; none for a fabric without
    IPv6.

    Reports of groups from hosts' kernels are dropped, so that they do not count as table misses.
    """
    if not fabric.ipv6:
        return []
    address = {fabric.host_ip(host): host_ip6(host) for host in range(fabric.endpoints)}
    found = [
        replace(
            rule,
            match=replace(
                rule.match,
                source_ip=rule.match.source_ip and address[rule.match.source_ip],
                destination_ip=rule.match.destination_ip and address[rule.match.destination_ip],
                version=6,
            ),
        )
        for rule in rules
        if rule.match is not None
    ]
    return [FlowRule(MULTICAST_PRIORITY, Match(None, LISTENER_REPORTS, ANY_DSCP, version=6)), *found]
