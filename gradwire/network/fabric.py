"""The fabric as frozen data: hosts, switches, links, rates, traffic classes and addresses.

A fabric is one switch with all hosts on it, a leaf/spine network, or a fat tree of three tiers: pods of leaves and
spines, joined by cores. Each leaf has equally many hosts. Where machines have several network interfaces (NICs), each
NIC is a host of the fabric: a network namespace with one port.

Band 0 of every port belongs to control messages and pure ACKs. Traffic class k uses band k + 1, so class 0 is the most
urgent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import cached_property
from typing import Any

from gradwire.datatypes.host_settings import HostSetting, HostTcp, RdmaDevice
from gradwire.faults import InputFault
from gradwire.network.frame_sizes import ETHERNET_HEADER_BYTES as ETHERNET_HEADER_BYTES  # noqa: PLC0414 (the same)
from gradwire.network.frame_sizes import IP_TCP_HEADER_BYTES as IP_TCP_HEADER_BYTES  # noqa: PLC0414
from gradwire.network.frame_sizes import PREAMBLE_FCS_GAP_BYTES as PREAMBLE_FCS_GAP_BYTES  # noqa: PLC0414
from gradwire.network.links import Link as Link  # noqa: PLC0414
from gradwire.network.links import LinkSetting, link_queue_defects, queue_defects
from gradwire.network.links import Port as Port  # noqa: PLC0414
from gradwire.network.lossless import Lossless, lossless_defects
from gradwire.network.network_graph import NetworkGraph
from gradwire.network.routed_network import Route, RoutedNetwork
from gradwire.network.routing import Routing as Routing  # noqa: PLC0414
from gradwire.network.topology import Topology as Topology  # noqa: PLC0414 (whoever knows fabrics has it from here)
from gradwire.strict_json import parse_json

BITS_PER_S: Mapping[str, float] = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
"""The units in which rates are written, as in "10gbit"."""
FRAMES_PER_ACK = 2
"""TCP's delayed ACKs answer every second frame, unless frames arrive in larger bursts."""
MULTICAST_HEADER_BYTES = 16
"""Precedes the payload of each multicast datagram: flow, place in the burst, sequence number
(network/wire/datagrams.py)."""
IP_UDP_HEADER_BYTES = 28 + MULTICAST_HEADER_BYTES
"""IPv4 20, UDP 8, and the header above."""
MAX_GSO_BYTES = 65536
EXACT_TIMER_BURST_S = 2e-6
LOOSE_TIMER_BURST_BYTES = 65536
LOOSE_TIMER_BURST_S = 5e-3
CONTROL_BAND = 0
"""Band of control messages and pure ACKs, which is served before all others."""
BANDS_MAJOR = 1
"""Major number of the tc classes of bands. Open vSwitch turns set_queue:N into skb->priority 1:(N + 1), so it has to
be 1."""
MAX_BANDS = 16
"""TCQ_PRIO_BANDS: the bands that sch_prio can have."""
MAX_HOSTS = 2**16 - 2
"""Host addresses in 10.0.0.0/16."""
NO_LIMIT_BYTES = 2**31 - 1
"""Stands for the deep queue of a lossless fabric where a qdisc counts bytes: 1.7 s at 10 Gbit/s."""
MAX_GROUPS = 2**16
"""Group addresses in 239.77.0.0/16, part of the range that an organisation assigns itself (RFC 2365)."""


@dataclass(frozen=True)
class MulticastGroup:
    """Hosts to which the switches copy what one host sends once."""

    #: Host index of the sender, which is not a member.
    source: int
    #: Host indices, sorted.
    members: tuple[int, ...]


