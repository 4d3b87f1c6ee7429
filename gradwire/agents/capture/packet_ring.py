"""Captures every packet of a network interface through memory shared with the kernel (packet_mmap, TPACKET_V3).

The kernel copies each packet once, with its time, and wakes the reader once per block instead of once per packet.
Memory is bounded: a packet for which there is no room is dropped and counted. On the virtual clock, time stands still
until the reader has caught up.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gradwire.faults import MachineFault

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 5, 6, 10
SO_ATTACH_FILTER = 26
TPACKET_V3 = 2
BPF_RETURN_NOTHING = struct.pack("HBBI", 0x06, 0, 0, 0)
PACKET_OUTGOING = 4
FRAME_BYTES = 1 << 11
"""Unused in version 3, which packs packets densely, but the kernel checks it."""
RETIRE_MS = 100
"""Time after which a block goes to the reader although it is not full."""
SETTLE_S = 3 * RETIRE_MS / 1000
"""Two periods of the kernel's timer, plus one in case it is late."""
_BLOCK = struct.Struct("<III")
_BLOCK_AT = 8
_PACKET = struct.Struct("<IIIIIIHH")
_KIND_AT = 58
"""Offset of the packet's direction, in the sockaddr_ll that follows the 48 bytes of the packet's header."""
OWNED_BY_KERNEL, OWNED_BY_USER = 0, 1


class Packet(NamedTuple):
    """A captured packet."""

    #: Nanoseconds since 1970.
    time_ns: int
    #: Valid only until the next packet is requested.
    data: memoryview
    #: Size of the packet, which is more than that of `data` if the packet was cut.
    size_bytes: int
    is_outgoing: bool


class PacketRing:
    """All packets of an interface from now on, in both directions. The interface is looked up in the caller's network
    namespace.

    blocks, block_bytes: of the memory; a block holds the largest packet. Raises MachineFault if there is no such
    interface or the kernel provides no memory.
    """

    def __init__(self, interface: str, blocks: int, block_bytes: int) -> None:
        self._blocks, self._block_bytes, self._next = blocks, block_bytes, 0
        request = struct.pack(
            "<7I", block_bytes, blocks, FRAME_BYTES, blocks * (block_bytes // FRAME_BYTES), RETIRE_MS, 0, 0
        )
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
            self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
            self._map = mmap.mmap(self._socket.fileno(), blocks * block_bytes)
            self._socket.bind((interface, ETH_P_ALL))
        except OSError as error:
            raise MachineFault(
                f"cannot capture packets of {interface}: {error.strerror} (it needs CAP_NET_RAW)"
            ) from error
        self._memory = memoryview(self._map)

    def fileno(self) -> int:
        """The descriptor that becomes readable when packets are there."""
        return self._socket.fileno()

    def packets(self) -> Iterator[Packet]:
        """The packets that are there now."""
        memory = self._memory
        while True:
            block = self._next * self._block_bytes
            status, count, first = _BLOCK.unpack_from(memory, block + _BLOCK_AT)
            if not status & OWNED_BY_USER:
                return
            at = block + first
            for _ in range(count):
                following, seconds, nanoseconds, captured, size_bytes, _, start, _ = _PACKET.unpack_from(memory, at)
                data = memory[at + start : at + start + captured]
                is_outgoing = memory[at + _KIND_AT] == PACKET_OUTGOING
                yield Packet(seconds * 1_000_000_000 + nanoseconds, data, size_bytes, is_outgoing)
                at += following
            struct.pack_into("<I", memory, block + _BLOCK_AT, OWNED_BY_KERNEL)
            self._next = (self._next + 1) % self._blocks

    def stop(self) -> None:
        """Stops capturing. Packets from before are there after SETTLE_S at the latest."""
        program = ctypes.create_string_buffer(BPF_RETURN_NOTHING)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))

    def counts(self) -> tuple[int, int]:
        """How many packets the kernel has seen, and how many of them it has dropped, since the last call."""
        seen, dropped, _ = struct.unpack("<3I", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))
        return seen, dropped

    def close(self) -> None:
        """Releases the memory."""
        self._memory.release()
        self._map.close()
        self._socket.close()
