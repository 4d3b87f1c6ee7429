"""Requests to the kernel that give a host its addresses, its routes and its neighbours. Pure."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.netlink_messages import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NetlinkRequest, attribute, request
from gradwire.network.fabric import Fabric
from gradwire.network.ipv6 import LEAST_MTU_BYTES, PREFIX, host_ip6
from gradwire.network.ipv6 import PREFIX_BITS as PREFIX6_BITS
from gradwire.network.links import Port

RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWNEIGH = 16, 20, 24, 28
IFF_UP = 1
LOOPBACK_INDEX = 1
"""LOOPBACK_IFINDEX: of the loopback interface in every network namespace."""
IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST, IFA_FLAGS = 1, 2, 4, 8
IFA_F_NODAD, IFA_F_NOPREFIXROUTE = 0x02, 0x200
"""Nobody else has the address, so nobody is asked; and its route is made here, with what it says of TCP."""
RTA_DST, RTA_OIF, RTA_PREFSRC, RTA_METRICS = 1, 4, 7, 8
RTAX_LOCK, RTAX_INITCWND, RTAX_RTO_MIN = 1, 11, 13
RT_TABLE_MAIN, RTPROT_KERNEL, RT_SCOPE_LINK, RTN_UNICAST = 254, 2, 253, 1
NDA_DST, NDA_LLADDR = 1, 2
NUD_PERMANENT = 0x80
LINK = struct.Struct("=BxHiII")
ADDRESS = struct.Struct("=BBBBi")
ROUTE = struct.Struct("=BBBBBBBBI")
NEIGHBOUR = struct.Struct("=BxxxiHBB")
PREFIX_BITS, BROADCAST = 16, "10.0.255.255"
TO_ALL_AND_GROUPS = (("255.255.255.255", 32), ("224.0.0.0", 4))
"""Destinations of packets to all hosts of the network and to groups of them, which no route leads to without one to all
other networks."""
STARVATION_MS = 20_000
"""Time for which a class may be held back before TCP retransmits, in milliseconds."""


def neighbour_requests(fabric: Fabric, index: int) -> list[NetlinkRequest]:
    """Requests that tell a host the MAC address of each endpoint of the fabric, by endpoint. index: of the host's
    interface.

    Hosts share these, so they name no interface.
    """
    flags = NLM_F_CREATE | NLM_F_EXCL
    head = NEIGHBOUR.pack(socket.AF_INET, index, NUD_PERMANENT, 0, 0)
    told = []
    for other in range(fabric.endpoints):
        ip, mac = fabric.host_ip(other), fabric.host_mac(other)
        body = head + attribute(NDA_DST, socket.inet_aton(ip))
        hardware = attribute(NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))
        told.append(request(f"ip neigh add {ip} lladdr {mac} nud permanent", RTM_NEWNEIGH, flags, body + hardware))
    return told


def has_ipv6(fabric: Fabric) -> bool:
    """Returns whether hosts get IPv6 addresses: the fabric asks for them, and its packets are large enough."""
    return fabric.ipv6 and fabric.mtu_bytes >= LEAST_MTU_BYTES


def neighbour6_requests(fabric: Fabric, index: int) -> list[NetlinkRequest]:
    """Requests that tell a host the MAC address of each endpoint's IPv6 address; empty if hosts have no IPv6."""
    if not has_ipv6(fabric):
        return []
    head = NEIGHBOUR.pack(socket.AF_INET6, index, NUD_PERMANENT, 0, 0)
    found = []
    for other in range(fabric.endpoints):
        ip, mac = host_ip6(other), fabric.host_mac(other)
        body = head + attribute(NDA_DST, socket.inet_pton(socket.AF_INET6, ip))
        body += attribute(NDA_LLADDR, bytes.fromhex(mac.replace(":", "")))
        words = f"ip -6 neigh add {ip} lladdr {mac} nud permanent"
        found.append(request(words, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL, body))
    return found