@dataclass(frozen=True)
class Fabric(RoutedNetwork):
    """The network: everything that is needed to build it, to program its switches, and to address its hosts."""

    _: KW_ONLY
    #: By which rules switches choose ways.
    routing: Routing = Routing.BALANCED
    #: Number of traffic classes; the control band is extra.
    classes: int = 2
    #: Length of each band's queue.
    queue_packets: int = 100_000
    #: Share of frames dropped (by netem) at every switch port towards a host; 0 for a lossless fabric.
    loss: float = 0.0
    #: Size of each band's queue at a switch's port, which drops what does not fit; 0 for the deep queues of a lossless
    #: fabric.
    buffer_bytes: int = 0
    #: Length from which on a band's queue at a switch's port marks packets (ECN); 0 for no marks.
    ecn_bytes: int = 0
    #: Parameters of RED: the length from which all packets are marked (Kmax), and the share just below it (Pmax).
    ecn_most_bytes: int = 0
    ecn_share: float = 1.0
    #: Whether faults may lose packets, so that TCP and multicast keep the timers that they have on a network with
    #: losses.
    faulty: bool = False
    #: Whether the flows of a band are served in turn, where the kernel can and nothing is lost, or share one FIFO.
    fair_queues: bool = True
    host_tcp: HostTcp = HostTcp.TUNED
    #: Multicast groups that the switches copy for.
    groups: tuple[MulticastGroup, ...] = ()
    #: Whether programs run on hosts: then these have IPv6 addresses too (network/ipv6.py), and switches carry frames to
    #: all and to groups (controller/tree_flows.py).
    ipv6: bool = False
    #: Priority flow control; None for queues without end.
    lossless: Lossless | None = None
    rdma: RdmaDevice = RdmaDevice.NONE

    def __post_init__(self) -> None:
        """Raises InputFault for a fabric that cannot be built, with a line for each reason."""
        defects = [*self.shape_defects(), *self._port_defects(), *self._address_defects()]
        if self.link_settings and not defects:
            defects = [*self.link_defects(), *link_queue_defects(self.link_settings, self.shape_links, self.gso_bytes)]
        if self.host_settings and not defects:
            defects = list(self.host_defects())
        defects = defects or list(lossless_defects(self))
        if defects:
            raise InputFault("\n".join(defects))

    @property
    def is_lossless(self) -> bool:
        """Returns whether no packet is meant to be lost."""
        return not self.losses and not self.faulty and not self.drops

    @cached_property
    def losses(self) -> dict[str, float]:
        """Share of packets that are lost at random at each port, by the name of its interface; without ports that lose
        none.

        `loss` is for the ports of switches towards hosts, and a link's own for both of its ends.
        """
        found: dict[str, float] = {}
        for number, link in enumerate(self.shape_links):
            for end, others in ((link.a, 0.0), (link.b, self.loss if number < self.hosts else 0.0)):
                if share := 1 - (1 - link.loss) * (1 - others) if link.loss else others:
                    found[end.interface] = share
        return found

    @property
    def most_loss(self) -> float:
        """The largest of them; 0 where nothing is lost."""
        return max(self.losses.values(), default=0.0)

    @cached_property
    def drops(self) -> bool:
        """Returns whether any queue of a switch's port is finite, and so drops packets."""
        return any(link.buffer_bytes for link in self.links())

    @cached_property
    def marks(self) -> bool:
        """Returns whether any queue of a switch's port marks packets (ECN)."""
        return any(link.ecn_bytes for link in self.links())

    @property
    def has_switch_queues(self) -> bool:
        """Returns whether any queue of a switch's port drops or marks packets."""
        return self.drops or self.marks

    @property
    def switch_queue_bytes(self) -> tuple[int, int]:
        """Returns the size of each band's queue at a switch's port, and the length from which it marks (0: never), for
        links without settings of their own."""
        return self.buffer_bytes or NO_LIMIT_BYTES, self.ecn_bytes

    def queue_bytes_by_port(self) -> dict[str, tuple[int, int]]:
        """Returns the size of each band's queue and the length from which it marks (0: never), for each switch's port
        that drops or marks, by the name of its interface."""
        switches = set(self.switch_names())
        return {
            end.interface: (link.buffer_bytes or NO_LIMIT_BYTES, link.ecn_bytes)
            for link in self.links()
            for end in (link.a, link.b)
            if end.device in switches and (link.buffer_bytes or link.ecn_bytes)
        }

    def _port_defects(self) -> Iterator[str]:
        if not 1 <= self.classes < MAX_BANDS:
            yield f"fabric.classes = {self.classes}: must be 1 to {MAX_BANDS - 1} (one band is for control)"
        if not self.mtu_bytes + ETHERNET_HEADER_BYTES <= self.gso_bytes <= MAX_GSO_BYTES:
            yield (
                f"fabric.gso = {self.gso_bytes}: must be {self.mtu_bytes + ETHERNET_HEADER_BYTES} (one frame) "
                f"to {MAX_GSO_BYTES} (the largest IPv4 packet)"
            )
        yield from queue_defects(self.buffer_bytes, self.ecn_most_bytes or self.ecn_bytes, self.loss, self.gso_bytes)
        yield from self.routing.policy.defects(self, drops=bool(self.loss or self.buffer_bytes or self.ecn_bytes))
        if self.aggregators and self.controller:
            yield "fabric.controller: strategies that add up on switches need gradwire's controller"
        if self.aggregators and not self.topology.structure.can_aggregate:
            yield (
                f"fabric.topology = '{self.topology}': strategies that aggregate in the network know one or two tiers "
                "of switches; use 'single' or 'leaf-spine'"
            )

    def _address_defects(self) -> Iterator[str]:
        if not 1 <= self.hosts <= MAX_HOSTS:
            yield f"fabric.hosts = {self.hosts}: must be 1 to {MAX_HOSTS} (addresses of 10.0.0.0/16)"
        elif self.endpoints > MAX_HOSTS:
            yield (
                f"fabric.hosts = {self.hosts}: with an aggregator per switch there are more than {MAX_HOSTS} addresses"
            )
        if len(self.groups) > MAX_GROUPS:
            yield f"the plans need {len(self.groups)} multicast groups, and there are {MAX_GROUPS} addresses"
        for group in self.groups:
            if not group.members or group.source in group.members or max(group.members) >= self.hosts:
                yield f"{group}: members must be other hosts of the fabric's {self.hosts}"

    @property
    def bands(self) -> int:
        """Strict-priority bands of every port: one for control and one per traffic class."""
        return self.classes + 1

    def frame_bytes(self) -> int:
        """Returns the bytes that a full frame occupies on the line."""
        return self.mtu_bytes + ETHERNET_HEADER_BYTES + PREAMBLE_FCS_GAP_BYTES

    def goodput_share(self) -> float:
        """Payload bytes per byte on the line for full TCP segments: 1448/1538 at MTU 1500."""
        return self.mss_bytes() / self.frame_bytes()

    def multicast_goodput_share(self) -> float:
        """Payload bytes per byte on the line for full multicast datagrams: 1456/1538 at MTU 1500."""
        return (self.mtu_bytes - IP_UDP_HEADER_BYTES) / self.frame_bytes()

    def ack_share(self) -> float:
        """Share of a port that is taken by the ACKs for as much data in the other direction: one per burst, or per two
        frames."""
        frames = max(FRAMES_PER_ACK, self.gso_bytes // self.mtu_bytes)
        ack_bytes = ETHERNET_HEADER_BYTES + IP_TCP_HEADER_BYTES + PREAMBLE_FCS_GAP_BYTES
        return ack_bytes / (frames * self.frame_bytes())

    def shaped_rate_bps(self, rate_bps: float) -> float:
        """Rate to give to tc so that full frames leave at line rate `rate_bps`, where tc cannot count 24 bytes of each
        frame besides: HTB on kernels that add its `overhead` once per GSO packet, and sch_fq, which has none.
        """
        return rate_bps * (self.frame_bytes() - PREAMBLE_FCS_GAP_BYTES) / self.frame_bytes()

    def burst_bytes(self, rate_bps: float, *, exact_timers: bool) -> int:
        """HTB's burst: how much an idle port may once send above its rate.

        HTB lets a packet go whenever its tokens are not negative, so any burst admits the largest packet. What a
        larger burst buys is forgiveness for a timer that fires late; its price is that it hides as much of a pause. In
        virtual time (`exact_timers`) 2 us are enough: with one frame of 1,600 bytes, calibration gave 1.0006 at 10
        Gbit/s and 1.035 at 40 and 100; with 1 us, 1.000. On the wall clock, 64 KiB forgive 2.6 ms at 200 Mbit/s, which
        is more than a loaded machine's lateness. Slower links forgive 5 ms: of 10 Mbit/s, 64 KiB would be 52 ms, and
        the rate probe came out at 0.980.
        """
        if exact_timers and not math.isinf(rate_bps):
            return max(self.mtu_bytes + ETHERNET_HEADER_BYTES, math.ceil(rate_bps * EXACT_TIMER_BURST_S / 8))
        loose_bytes = LOOSE_TIMER_BURST_BYTES
        if not math.isinf(rate_bps):
            loose_bytes = min(loose_bytes, math.ceil(rate_bps * LOOSE_TIMER_BURST_S / 8))
        return max(loose_bytes, self.gso_bytes, self.mtu_bytes + ETHERNET_HEADER_BYTES)

    def grain_s(self, *, exact_timers: bool, rate_bps: float | None = None) -> float:
        """Returns how much earlier than at line rate a message may arrive through idle ports, in seconds: a port's
        burst, and the packet that overdraws it, leave at once.

        rate_bps: of the slowest port on its way; by default, hosts' ports.
        """
        port_bps = self.rate_bps if rate_bps is None else rate_bps
        return (self.burst_bytes(port_bps, exact_timers=exact_timers) + self.gso_bytes) * 8 / port_bps

    def links(self) -> list[Link]:
        """All links: of hosts, then between switches in the order of `trunk_links`, whose `a` is the lower one.

        On a leaf, ports 1 to hosts_per_leaf go to hosts. Links of aggregators come last; their rate is infinite.
        """
        return list(self._links)

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        own = [self._with_queues(link) for link in self.shape_links]
        extra = [
            self._with_queues(Link(Port(name, 0), Port(switch, self.aggregator_port(index)), math.inf))
            for index, (name, switch) in enumerate(zip(self.aggregator_names(), self.switch_names(), strict=False))
        ]
        return (*own, *extra)

    def _with_queues(self, link: Link) -> Link:
        """The link with the fabric's buffer and marks, where it has none itself."""
        if not (self.buffer_bytes or self.ecn_bytes):
            return link
        return replace(
            link,
            buffer_bytes=link.buffer_bytes or self.buffer_bytes,
            ecn_bytes=link.ecn_bytes or self.ecn_bytes,
        )

    def with_rates_times(self, factor: float) -> Fabric:
        """The fabric with the rate of every link, and of flows, multiplied."""
        settings = tuple(
            each if each.rate_bps is None else replace(each, rate_bps=each.rate_bps * factor)
            for each in self.link_settings
        )
        graph = self.graph and self.graph.with_rates_times(factor)
        return replace(
            self,
            rate_bps=self.rate_bps * factor,
            link_settings=settings,
            graph=graph,
            flow_rate_bps=self.flow_rate_bps * factor,
        )

    def ports(self) -> list[tuple[Port, float]]:
        """Every port with its line rate in bit/s."""
        return [(end, link.rate_bps) for link in self.links() for end in (link.a, link.b)]

    def ports_named(self, names: Sequence[str]) -> list[Port]:
        """The ports named by interface ("s1-eth2"), by device ("h1": all its ports) or by "all" (the ports of all
        hosts).

        Each port comes once, in the fabric's order. Raises InputFault for an unknown name.
        """
        named: set[Port] = set()
        for name in names:
            devices = self.host_names() if name == "all" else [name]
            matching = {port for port, _ in self.ports() if port.device in devices or port.interface == name}
            if not matching:
                switches = ", ".join(self.switch_names())
                raise InputFault(
                    f"run.capture: no host, switch or port is called {name!r}; hosts are h1 to h{self.hosts}, "
                    f"switches {switches}, and ports are like h1-eth0"
                )
            named |= matching
        return [port for port, _ in self.ports() if port in named]

    def rate_of(self, port: Port) -> float:
        """Line rate of a port in bit/s."""
        return dict(self.ports())[port]

    def to_json(self) -> str:
        """The fabric as JSON, from which `from_json` makes an equal one."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Fabric:
        """Inverse of `to_json`."""
        fields: Any = parse_json(text)  # as `asdict` wrote them
        parts: dict[str, object] = {
            "topology": Topology(fields["topology"]),
            "routing": Routing(fields["routing"]),
            "host_tcp": HostTcp(fields["host_tcp"]),
            "rdma": RdmaDevice(fields["rdma"]),
            "routes": tuple(Route(**{**row, "next": tuple(row["next"])}) for row in fields["routes"]),
            "ways": tuple(tuple(way) for way in fields["ways"]),
            "groups": tuple(MulticastGroup(group["source"], tuple(group["members"])) for group in fields["groups"]),
            "link_settings": tuple(LinkSetting(**setting) for setting in fields["link_settings"]),
            "lossless": Lossless.from_fields(fields["lossless"]),
            "host_settings": tuple(HostSetting.from_fields(each) for each in fields["host_settings"]),
        }
        if fields["graph"] is not None:
            parts["graph"] = NetworkGraph.from_fields(fields["graph"])
        return Fabric(**{**fields, **parts})


def dscp_of_band(band: int) -> int:
    """DSCP value that marks a band: 48 (CS6) for the control band, 3 less for each band below it."""
    if not 0 <= band < MAX_BANDS:
        raise ValueError(f"band {band} is not in 0..{MAX_BANDS - 1}")
    return 48 - 3 * band


def band_of_class(traffic_class: int) -> int:
    """Band of a traffic class, or the control band for CONTROL_CLASS (-1)."""
    return traffic_class + 1


def socket_priority(band: int) -> int:
    """Value of SO_PRIORITY that puts a socket's packets into `band` of its host's port."""
    return BANDS_MAJOR << 16 | band + 1
