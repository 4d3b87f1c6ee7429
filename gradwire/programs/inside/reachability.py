"""Which hosts reach which: an ICMP echo request from each to each other one, as Mininet's `pingall`, without a process for each."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Mapping

from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.network import Network

ECHO_REQUEST, ECHO_REPLY = 8, 0
ECHO = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence number (RFC 792)."""
WAIT_S = 1.0
IP_HEADER_BYTES = 20


def reached(network: Network, source: int) -> set[int]:
    """The other hosts that answer host `source` within a virtual second."""
    fabric = network.fabric
    others = {fabric.host_ip(host): host for host in range(fabric.hosts) if host != source}
    with network_namespace(namespace_of(network.host_pid(source))):
        icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with icmp:
        for address, host in others.items():
            icmp.sendto(echo_request(source, host), (address, 0))
        return _answers(icmp, others)


def _answers(icmp: socket.socket, others: Mapping[str, int]) -> set[int]:
    answered: set[int] = set()
    end_s = time.monotonic() + WAIT_S
    while len(answered) < len(others) and (left_s := end_s - time.monotonic()) > 0:
        if select.select([icmp], [], [], left_s)[0]:
            packet, (address, _) = icmp.recvfrom(2048)
            if packet[IP_HEADER_BYTES] == ECHO_REPLY and address in others:
                answered.add(others[address])
    return answered


def echo_request(identifier: int, sequence: int) -> bytes:
    """The ICMP message."""
    unsummed = ECHO.pack(ECHO_REQUEST, 0, 0, identifier, sequence)
    return ECHO.pack(ECHO_REQUEST, 0, _checksum(unsummed), identifier, sequence)


def _checksum(data: bytes) -> int:
    """The Internet checksum of an even number of bytes (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