def host6_requests(
    host: int, fabric: Fabric, index: int, neighbours: Sequence[NetlinkRequest], first_window: int = 0
) -> list[NetlinkRequest]:
    """Requests that add the IPv6 address to a host that is configured for IPv4; empty if hosts have no IPv6. Parameters
    are those of `host_requests`."""
    if not has_ipv6(fabric):
        return []
    ip = socket.inet_pton(socket.AF_INET6, host_ip6(host))
    flags = IFA_F_NODAD | IFA_F_NOPREFIXROUTE
    address = ADDRESS.pack(socket.AF_INET6, PREFIX6_BITS, 0, 0, index)
    address += attribute(IFA_LOCAL, ip) + attribute(IFA_ADDRESS, ip) + attribute(IFA_FLAGS, struct.pack("=I", flags))
    name = Port(fabric.endpoint_names()[host], 0).interface
    metrics, words = _metrics(fabric, first_window)
    # Routes of IPv6 have no scope.
    route = ROUTE.pack(socket.AF_INET6, PREFIX6_BITS, 0, 0, RT_TABLE_MAIN, RTPROT_KERNEL, 0, RTN_UNICAST, 0)
    route += attribute(RTA_DST, socket.inet_pton(socket.AF_INET6, PREFIX))
    route += attribute(RTA_OIF, struct.pack("=i", index))
    route += attribute(RTA_METRICS, metrics) if metrics else b""
    return [
        request(
            f"ip -6 addr add {host_ip6(host)}/{PREFIX6_BITS} dev {name} nodad noprefixroute",
            RTM_NEWADDR,
            NLM_F_CREATE | NLM_F_EXCL,
            address,
        ),
        request(
            f"ip -6 route add {PREFIX}/{PREFIX6_BITS} dev {name}{words}",
            RTM_NEWROUTE,
            NLM_F_CREATE | NLM_F_EXCL,
            route,
        ),
        *neighbours[:host],
        *neighbours[host + 1 :],
    ]


def host_requests(
    host: int, fabric: Fabric, index: int, neighbours: Sequence[NetlinkRequest], first_window: int = 0
) -> list[NetlinkRequest]:
    """Requests that configure a host for IPv4, to be sent from its network namespace.

    index: of its interface. neighbours: those of all endpoints (`neighbour_requests`) for an interface of that index.
    first_window: of TCP connections, in segments; 0 for the kernel's own.
    """
    ip = socket.inet_aton(fabric.host_ip(host))
    address = (
        ADDRESS.pack(socket.AF_INET, PREFIX_BITS, 0, 0, index) + attribute(IFA_LOCAL, ip) + attribute(IFA_ADDRESS, ip)
    )
    name = Port(fabric.endpoint_names()[host], 0).interface
    words = f"ip addr add {fabric.host_ip(host)}/{PREFIX_BITS} dev {name}"
    if fabric.ipv6:
        address += attribute(IFA_BROADCAST, socket.inet_aton(BROADCAST))
        words += f" broadcast {BROADCAST}"
    return [
        raised("lo", LOOPBACK_INDEX),
        request(words, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, address),
        raised(name, index),
        *_route(host, fabric, index, first_window),
        *(_routes_to_all(index, name) if fabric.ipv6 else []),
        *neighbours[:host],
        *neighbours[host + 1 :],
    ]


@dataclass(frozen=True)
class NeighbourRequests:
    """The requests of all endpoints' MAC addresses, for hosts whose interface has the same index."""

    ipv4: Sequence[NetlinkRequest]
    ipv6: Sequence[NetlinkRequest]

    @staticmethod
    def of(fabric: Fabric, index: int) -> NeighbourRequests:
        """Neighbours of a fabric's hosts. index: of the hosts' interface."""
        return NeighbourRequests(neighbour_requests(fabric, index), neighbour6_requests(fabric, index))


