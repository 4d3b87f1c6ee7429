"""The packets by which switches learn ways: what is in them, and between which hosts they go."""

from __future__ import annotations

import socket
from dataclasses import replace

from gradwire.inside.first_packets import checksum, flows_by_host, frame, time_for_room_s
from gradwire.network.fabric import CONTROL_BAND, Fabric, Routing, Topology, band_of_class, dscp_of_band
from gradwire.network.frame_sizes import ETHERNET_HEADER_BYTES
from gradwire.network.wire.headers import read_segment
from gradwire.topo.tc import IDENTIFICATION_AT
from gradwire.workloads.patterns import Transfer, compile_transfers

FABRIC = Fabric(8, 10e9, Topology.LEAF_SPINE, leaves=2, spines=4, classes=2, routing=Routing.SPRAY)
RST = 0x04


def test_a_packet_takes_its_way_to_its_host_and_ends_there() -> None:
    data = frame(FABRIC, 1, 6, 2, 0x1234)
    assert data[:6].hex(":") == FABRIC.host_mac(6)
    assert data[6:12].hex(":") == FABRIC.host_mac(1)
    at = ETHERNET_HEADER_BYTES + IDENTIFICATION_AT
    assert int.from_bytes(data[at : at + 2], "big") == 0x1234
    segment = read_segment(data)
    assert segment is not None
    assert (segment.dscp, segment.flags, segment.payload_bytes) == (dscp_of_band(2), RST, 0)
    assert segment.flow[:8] == socket.inet_aton(FABRIC.host_ip(1)) + socket.inet_aton(FABRIC.host_ip(6))


def test_checksums_are_right() -> None:
    ip = frame(FABRIC, 1, 6, 2, 0x1234)[ETHERNET_HEADER_BYTES:]
    assert checksum(ip[:20]) == 0
    pseudo = ip[12:20] + bytes([0, 6, 0, len(ip) - 20])
    assert checksum(pseudo + ip[20:]) == 0


def test_messages_and_their_acks_have_first_packets() -> None:
    plan = compile_transfers("two", 8, [Transfer(0, 4, 1000), Transfer(0, 4, 1000, traffic_class=1)])
    low, high = band_of_class(0), band_of_class(1)
    flows = flows_by_host([plan])
    assert {(4, CONTROL_BAND), (4, low), (4, high)} <= set(flows[0])
    assert set(flows[4]) == {(0, CONTROL_BAND), (0, low), (0, high)}
    assert {target for host in (1, 2, 3) for target, _ in flows[host]} == {0}  # they start together
    assert flows_by_host([plan, plan]) == flows_by_host([plan])
    assert replace(FABRIC, routing=Routing.ECMP).routing.policy.writes_ways is False


def test_switches_get_time_for_more_flows_than_they_have_room_for() -> None:
    assert time_for_room_s(FABRIC, 3_333) == 0.0  # in three switches each
    assert time_for_room_s(FABRIC, 3_334) == 1.0
    assert time_for_room_s(FABRIC, 12_288) == 14.0
