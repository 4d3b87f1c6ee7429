"""Sizes of RoCEv2 messages on a line, and the least time that they can take, by their headers alone. Pure.

Sizes are those of the InfiniBand Architecture Specification, volume 1, release 1.4: sections 9.2 (base transport header),
9.3 (extended headers), 7.8 (invariant CRC), and annex A17 (RoCEv2).
"""

from __future__ import annotations

from gradwire.network.fabric import ETHERNET_HEADER_BYTES, PREAMBLE_FCS_GAP_BYTES

IP_UDP_BYTES = 28
BASE_HEADER_BYTES, INVARIANT_CRC_BYTES = 12, 4
ADDRESS_HEADER_BYTES = 16
"""RETH: in the first packet of an RDMA write, and in the request of a read."""
PATH_MTUS = (256, 512, 1024, 2048, 4096)
"""Payloads that a full packet can have."""
LARGEST_HEADERS_BYTES = 80
"""Bytes of an interface's MTU that rxe reserves for headers (RXE_MAX_HDR_LENGTH)."""


def path_mtu_bytes(mtu_bytes: int) -> int:
    """Payload of rxe's full packets at an interface with this MTU: 1,024 bytes at 1500, and 4,096 from 4176 on."""
    return max(size for size in PATH_MTUS if size <= max(PATH_MTUS[0], mtu_bytes - LARGEST_HEADERS_BYTES))


def packet_line_bytes(payload_bytes: int, extended_bytes: int = 0) -> int:
    """Returns the bytes that a packet occupies on the line: 82 more than its payload, which is padded to four bytes,
    and its extended headers."""
    padded = payload_bytes + -payload_bytes % 4
    headers = ETHERNET_HEADER_BYTES + IP_UDP_BYTES + BASE_HEADER_BYTES + extended_bytes
    return padded + headers + INVARIANT_CRC_BYTES + PREAMBLE_FCS_GAP_BYTES


def message_line_bytes(size_bytes: int, mtu_bytes: int, *, is_write: bool) -> int:
    """Returns the bytes that a message of an RDMA write, or of a send, occupies on the line at an interface's MTU."""
    full = path_mtu_bytes(mtu_bytes)
    first = ADDRESS_HEADER_BYTES if is_write else 0
    packets, rest = divmod(size_bytes, full)
    last = packet_line_bytes(rest) if rest or not packets else 0
    return packets * packet_line_bytes(full) + last + first


def payload_share(size_bytes: int, mtu_bytes: int, *, is_write: bool = True) -> float:
    """Payload per byte on the line of messages one after the other: 1024/1106 at MTU 1500 for long ones."""
    return size_bytes / message_line_bytes(size_bytes, mtu_bytes, is_write=is_write)


def least_latency_s(
    size_bytes: int, mtu_bytes: int, rates_bps: list[float], *, is_write: bool, delay_s: float = 0.0
) -> float:
    """The least time from the first byte of a message at its sender to the last at its receiver.

    rates_bps: of the links on the way, between which switches store each packet and forward it. delay_s: how long a
    packet is under way besides, on all of them together.
    """
    whole = message_line_bytes(size_bytes, mtu_bytes, is_write=is_write)
    last = min(size_bytes, path_mtu_bytes(mtu_bytes))
    if size_bytes > last:
        last = size_bytes % last or last
    slowest = min(rates_bps)
    alone = sum(1 / rate for rate in rates_bps) - 1 / slowest
    return 8 * (whole / slowest + packet_line_bytes(last) * alone) + delay_s
