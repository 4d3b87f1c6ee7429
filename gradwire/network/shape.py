"""The shape of a fabric as frozen data: how many hosts and switches, at which rates, and who is where. Only standard
library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from gradwire.datatypes.host_settings import CONGESTION_KEY, HostSetting, Parameters, hosts_meant, parameters_of_hosts
from gradwire.datatypes.name_patterns import Names
from gradwire.network.links import Link, LinkSetting, Port, names_of_links, numbered, with_settings
from gradwire.network.network_graph import Graph
from gradwire.network.tiers import Tiers

MOST_TRUNKS = 2**14
"""Links between switches. A k-ary fat tree with 1,024 hosts has 2,048. Each takes Open vSwitch and its controller
milliseconds; to write a network with 2^20 of them down takes minutes and gigabytes."""
LEAST_TC_RATE_BPS, MOST_TC_RATE_BPS = 8.0, 2.0**63
"""tc counts rates in whole bytes per second, in 64 bits."""


class Topology(StrEnum):
    """Shape of the fabric."""

    SINGLE_SWITCH = "single"
    LEAF_SPINE = "leaf-spine"
    FAT_TREE = "fat-tree"
    RING = "ring"
    LINEAR = "linear"
    FULL_MESH = "full-mesh"
    HYPERCUBE = "hypercube"
    TORUS = "torus"
    DRAGONFLY = "dragonfly"
    CUSTOM = "custom"

    @property
    def is_graph(self) -> bool:
        """Returns whether the switches are those of a Graph, rather than in tiers."""
        return self not in (Topology.SINGLE_SWITCH, Topology.LEAF_SPINE, Topology.FAT_TREE)


@dataclass(frozen=True)
class Shape:
    """Hosts on switches, and the rates of the links between them."""

    hosts: int
    #: Line rate of each host's link.
    rate_bps: float
    topology: Topology = Topology.SINGLE_SWITCH
    #: Leaves; in a fat tree, of each pod.
    leaves: int = 1
    #: Spines; in a fat tree, of each pod.
    spines: int = 0
    #: Uplinks of leaves carry hosts_per_leaf * rate_bps / (spines * oversubscription) each.
    oversubscription: float = 1.0
    #: Pods and cores of a fat tree.
    pods: int = 1
    cores: int = 0
    #: Uplinks of a pod's spines carry as much together as those of its leaves, divided by this.
    core_oversubscription: float = 1.0
    #: Hosts of the fabric that are NICs of one machine. NIC k of machine m is host m * nics_per_host + k.
    nics_per_host: int = 1
    #: Whether NIC k of every machine is at a leaf of rail k. Otherwise all NICs of a machine are at one leaf.
    rails: bool = False
    #: How long packets are under way on each link, unless `link_settings` say otherwise; 0 where a graph's links have
    #: delays of their own.
    delay_s: float = 0.0
    #: Settings of single links; a later one overrides an earlier one.
    link_settings: tuple[LinkSetting, ...] = ()
    #: Limit of the rate of one connection out of a host, in bits on the line; 0 for no limit.
    flow_rate_bps: float = 0.0
    #: After how long without anything to send a connection may take another way; 0 where that does not happen.
    flowlet_gap_s: float = 0.0
    #: The switches of a topology that has no tiers.
    graph: Graph | None = None
    #: Parameters of hosts' kernels that the user sets, a later one before an earlier one.
    host_settings: tuple[HostSetting, ...] = ()

    def shape_defects(self) -> Iterator[str]:
        """Yields the reasons why the shape is impossible, a line each."""
        if self.rate_bps <= 0:
            yield f"fabric.rate = {self.rate_bps}: must be above 0"
        if self.rails and self.nics_per_host == 1:
            yield "fabric.rails = true: needs hosts with several NICs: cluster.nics_per_host"
        if self.topology.is_graph:
            yield from self._graph_defects()
        elif self.hosts % self.nics_per_host:
            yield f"cluster.nics_per_host = {self.nics_per_host}: must divide the {self.hosts} NICs of the network"
        elif self.topology is not Topology.SINGLE_SWITCH:
            yield from self._tiers_defects()

    def link_defects(self) -> Iterator[str]:
        """Yields the defects of settings of links, for a shape without other defects."""
        names = ", ".join(link.name for link in self._unset_links[:3])
        for setting in self.link_settings:
            if self._names_of_links.matching(setting.pattern):
                continue
            yield f"fabric.link.'{setting.pattern}': no link is called that; links are {names}, ..."

    def host_defects(self) -> Iterator[str]:
        """Yields the defects of settings of hosts, for a shape without other defects."""
        for setting in self.host_settings:
            if not hosts_meant(self._names_of_hosts, self.hosts, setting):
                names = self.host_names()
                first, last = (self.aliases.get(name, (name,))[-1] for name in (names[0], names[-1]))
                yield f"fabric.host.'{setting.pattern}': no host is called that; hosts are {first} to {last}"

    @cached_property
    def _names_of_hosts(self) -> Names:
        """Returns all names of the hosts."""
        return Names((name, *self.aliases.get(name, ())) for name in self.host_names())

    @cached_property
    def _names_of_links(self) -> Names:
        """Returns all names of the links."""
        return names_of_links(self._unset_links, self.aliases)

    @cached_property
    def host_parameters(self) -> tuple[Parameters, ...]:
        """Returns the parameters that settings ask for in each host's kernel, by key."""
        if not self.host_settings:
            return ({},) * self.hosts
        return parameters_of_hosts(self._names_of_hosts, self.hosts, self.host_settings)

    @cached_property
    def set_keys(self) -> frozenset[str]:
        """All parameters that are asked of any host."""
        return frozenset(key for parameters in self.host_parameters for key in parameters)

    @property
    def congestion_of_hosts(self) -> tuple[str, ...]:
        """The congestion control that is asked of each host's kernel; "" where none is."""
        asked = (parameters.get(CONGESTION_KEY) for parameters in self.host_parameters)
        return tuple(each.value if each else "" for each in asked)

    def _graph_defects(self) -> Iterator[str]:
        if self.graph is None:
            yield f"fabric.topology = '{self.topology}': needs its switches and links"
            return
        if self.hosts != len(self.graph.host_links):
            yield f"fabric: a network for {len(self.graph.host_links)} hosts cannot have {self.hosts}"
        if self.hosts % self.nics_per_host:
            yield f"cluster.nics_per_host = {self.nics_per_host}: must divide the {self.hosts} NICs of the network"
        yield from self.graph.defects()

    def _tiers_defects(self) -> Iterator[str]:
        of_pod = " of each pod" if self.topology is Topology.FAT_TREE else ""
        if self.leaves < 1 or self.spines < 1:
            yield f"fabric.topology = '{self.topology}' needs leaves and spines{of_pod} of at least 1"
            return
        trunks = self.pods * self.leaves * self.spines + self.pods * self.cores
        if trunks > MOST_TRUNKS:
            yield (
                f"fabric.spines = {self.spines}: makes {trunks:,} links between switches; must be at most "
                f"{MOST_TRUNKS:,}"
            )
            return
        if self.topology is Topology.FAT_TREE:
            yield from self._core_defects()
        if self.hosts % (self.pods * self.leaves):
            pods = f"fabric.pods = {self.pods} and " if self.topology is Topology.FAT_TREE else ""
            ends = "NICs" if self.nics_per_host > 1 else "hosts"
            yield f"{pods}fabric.leaves = {self.leaves}: must divide the {self.hosts} {ends}"
        elif self.nics_per_host > 1:
            yield from self._rail_defects()
        if self.oversubscription <= 0:
            yield f"fabric.oversubscription = {self.oversubscription}: must be above 0"
        elif not LEAST_TC_RATE_BPS <= self.uplink_rate_bps < MOST_TC_RATE_BPS:
            yield (
                f"fabric.oversubscription = {self.oversubscription:g}: makes uplinks of {self.uplink_rate_bps:g} "
                f"bit/s; tc shapes ports to {LEAST_TC_RATE_BPS:g} to {MOST_TC_RATE_BPS:g} bit/s"
            )

    def _core_defects(self) -> Iterator[str]:
        if self.pods < 2:
            yield f"fabric.pods = {self.pods}: a fat tree has at least 2; one pod alone is 'leaf-spine'"
        if self.cores < 1 or self.cores % self.spines:
            yield (
                f"fabric.cores = {self.cores}: must be a multiple of fabric.spines = {self.spines}, because each core "
                "is joined to one spine of every pod"
            )
        elif self.core_oversubscription <= 0:
            yield f"fabric.core_oversubscription = {self.core_oversubscription}: must be above 0"
        elif not LEAST_TC_RATE_BPS <= self.core_rate_bps < MOST_TC_RATE_BPS:
            yield (
                f"fabric.core_oversubscription = {self.core_oversubscription:g}: makes uplinks of "
                f"{self.core_rate_bps:g} bit/s; tc shapes ports to {LEAST_TC_RATE_BPS:g} to {MOST_TC_RATE_BPS:g} bit/s"
            )

    def _rail_defects(self) -> Iterator[str]:
        if self.rails and self.leaves % self.nics_per_host:
            yield (
                f"fabric.rails = true: every NIC of a host is at another leaf, so fabric.leaves = {self.leaves} must "
                f"be a multiple of cluster.nics_per_host = {self.nics_per_host}"
            )
        if not self.rails and self.hosts_per_leaf % self.nics_per_host:
            yield (
                f"fabric.leaves = {self.leaves}: a leaf has {self.hosts_per_leaf} ports for NICs, not a multiple of "
                f"cluster.nics_per_host = {self.nics_per_host}, and all NICs of a host are at one leaf; fabric.rails "
                "= true spreads them"
            )

    @property
    def hosts_per_leaf(self) -> int:
        """Hosts on each leaf (all of them on a single switch)."""
        if self.topology is Topology.SINGLE_SWITCH or self.topology.is_graph:
            return self.hosts
        return self.hosts // (self.pods * self.leaves)

    @property
    def uplink_rate_bps(self) -> float:
        """Line rate of each link between a leaf and a spine."""
        if self.topology is Topology.SINGLE_SWITCH or self.topology.is_graph:
            return 0.0
        return self.hosts_per_leaf * self.rate_bps / (self.spines * self.oversubscription)

    @property
    def summits(self) -> int:
        """Ways between two leaves that are as far apart as leaves can be; 1 for a graph, and 0 for a single switch."""
        if self.topology.is_graph:
            return 1
        return 0 if self.topology is Topology.SINGLE_SWITCH else max(self.spines, self.cores)

    @property
    def core_rate_bps(self) -> float:
        """Line rate of each link between a spine and a core."""
        if self.topology is not Topology.FAT_TREE:
            return 0.0
        return self.leaves * self.spines * self.uplink_rate_bps / (self.cores * self.core_oversubscription)

    @cached_property
    def tree(self) -> Tiers:
        """The switches and the links between them; without tiers, a single switch has none, and neither has a graph."""
        tiers = self._unset_tree
        if self.graph is not None or not any(setting.rate_bps for setting in self.link_settings):
            return tiers
        return replace(tiers, trunk_rates_bps=tuple(link.rate_bps for link in self.shape_links[self.hosts :]))

    @cached_property
    def _unset_tree(self) -> Tiers:
        """The tree without settings of links."""
        if self.topology is Topology.SINGLE_SWITCH or self.graph is not None:
            return Tiers(self.hosts)
        shape = Tiers(self.hosts_per_leaf, 1, self.leaves, self.spines, leaf_uplink_bps=self.uplink_rate_bps)
        if self.topology is Topology.LEAF_SPINE:
            return shape
        return replace(shape, pods=self.pods, cores=self.cores, spine_uplink_bps=self.core_rate_bps)

    @cached_property
    def shape_links(self) -> tuple[Link, ...]:
        """The links of hosts, then those between switches as `trunk_links` has them."""
        if not self.link_settings:
            return self._unset_links
        return with_settings(self._unset_links, self.link_settings, self._names_of_links)

    @cached_property
    def _unset_links(self) -> tuple[Link, ...]:
        """The links, as they are without settings that name them."""
        hosts, switches = self.host_names(), self.switch_names()
        if self.graph is not None:
            links = numbered(self.graph.links(hosts, switches))
            return tuple(replace(link, delay_s=self.delay_s) if self.delay_s else link for link in links)
        down = [
            Link(Port(name, 0), Port(switches[self.leaf_of(h)], self.leaf_port(h)), self.rate_bps, self.delay_s)
            for h, name in enumerate(hosts)
        ]
        trunks = [
            Link(Port(switches[t.lower], t.lower_port), Port(switches[t.upper], t.upper_port), t.rate_bps, self.delay_s)
            for t in self._unset_tree.trunks
        ]
        return (*down, *trunks)

    def trunk_links(self) -> list[Link]:
        """The links between switches, in the order of `tree.trunks` or of the graph's; `a` is the lower end."""
        return list(self.shape_links[self.hosts :])

    @cached_property
    def host_bps(self) -> tuple[float, ...]:
        """Line rate of each host's link."""
        return tuple(link.rate_bps for link in self.shape_links[: self.hosts])

    @cached_property
    def aliases(self) -> Mapping[str, tuple[str, ...]]:
        """Returns the names by which users know devices: in a network of their own, the names there; in tiers, also
        those of the tiers' switches ("leaf1")."""
        hosts, switches, tree = self.host_names(), self.switch_names(), self._unset_tree
        if self.graph is not None:
            labels = [
                *zip(hosts, self.graph.host_labels, strict=False),
                *zip(switches, self.graph.switch_labels, strict=False),
            ]
            return {name: (label,) for name, label in labels}
        if self.topology is Topology.SINGLE_SWITCH:
            return {}
        tiers = (("leaf", tree.leaf_count), ("spine", tree.spine_count), ("core", tree.cores))
        words = [f"{word}{number + 1}" for word, count in tiers for number in range(count)]
        return {name: (name, word) for name, word in zip(switches, words, strict=True)}

    def host_names(self) -> list[str]:
        """Names of the hosts, by index."""
        return [f"h{i + 1}" for i in range(self.hosts)]

    def leaf_names(self) -> list[str]:
        """Switches that hosts can be on."""
        return self.switch_names() if self.graph is not None else self.switch_names()[: self._unset_tree.leaf_count]

    def spine_names(self) -> list[str]:
        """Switches above those with hosts: spines, then cores; none where switches are in no tiers."""
        return [] if self.graph is not None else self.switch_names()[self._unset_tree.leaf_count :]

    def switch_names(self) -> list[str]:
        """Returns the names of the switches: leaves, then spines, then cores; or those of the graph."""
        count = self._unset_tree.switches if self.graph is None else self.graph.switches
        return [f"s{i + 1}" for i in range(count)]

    def leaf_of(self, host: int) -> int:
        """Index of the leaf, or of the graph's switch, that host index `host` is on."""
        return self._place_of(host)[0] if self.graph is None else self.graph.host_links[host].b

    def leaf_port(self, host: int) -> int:
        """Number of the leaf's port towards host index `host`."""
        return self._place_of(host)[1] + 1 if self.graph is None else self.graph.host_ports[host]

    def _place_of(self, host: int) -> tuple[int, int]:
        """The leaf of a host, and the place among the leaf's hosts."""
        if not self.rails or self.topology is Topology.SINGLE_SWITCH:
            return divmod(host, self.hosts_per_leaf)
        machine, rail = divmod(host, self.nics_per_host)
        block, place = divmod(machine, self.hosts_per_leaf)
        return block * self.nics_per_host + rail, place

    @cached_property
    def hosts_of_leaves(self) -> tuple[tuple[int, ...], ...]:
        """Host indices on each leaf, or on each switch of a graph, in the order of its ports."""
        if self.graph is not None:
            return self.graph.hosts_of_switches
        leaves: list[list[int]] = [[] for _ in range(self._unset_tree.leaf_count)]
        for host in range(self.hosts):
            leaves[self.leaf_of(host)].append(host)
        return tuple(tuple(hosts) for hosts in leaves)
