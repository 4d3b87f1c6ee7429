"""Takes in every packet of a network interface through memory shared with the kernel (packet_mmap, TPACKET_V3).

The kernel copies a packet once, with its time, and wakes the reader once a block and not once a packet. Memory is bounded: a
packet that finds no room is dropped and counted. In the virtual clock time stands still until the reader has caught up.
"""

from __future__ import annotations

import ctypes
import mmap
import select
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
BLOCK_BYTES = 1 << 20
"""16 bursts of 64 KiB."""
FRAME_BYTES = 1 << 11
"""Of no meaning in version 3, which packs packets densely, but the kernel checks it."""
RETIRE_MS = 100
"""After which a block that is not full goes to the reader."""
SETTLE_S = 3 * RETIRE_MS / 1000
"""Two periods of the kernel's timer, and one for its lateness."""
_BLOCK = struct.Struct("<III")
_BLOCK_AT = 8
_PACKET = struct.Struct("<IIIIIIHH")
_KIND_AT = 58
"""Where sockaddr_ll, which follows the packet's 48 bytes of header, tells the packet's direction."""
OWNED_BY_KERNEL, OWNED_BY_USER = 0, 1


class Packet(NamedTuple):
    """time_ns: since 1970. data: valid only until the next packet is asked for. size_bytes: of the packet, if `data` was cut."""

    time_ns: int
    data: memoryview
    size_bytes: int
    is_outgoing: bool


class PacketRing:
    """The packets of an interface of the network namespace that the caller is in, in both directions, from now on.

    Raises MachineFault if the interface is not there or the kernel gives no memory.
    """

    def __init__(self, interface: str, blocks: int) -> None:
        self._blocks, self._next = blocks, 0
        request = struct.pack(
            "<7I", BLOCK_BYTES, blocks, FRAME_BYTES, blocks * (BLOCK_BYTES // FRAME_BYTES), RETIRE_MS, 0, 0
        )
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
            self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
            self._map = mmap.mmap(self._socket.fileno(), blocks * BLOCK_BYTES)
            self._socket.bind((interface, ETH_P_ALL))
        except OSError as error:
            raise MachineFault(
                f"cannot capture packets of {interface}: {error.strerror} (it needs CAP_NET_RAW)"
            ) from error
        self._memory = memoryview(self._map)

    def fileno(self) -> int:
        """To wait at for packets."""
        return self._socket.fileno()

    def packets(self) -> Iterator[Packet]:
        """What is there now."""
        memory = self._memory
        while True:
            block = self._next * BLOCK_BYTES
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
        """Takes in no more; what came before is there after SETTLE_S at the latest."""
        program = ctypes.create_string_buffer(BPF_RETURN_NOTHING)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))

    def counts(self) -> tuple[int, int]:
        """Packets that the kernel saw, and those of them that it dropped, since the last call."""
        seen, dropped, _ = struct.unpack("<3I", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))
        return seen, dropped

    def close(self) -> None:
        """Gives the memory back."""
        self._memory.release()
        self._map.close()
        self._socket.close()


def ready(rings: list[PacketRing], other: int) -> tuple[list[PacketRing], bool]:
    """Waits until rings have packets or the descriptor `other` has something to read: which rings, and whether the other."""
    descriptors: list[PacketRing | int] = [*rings, other]
    found, _, _ = select.select(descriptors, [], [])
    return [ring for ring in rings if ring in found], other in found
