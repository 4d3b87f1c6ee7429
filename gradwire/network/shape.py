"""The shape of a fabric as frozen data: how many hosts and switches, at which rates, and who is where. Only standard
library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from gradwire.datatypes.host_settings import CONGESTION_KEY, Parameters, hosts_meant, parameters_of_hosts
from gradwire.datatypes.name_patterns import NumberedNames
from gradwire.network.links import Link, names_of_links, with_settings
from gradwire.network.shape_numbers import ShapeNumbers
from gradwire.network.tiers import Tiers
from gradwire.network.topology import Topology


@dataclass(frozen=True)
class NetworkShape(ShapeNumbers):
    """Hosts on switches, and the rates of the links between them."""

    topology: Topology = Topology.SINGLE_SWITCH

    def shape_defects(self) -> Iterator[str]:
        """Yields the reasons why the shape is impossible, a line each."""
        if self.rate_bps <= 0:
            yield f"fabric.rate = {self.rate_bps}: must be above 0"
        if self.rails and self.nics_per_host == 1:
            yield "fabric.rails = true: needs hosts with several NICs: cluster.nics_per_host, and as many fabric.leaves"
        yield from self.topology.structure.defects(self)

    def link_defects(self) -> Iterator[str]:
        """Yields the defects of settings of links, for a shape without other defects."""
        examples = (*self._unset_links[:2], *self._unset_links[self.hosts : self.hosts + 1])
        names = ", ".join(map(self.link_title, examples))
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
    def _names_of_hosts(self) -> NumberedNames:
        """Returns all names of the hosts."""
        return NumberedNames((name, *self.aliases.get(name, ())) for name in self.host_names())

    @cached_property
    def _names_of_links(self) -> NumberedNames:
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

    @property
    def is_tiered(self) -> bool:
        """Returns whether switches are in tiers, where what leaves a part takes any of its uplinks, rather than those of
        a graph."""
        return self.topology.structure.is_tiered

    @property
    def hosts_per_leaf(self) -> int:
        """Hosts on each leaf (all of them on a single switch)."""
        return self.topology.structure.hosts_per_leaf(self)

    @property
    def uplink_rate_bps(self) -> float:
        """Line rate of each link between a leaf and a spine."""
        return self.topology.structure.uplink_rate_bps(self)

    @property
    def core_rate_bps(self) -> float:
        """Line rate of each link between a spine and a core."""
        return self.topology.structure.core_rate_bps(self)

    @property
    def summits(self) -> int:
        """Ways between two leaves that are as far apart as leaves can be; 1 for a graph, and 0 for a single switch."""
        return self.topology.structure.summits(self)

    @cached_property
    def tree(self) -> Tiers:
        """The switches and the links between them; without tiers, a single switch has none, and neither has a graph."""
        if not (self.is_tiered and any(setting.rate_bps for setting in self.link_settings)):
            return self._unset_tree
        return replace(
            self._unset_tree, trunk_rates_bps=tuple(link.rate_bps for link in self.shape_links[self.hosts :])
        )

    @cached_property
    def _unset_tree(self) -> Tiers:
        """The tree without settings of links."""
        return self.topology.structure.tree(self)

    @cached_property
    def shape_links(self) -> tuple[Link, ...]:
        """The links of hosts, then those between switches as `trunk_links` has them."""
        if not self.link_settings:
            return self._unset_links
        return with_settings(self._unset_links, self.link_settings, self._names_of_links)

    @cached_property
    def _unset_links(self) -> tuple[Link, ...]:
        """The links, as they are without settings that name them."""
        return self.topology.structure.links(self, self.host_names(), self.switch_names())

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
        return self.topology.structure.aliases(self, self.host_names(), self.switch_names())

    def title_of(self, device: str) -> str:
        """The name by which users know a device, as they write it in scenarios: "leaf1" for "s1"."""
        return self.aliases.get(device, (device,))[-1]

    def link_title(self, link: Link) -> str:
        """The name of a link in all that users read, as they write it in scenarios: "h3" for that of a host, and else
        "leaf1-spine2"."""
        near, far = self.title_of(link.a.device), self.title_of(link.b.device)
        if link.a.number == 0:  # hosts have one port, and its number is 0
            return near
        return f"{near}-{far}" + (f"#{link.number}" if link.number > 1 else "")

    def host_names(self) -> list[str]:
        """Names of the hosts, by index."""
        return [f"h{i + 1}" for i in range(self.hosts)]

    def leaf_names(self) -> list[str]:
        """Switches that hosts can be on."""
        return self.switch_names()[: self.topology.structure.leaf_count(self)]

    def spine_names(self) -> list[str]:
        """Switches above those with hosts: spines, then cores; none where switches are in no tiers."""
        return self.switch_names()[self.topology.structure.leaf_count(self) :]

    def switch_names(self) -> list[str]:
        """Returns the names of the switches: leaves, then spines, then cores; or those of the graph."""
        return [f"s{i + 1}" for i in range(self.topology.structure.switch_count(self))]

    def leaf_of(self, host: int) -> int:
        """Index of the leaf, or of the graph's switch, that host index `host` is on."""
        return self.topology.structure.place_of(self, host)[0]

    def leaf_port(self, host: int) -> int:
        """Number of the leaf's port towards host index `host`."""
        return self.topology.structure.place_of(self, host)[1]

    @cached_property
    def hosts_of_leaves(self) -> tuple[tuple[int, ...], ...]:
        """Host indices on each leaf, or on each switch of a graph, in the order of its ports."""
        return self.topology.structure.hosts_of_leaves(self)
