"""The numbers that describe the shape of a fabric, as frozen data. Only standard library."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from gradwire.datatypes.host_settings import HostSetting
from gradwire.network.links import LinkSetting
from gradwire.network.network_graph import NetworkGraph


@dataclass(frozen=True)
class ShapeNumbers:
    """How many hosts and switches there are, at which rates. What they mean together, a structure says
    (network/structures/)."""

    hosts: int
    #: Line rate of each host's link.
    rate_bps: float
    _: KW_ONLY
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
    graph: NetworkGraph | None = None
    #: Parameters of hosts' kernels that the user sets, a later one before an earlier one.
    host_settings: tuple[HostSetting, ...] = ()
