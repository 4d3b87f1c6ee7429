"""What a line allows: bytes of payload in full frames."""

from __future__ import annotations

FRAME_BYTES, PAYLOAD_BYTES = 1538, 1448
"""At an MTU of 1500: a frame on the line, with preamble, FCS and gap, and TCP's payload in it."""


def payload_bps(rate_bps: float) -> float:
    """The payload that a line of this rate carries."""
    return rate_bps * PAYLOAD_BYTES / FRAME_BYTES


def ring_s(hosts: int, size_bytes: float, rate_bps: float) -> float:
    """A ring's all-reduce: every host sends 2(n-1)/n of the bytes (Patarasuk and Yuan, JPDC 2009)."""
    return 2 * (hosts - 1) / hosts * size_bytes * 8 / payload_bps(rate_bps)
