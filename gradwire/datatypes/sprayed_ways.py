"""Ways of bursts that take all shortest ways in turn (`fabric.routing = "spray"`). Pure; imports only frozen data.

A host's port writes the number of a way into the source's MAC address of each burst (topo/tc.py), and switches go
by it on the way up (controller/flows.py). Nobody else looks at that address. The number comes from the burst's IP
identification, which Linux counts up by a connection's segments (`ip_select_ident_segs`): its bits from `chunk_bits` on
count chunks of at least a full burst, so that the chunks of each connection take the ways in turn.
"""

from __future__ import annotations

from gradwire.datatypes.fabric import ETHERNET_HEADER_BYTES, Fabric

IDENTIFICATION_BITS = 16
EVEN_TURNS = 64
"""Turns for each way, where the number of ways is not a power of 2: one more or less makes no difference of 2 %."""


def ways_of(fabric: Fabric) -> int:
    """How many shortest ways there are between two leaves: one over each spine."""
    return fabric.spines


def turns_of(fabric: Fabric) -> int:
    """How many values the part of the IP identification has that tells the way; value v stands for way v mod `ways_of`."""
    ways = ways_of(fabric)
    room = 1 << IDENTIFICATION_BITS - chunk_bits(fabric)
    exact = 1 << (ways - 1).bit_length()
    return exact if exact == ways else min(room, exact * EVEN_TURNS)


def chunk_bits(fabric: Fabric) -> int:
    """How many bits count the segments of a chunk, which is the shortest power of 2 that holds a burst."""
    return (max(1, fabric.gso_bytes // fabric.mss_bytes()) - 1).bit_length()


def chunk_bytes(fabric: Fabric) -> int:
    """Frames of a chunk: what of a connection goes one way before the next one has its turn."""
    return (fabric.mtu_bytes + ETHERNET_HEADER_BYTES) << chunk_bits(fabric)


def way_mac(way: int) -> str:
    """The source's MAC address of bursts that take a way; no host has it (`Fabric.host_mac`)."""
    return f"06:00:00:00:00:{way:02x}"
