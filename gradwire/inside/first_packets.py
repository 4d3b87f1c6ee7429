"""Sends a packet along each way that the messages of plans may take, before anything is measured.

The first packet of a flow goes through the switch's process, and a burst goes there frame by frame. Where connections
keep to one way (`fabric.routing = "balanced"`, `"ecmp"`), their handshakes are these packets. Where bursts take all
ways in turn, a connection begins new ways for as long as there are some: all-to-all of 64 KiB among 16 hosts took 1.1 to
2.1 ms in each of its first four iterations and 0.1 ms afterwards.

What is sent is TCP's RST for a connection that nobody has, which hosts ignore (RFC 9293, section 3.5.2).
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import CONTROL_BAND, Fabric, band_of_class, dscp_of_band, socket_priority
from gradwire.network.links import Port
from gradwire.network.routes import most_trunks_on_way
from gradwire.network.sprayed_ways import chunk_bits, turns_of, way_of_turn
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.network import Network
from gradwire.topo.switch_sockets import enlarge_switch_sockets, switch_process

SETTLING_S = 0.02
"""Time in which switches learn the last flows: they need less than 2 ms for 5,000."""
FIRST_ROOM, ADDED_ROOM, ADDED_AFTER_S = 10_000, 1_000, 0.5
"""Open vSwitch has room for so many flows, and for so many more after each look at those that it has (udpif_create and
udpif_revalidator of ofproto/ofproto-dpif-upcall.c); a burst without a flow goes through its process, or is lost. An
all-to-all of 32 hosts over 8 spines has 37,000 flows, and took a minute until there was room."""
HOST_PAUSE_S = 0.001
"""Time after each host's packets, in which Open vSwitch takes them: what waits for it has room for some 60,000."""
DISCARD_PORT = 9
"""TCP's port for what is thrown away (RFC 863), where no host listens."""
IPV4, TCP, RST = 0x0800, 6, 0x04
IP_HEADER = struct.Struct("!BBHHHBBH4s4s")
TCP_HEADER = struct.Struct("!HHIIBBHHH")
LONGEST_LIFE = 64
"""IP's time to live, as Linux sends it."""


def announce_ways(network: Network, plans: Sequence[Plan]) -> None:
    """Sends the first packet of each way between two hosts that exchange messages, and waits until switches know it.
    Networks whose connections keep to their ways need none."""
    fabric = network.fabric
    if not fabric.routing.policy.writes_ways:
        return
    if not network.userspace:
        enlarge_switch_sockets(switch_process())
    turn_of_way = {way_of_turn(fabric, turn): turn for turn in reversed(range(turns_of(fabric)))}
    by_host = flows_by_host(plans)
    room_s = time_for_room_s(fabric, sum(map(len, by_host.values())) * len(turn_of_way))
    for host, flows in by_host.items():
        with (
            network_namespace(namespace_of(network.host_pid(host))),
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
        ):
            sender.bind((network.interface(Port(fabric.endpoint_names()[host], 0)), 0))
            for (peer, band), turn in product(flows, turn_of_way.values()):
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, socket_priority(band))
                sender.send(frame(fabric, host, peer, band, turn << chunk_bits(fabric)))
        # The flows of the first host are what the room grows for.
        time.sleep(HOST_PAUSE_S + room_s)
        room_s = 0.0
    time.sleep(SETTLING_S)


def time_for_room_s(fabric: Fabric, ways: int) -> float:
    """How long switches need for room for a flow of each way of each pair of hosts: one in every switch that it passes."""
    missing = ways * (most_trunks_on_way(fabric) + 1) - FIRST_ROOM
    return (math.ceil(missing / ADDED_ROOM) + 1) * ADDED_AFTER_S if missing > 0 else 0.0


def flows_by_host(plans: Sequence[Plan]) -> dict[int, list[tuple[int, int]]]:
    """Receiving host and band of the flows that leave each host: messages with their classes, and ACKs, which stock
    hosts send with the class of what they acknowledge and others with control."""
    flows = {each for plan in plans for pair in _messages(plan) for each in pair}
    by_host: dict[int, list[tuple[int, int]]] = {}
    for source, target, band in sorted(flows):
        by_host.setdefault(source, []).append((target, band))
    return by_host


def _messages(plan: Plan) -> Iterator[list[tuple[int, int, int]]]:
    """Sender, receiver and band of each kind of message between two hosts, followed by those of its ACKs."""
    ops = plan.ops
    sends = np.flatnonzero(plan.is_remote() & (ops.group == 0))
    ends = plan.rank_host[ops.rank[sends]], plan.rank_host[ops.peer[sends]], ops.traffic_class[sends]
    for source, target, traffic_class in np.unique(np.stack(ends, axis=1), axis=0).tolist():
        band = band_of_class(traffic_class)
        yield [
            (source, target, band),
            (target, source, band),
            (target, source, CONTROL_BAND),
            (source, target, CONTROL_BAND),
        ]


def frame(fabric: Fabric, source: int, target: int, band: int, identification: int) -> bytes:
    """Returns an Ethernet frame from one host to another, with a band's DSCP and this IP identification, by
    which its port chooses the way (topo/tc.py)."""
    macs = (bytes.fromhex(mac.replace(":", "")) for mac in (fabric.host_mac(target), fabric.host_mac(source)))
    addresses = [socket.inet_aton(fabric.host_ip(host)) for host in (source, target)]
    tcp = TCP_HEADER.pack(DISCARD_PORT, DISCARD_PORT, 0, 0, TCP_HEADER.size // 4 << 4, RST, 0, 0, 0)
    pseudo = b"".join(addresses) + struct.pack("!BBH", 0, TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    size_bytes, service = IP_HEADER.size + len(tcp), dscp_of_band(band) << 2
    ip = IP_HEADER.pack(0x45, service, size_bytes, identification, 0, LONGEST_LIFE, TCP, 0, *addresses)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    ethernet = b"".join(macs) + struct.pack("!H", IPV4)
    return ethernet + ip + tcp


def checksum(data: bytes) -> int:
    """Returns the Internet checksum of an even number of bytes (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
