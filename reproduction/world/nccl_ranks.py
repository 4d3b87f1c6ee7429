"""One call of an NCCL collective over sockets, over and over, on hosts without a GPU: everything that NCCL 2.7.8 does with
its sockets, and nothing of what it does on a GPU.

`nccl_ranks.py COLLECTIVE MIB CALLS NETEM PAUSE SOCKETS CHANNELS`: COLLECTIVE is p2p, all-reduce, broadcast or reduce, MIB
the size of the tensor, NETEM the words of a tc netem that this host's port gets first ("none" for none), PAUSE for how many
seconds nothing is sent before each call, SOCKETS the data connections of each channel to a neighbour, CHANNELS the rings.
The first rank reports the time of the slowest rank, call by call.

Each channel's kernel goes through its slices in order: it fills a slot of the sender's buffer, empties one of the
receiver's, or both at once. A proxy sends the slots one after the other: its size by one connection, then parts of 64 KiB
and more by the next ones in turn; the following slot waits until the kernel has taken the last byte. Files and lines are
named at the constants. Kernels and copies take no time.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
BAND = "1:1"
"""Where programs' packets wait in a host's port, above the shaper of the line."""
STEPS = 8
"""NCCL_STEPS, src/include/devcomm.h:25."""
STEP_BYTES = (1 << 22) // STEPS
"""DEFAULT_BUFFSIZE, src/init.cc:399, in slots."""
SMALLEST_PART_BYTES = 64 << 10
"""MIN_CHUNKSIZE, src/transport/net_socket.cc:121."""
SLICE_STEPS = {"all-reduce": 2, "broadcast": 1, "reduce": 1, "p2p": 1}
CHUNK_STEPS = {"all-reduce": 4, "broadcast": 1, "reduce": 1, "p2p": 1}
"""src/include/collectives.h:62 to 71."""
P2P_FACTOR = 4
"""SENDRECV_SLICEFACTOR, src/include/collectives.h:72: sends and receives fill a quarter of a slot."""
BUSY_S = 50e-6
"""How often a full connection is tried again. NCCL's threads try without a pause, which virtual time does not see."""
PORT, CONTROL_PORT = 29600, 29500
SIZE = struct.Struct("i")


@dataclass
class Part:
    """A part of a slot, on one connection."""

    connection: socket.socket
    left_bytes: int


