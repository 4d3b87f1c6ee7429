"""What ways through a fabric depend on, as frozen data: its shape, who has which address, a table of routes, and the
seed. Imports only the standard library.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from gradwire.faults import InputFault
from gradwire.network.frame_sizes import IP_TCP_HEADER_BYTES
from gradwire.network.shape import NetworkShape


@dataclass(frozen=True)
class Route:
    """A row of a table of routes: where switches send packets to hosts."""

    #: A switch, or a pattern.
    switch: str
    #: A host, or a pattern.
    destination: str
    #: Neighbouring switches, each of which stands for all links to it, or ports such as "s1-eth3".
    next: tuple[str, ...]

    def __str__(self) -> str:
        """The row in an error message, behind its number."""
        return f"switch = '{self.switch}', destination = '{self.destination}'"


@dataclass(frozen=True)
class RoutedNetwork(NetworkShape):
    """A network whose endpoints are hosts, and then one aggregator per switch in the order of the switches, with all
    that decides on the ways between them, except for the policy (network/routing.py)."""

    _: KW_ONLY
    mtu_bytes: int = 1500
    #: Largest burst handed to a port at once, which is the granularity of preemption.
    gso_bytes: int = 65536
    #: Decides which spine each pair of hosts uses.
    seed: int = 1
    #: The table by which switches send, where `routing` is static.
    routes: tuple[Route, ...] = ()
    #: Digest of the user's controller, where `routing` is by one.
    controller: str = ""
    #: The ways that its flows were found to say (network/read_ways.py); empty before a run.
    ways: tuple[tuple[int, ...], ...] = ()
    #: Whether each switch has a host that adds up what passes through, at a port without a rate limit.
    aggregators: bool = False

    def mss_bytes(self) -> int:
        """Payload of a full TCP segment: 1,448 bytes at MTU 1500."""
        return self.mtu_bytes - IP_TCP_HEADER_BYTES

    def aggregator_names(self) -> list[str]:
        """Names of the aggregators, in the order of the switches that they are on."""
        return [f"a{i + 1}" for i in range(len(self.switch_names()))] if self.aggregators else []

    def endpoint_names(self) -> list[str]:
        """Hosts, then aggregators."""
        return self.host_names() + self.aggregator_names()

    @property
    def endpoints(self) -> int:
        """Number of hosts and aggregators."""
        return self.hosts + (len(self.switch_names()) if self.aggregators else 0)

    def aggregator_of(self, switch: int) -> int:
        """Endpoint index of the aggregator on switch index `switch`; raises InputFault on a fabric without
        aggregators."""
        if not self.aggregators:
            raise InputFault("the fabric has no aggregators: make it with aggregators=True")
        return self.hosts + switch

    def switch_of(self, endpoint: int) -> int:
        """Index in switch_names() of the switch that an endpoint is on."""
        return self.leaf_of(endpoint) if endpoint < self.hosts else endpoint - self.hosts

    def host_ip(self, host: int) -> str:
        """IPv4 address of host index `host`: 10.0.0.1 upwards."""
        return f"10.0.{(host + 1) >> 8}.{(host + 1) & 255}"

    def host_mac(self, host: int) -> str:
        """MAC address of host index `host`."""
        return f"02:00:00:00:{(host + 1) >> 8:02x}:{(host + 1) & 255:02x}"

    def group_ip(self, group: int) -> str:
        """IPv4 address of multicast group index `group`: 239.77.0.0 upwards."""
        return f"239.77.{group >> 8}.{group & 255}"

    def aggregator_port(self, switch: int) -> int:
        """Number of a switch's port towards its aggregator, which is its last."""
        trunks = sum(switch in (trunk.lower, trunk.upper) for trunk in self._unset_tree.trunks)
        return 1 + trunks + (self.hosts_per_leaf if switch < self._unset_tree.leaf_count else 0)