def configuring(
    host: int, fabric: Fabric, index: int, neighbours: NeighbourRequests, first_window: int = 0
) -> list[NetlinkRequest]:
    """Requests that configure a host for IPv4, and for IPv6 where hosts have it. Parameters are those of
    `host_requests`."""
    return [
        *host_requests(host, fabric, index, neighbours.ipv4, first_window),
        *host6_requests(host, fabric, index, neighbours.ipv6, first_window),
    ]


def raised(name: str, index: int) -> NetlinkRequest:
    """Request that brings an interface up."""
    return request(f"ip link set {name} up", RTM_NEWLINK, 0, LINK.pack(socket.AF_UNSPEC, 0, index, IFF_UP, IFF_UP))


def only_waits(fabric: Fabric) -> bool:
    """Returns whether hosts should wait for late packets rather than retransmit: nothing is lost, and no packet
    overtakes another.

    Flowlets may be overtaken, and TCP retransmits what it then takes for lost. Only its timers can repair the end of
    such a loss: with a shortest timeout of 20 s, one iteration in ten took 20.4 s instead of 0.06 s.
    """
    return fabric.is_lossless and not fabric.routing.policy.chooses_for_flowlets


def _route(host: int, fabric: Fabric, index: int, first_window: int) -> list[NetlinkRequest]:
    """The route to all hosts, where it has to say something of TCP.

    On a lossless fabric nothing is lost however long it waits, so TCP must not retransmit what a higher class holds
    back. With Linux's 0.2 s, it would take a starved class for lost. A fabric with losses keeps TCP's own timers, and
    so do stock hosts, and those that send flowlets.
    """
    metrics, words = _metrics(fabric, first_window)
    if not metrics:
        return []
    body = ROUTE.pack(socket.AF_INET, PREFIX_BITS, 0, 0, RT_TABLE_MAIN, RTPROT_KERNEL, RT_SCOPE_LINK, RTN_UNICAST, 0)
    body += attribute(RTA_DST, socket.inet_aton("10.0.0.0")) + attribute(RTA_OIF, struct.pack("=i", index))
    body += attribute(RTA_PREFSRC, socket.inet_aton(fabric.host_ip(host)))
    body += attribute(RTA_METRICS, metrics)
    words = f"ip route replace 10.0.0.0/{PREFIX_BITS} src {fabric.host_ip(host)}{words}"
    return [request(words, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body)]


def _routes_to_all(index: int, name: str) -> list[NetlinkRequest]:
    """The routes by which programs reach all hosts at once, and groups."""
    flags = NLM_F_CREATE | NLM_F_EXCL
    out = attribute(RTA_OIF, struct.pack("=i", index))
    return [
        request(
            f"ip route add {destination}/{bits} dev {name}",
            RTM_NEWROUTE,
            flags,
            ROUTE.pack(socket.AF_INET, bits, 0, 0, RT_TABLE_MAIN, RTPROT_KERNEL, RT_SCOPE_LINK, RTN_UNICAST, 0)
            + attribute(RTA_DST, socket.inet_aton(destination))
            + out,
        )
        for destination, bits in TO_ALL_AND_GROUPS
    ]


def _metrics(fabric: Fabric, first_window: int) -> tuple[bytes, str]:
    """TCP metrics of a host's route, as attributes and in the words of `ip`; both empty if there are none."""
    metrics, words = b"", ""
    if only_waits(fabric) and not fabric.host_tcp.is_stock:
        # TCP heeds a route's shortest timeout only where it is locked (tcp_rto_min()): a bit of RTAX_LOCK for each
        # locked metric.
        metrics += attribute(RTAX_LOCK, struct.pack("=I", 1 << RTAX_RTO_MIN))
        metrics += attribute(RTAX_RTO_MIN, struct.pack("=I", STARVATION_MS))
        words += f" rto_min {STARVATION_MS // 1000}s"
    if first_window:
        metrics += attribute(RTAX_INITCWND, struct.pack("=I", first_window))
        words += f" initcwnd {first_window}"
    return metrics, words