@dataclass
class Neighbour:
    """One channel's connections to or from a neighbour, and its proxy (src/transport/net.cc, 2.7.8)."""

    sends: bool
    control: socket.socket
    data: list[socket.socket]
    slots: int
    #: Slots that the kernel has filled (sender) or emptied (receiver), and that the proxy has done.
    by_kernel: int = 0
    by_proxy: int = 0
    sizes: deque[int] = field(default_factory=deque)
    parts: list[Part] = field(default_factory=list)
    next_connection: int = 0
    #: Slots until the end of the call.
    end: int = 0
    is_under_way: bool = False

    @property
    def kernel_may_go_on(self) -> bool:
        """Whether there is an empty slot to fill, or a full one to empty."""
        return self.by_kernel - self.by_proxy < self.slots if self.sends else self.by_proxy > self.by_kernel

    @property
    def proxy_may_begin(self) -> bool:
        """Whether there is a slot to send, or one to receive into."""
        return self.by_proxy < (self.by_kernel if self.sends else min(self.by_kernel + self.slots, self.end))

    def progress(self, memory: memoryview) -> bool:
        """Does what the proxy and its thread can do at once; whether that was anything."""
        if not self.is_under_way and not self._begin():
            return False
        has_changed = False
        for part in self.parts:
            while part.left_bytes:
                try:
                    if self.sends:
                        count = part.connection.send(memory[: part.left_bytes])
                    else:
                        count = part.connection.recv_into(memory, part.left_bytes)
                        if not count:
                            sys.exit("a neighbour has ended")
                except BlockingIOError:
                    break
                part.left_bytes -= count
                has_changed = True
        if not any(part.left_bytes for part in self.parts):
            self.by_proxy += 1
            self.is_under_way = False
            return True
        return has_changed

    def _begin(self) -> bool:
        if not self.proxy_may_begin:
            return False
        try:
            if self.sends:
                size_bytes = self.sizes.popleft()
                self.control.send(SIZE.pack(size_bytes))
            else:
                message = self.control.recv(SIZE.size)
                if len(message) < SIZE.size:
                    sys.exit("a neighbour has ended")
                (size_bytes,) = SIZE.unpack(message)
        except BlockingIOError:
            return False
        part_bytes = max(SMALLEST_PART_BYTES, -(-size_bytes // len(self.data)))
        self.parts = []
        for begin in range(0, size_bytes, part_bytes):
            connection = self.data[self.next_connection]
            self.next_connection = (self.next_connection + 1) % len(self.data)
            self.parts.append(Part(connection, min(part_bytes, size_bytes - begin)))
        self.is_under_way = True
        return True

    def waits_for(self) -> list[socket.socket]:
        """Connections whose bytes a receiver waits for."""
        if self.sends or not (self.is_under_way or self.proxy_may_begin):
            return []
        return [part.connection for part in self.parts if part.left_bytes] if self.is_under_way else [self.control]

    @property
    def is_blocked(self) -> bool:
        """Whether a sender's connections are full."""
        return self.sends and self.is_under_way


@dataclass(frozen=True)
class Slice:
    """What a kernel does with one slice."""

    receives: bool
    sends: bool
    size_bytes: int


def slices_of(collective: str, rank: int, ranks: int, channel_bytes: int) -> Iterator[Slice]:
    """A channel's slices at a rank, in the order of its kernel (src/collectives/device/*.h)."""
    if collective == "p2p":
        size_bytes = STEP_BYTES // P2P_FACTOR
        for _ in range(channel_bytes // size_bytes):
            yield Slice(rank == 1, rank == 0, size_bytes)
        return
    slice_bytes = STEP_BYTES * SLICE_STEPS[collective]
    if collective == "all-reduce":
        chunk_bytes = min(STEP_BYTES * CHUNK_STEPS[collective], channel_bytes // ranks)
        per_chunk = STEP_BYTES * CHUNK_STEPS[collective] // slice_bytes
        for _ in range(channel_bytes // (ranks * chunk_bytes)):
            for step in range(2 * ranks - 1):
                for _ in range(per_chunk):
                    yield Slice(step > 0, step < 2 * ranks - 2, chunk_bytes // per_chunk)
        return
    # A chain along the ring: from the root, rank 0, to its predecessor, or from its successor to it.
    place = rank if collective == "broadcast" else (rank - 1) % ranks
    for _ in range(channel_bytes // slice_bytes):
        yield Slice(place > 0, place < ranks - 1, slice_bytes)


@dataclass
class Channel:
    """A ring's kernel at this rank, between its neighbours."""

    before: Neighbour
    after: Neighbour
    memory: memoryview

    def begin(self, slices: Iterator[Slice], slots: int) -> None:
        """Has a call's slices before it."""
        self.slices = deque(slices)
        self.before.slots = self.after.slots = slots
        self.before.end = self.before.by_kernel + sum(each.receives for each in self.slices)

    def progress(self) -> bool:
        """Does what can be done at once; whether that was anything."""
        has_changed = False
        while self.slices:
            now = self.slices[0]
            if (now.receives and not self.before.kernel_may_go_on) or (now.sends and not self.after.kernel_may_go_on):
                break
            self.slices.popleft()
            self.before.by_kernel += now.receives
            if now.sends:
                self.after.sizes.append(now.size_bytes)
                self.after.by_kernel += 1
            has_changed = True
        received = self.before.progress(self.memory)
        return self.after.progress(self.memory) or received or has_changed


def call(channels: list[Channel]) -> float:
    """Carries out a call; the instant at which this rank's kernels were done, by the monotonic clock, in s."""
    ended_s = 0.0
    while True:
        # Of all channels, before any has another turn.
        while sum(channel.progress() for channel in channels):
            pass
        if not ended_s and not any(channel.slices for channel in channels):
            ended_s = time.monotonic()
        if ended_s and not any(channel.after.is_under_way or channel.after.sizes for channel in channels):
            return ended_s
        waiting = [each for channel in channels for each in channel.before.waits_for()]
        is_blocked = any(channel.after.is_blocked for channel in channels)
        select.select(waiting, [], [], BUSY_S if is_blocked else None)


def connected(rank: int, hosts: list[str], sockets: int, channels: int) -> list[Channel]:
    """Rings of connections: for each channel one that carries sizes, and those of data."""
    listener = socket.create_server(("", PORT), backlog=1024)
    after: dict[tuple[int, int], socket.socket] = {}
    for channel in range(channels):
        for number in range(sockets + 1):
            connection = _reach(hosts[(rank + 1) % len(hosts)], PORT)
            connection.sendall(struct.pack("ii", channel, number))
            after[channel, number] = connection
    before: dict[tuple[int, int], socket.socket] = {}
    while len(before) < len(after):
        connection, _ = listener.accept()
        channel, number = struct.unpack("ii", connection.recv(8, socket.MSG_WAITALL))
        before[channel, number] = connection
    for connection in [*before.values(), *after.values()]:
        connection.setblocking(False)
    memory = memoryview(bytearray(STEP_BYTES * STEPS))

    def neighbour(sends: bool, found: dict[tuple[int, int], socket.socket], channel: int) -> Neighbour:
        data = [found[channel, number] for number in range(sockets)]
        return Neighbour(sends, found[channel, sockets], data, STEPS)

    return [
        Channel(neighbour(False, before, number), neighbour(True, after, number), memory) for number in range(channels)
    ]


def _reach(host: str, port: int) -> socket.socket:
    while True:
        try:
            connection = socket.create_connection((host, port))
        except ConnectionRefusedError:
            time.sleep(0.01)
            continue
        # src/include/socket.h:376
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


class Control:
    """Values of all ranks at the first one, and one of its values at all."""

    def __init__(self, rank: int, ranks: int, first: str) -> None:
        self.is_first = rank == 0
        if self.is_first:
            listener = socket.create_server(("", CONTROL_PORT), backlog=ranks)
            self.others = [listener.accept()[0] for _ in range(ranks - 1)]
        else:
            self.others = [_reach(first, CONTROL_PORT)]

    def largest(self, value: float) -> float:
        """The largest value of all ranks, at the first one."""
        if self.is_first:
            return max(
                [value, *(float(struct.unpack("d", each.recv(8, socket.MSG_WAITALL))[0]) for each in self.others)]
            )
        self.others[0].sendall(struct.pack("d", value))
        return value

    def told(self, value: float) -> float:
        """The first rank's value, at all."""
        if self.is_first:
            for each in self.others:
                each.sendall(struct.pack("d", value))
            return value
        return float(struct.unpack("d", self.others[0].recv(8, socket.MSG_WAITALL))[0])


def main() -> None:
    """Calls and reports."""
    collective, mebibytes, calls, netem = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    pause_s, sockets, channels = float(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7])
    rank, hosts = int(os.environ["RANK"]), os.environ["GRADWIRE_ADDRESSES"].split()
    if netem != "none":
        interface = f"{socket.gethostname()}-eth0"
        subprocess.run(
            ["tc", "qdisc", "replace", "dev", interface, "parent", BAND, "netem", *netem.split()], check=True
        )
    control = Control(rank, len(hosts), hosts[0])
    rings = connected(rank, hosts, sockets, channels)
    with Path(os.environ["GRADWIRE_FIGURES"]).open("a") as figures:
        for number in range(calls):
            begin_s = control.told(control.largest(time.monotonic()) + pause_s)
            for ring in rings:
                ring.begin(
                    slices_of(collective, rank, len(hosts), mebibytes * MIB // channels),
                    STEPS // SLICE_STEPS[collective],
                )
            time.sleep(max(0.0, begin_s - time.monotonic()))
            slowest_s = control.largest(call(rings) - begin_s)
            if rank == 0:
                print(json.dumps({"call": number, "time_s": slowest_s}), file=figures, flush=True)


if __name__ == "__main__":
    main()
