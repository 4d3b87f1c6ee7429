"""The hash by which Open vSwitch's select groups choose a bucket, for packets of IPv4. Pure; only the standard library.

A group whose selection method is "hash" hashes the fields that it names, in the order below, and begins with its
parameter (pick_hash_fields_select_group, ofproto/ofproto-dpif-xlate.c). Each bucket's number is hashed with the
result, and the highest score wins. The functions are those of lib/hash.h as distributions build it: with MurmurHash3,
for what they build does not take SSE 4.2 for granted. tests/end_to_end/networks/test_hashed_routes.py compares this
module with a switch.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address

TCP, UDP = 6, 17
WORD = 2**32 - 1
SCORE = 2**16 - 1
"""The bits of a score that count."""


@dataclass(frozen=True)
class FlowPorts:
    """The ports and the protocol of a connection, which with the addresses of its ends are its five-tuple."""

    source: int
    target: int
    protocol: int = TCP

    def back(self) -> FlowPorts:
        """Returns the ports of packets in the other direction."""
        return FlowPorts(self.target, self.source, self.protocol)


def chosen_bucket(parameter: int, source_ip: str, target_ip: str, ports: FlowPorts, buckets: int) -> int:
    """Returns the number, from 0, of the group's bucket that takes the packets of a flow. parameter: the group's, of 64
    bits."""
    basis = _finished(_added(_added(0, parameter & WORD), parameter >> 32), 8)
    fields = (
        IPv4Address(source_ip).packed,
        IPv4Address(target_ip).packed,
        ports.protocol.to_bytes(1, "big"),
        ports.source.to_bytes(2, "big"),
        ports.target.to_bytes(2, "big"),
    )
    for each in fields:
        basis = _finished(_added(basis, int.from_bytes(each, "little")), len(each))
    scores = [_finished(_added(_added(bucket, 0), basis), 8) & SCORE for bucket in range(buckets)]
    return scores.index(max(scores))


def _added(state: int, word: int) -> int:
    """One step of MurmurHash3 (mhash_add)."""
    word = word * 0xCC9E2D51 & WORD
    word = _rotated(word, 15) * 0x1B873593 & WORD
    return _rotated(state ^ word, 13) * 5 + 0xE6546B64 & WORD


def _finished(state: int, size_bytes: int) -> int:
    """Its end (mhash_finish)."""
    state ^= size_bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & WORD
    return state ^ state >> 16


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & WORD
