"""NCCL's sends and receives in one group, as nccl-tests has them: all-to-all, send/recv, gather, scatter and hypercube.

All messages of a group are under way at once. So a group takes as long as what carries most of its bytes: the links of a
GPU, its slot of PCI Express, or a NIC. To a GPU of another machine, a message leaves by the NIC of its receiver's
namesake, the GPU of the same number in the sender's machine, to which NVLink brings it (PXN). Without NVLink, or by
sockets, it leaves by the sender's own NIC.

Source: `scheduleP2pTasksToPlan` and `addP2pToPlan`, src/enqueue.cc, `ncclTopoGetNchannels` and
`ncclTopoComputeP2pChannels`, src/graph/paths.cc, `ncclTopoGetNetDev`, src/graph/search.cc, and `computeBuffSizes`,
src/init.cc, at the tags in `tables.TAGS`; numbers of channels before 2.22 as since. The tests: src/alltoall.cu and others
of https://github.com/NVIDIA/nccl-tests. Since 2.28, `ncclAlltoAll`, `ncclGather` and `ncclScatter` make the same groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from gradwire.faults import InputFault
from gradwire.workloads.engines.nccl.chooser import LL, RING, SIMPLE, Communicator
from gradwire.workloads.engines.nccl.duration import (
    BASE,
    BURST_BYTES,
    CALL_S,
    COPIES,
    HOPS,
    NEWEST,
    SOCKETS_S,
    WIRE,
    MachineNetwork,
)
from gradwire.workloads.engines.nccl.pieces import STEPS
from gradwire.workloads.engines.nccl.tables import HopKind, Protocol

BATCH = 8
"""`NCCL_MAX_DEV_WORK_P2P_PER_BATCH`, src/include/device.h: peers that a channel serves at a time."""
NET_CHUNK_BYTES, NVLINK_CHUNK_BYTES = 128 * 1024, 512 * 1024
"""`NCCL_P2P_NET_CHUNKSIZE` (and `NCCL_P2P_PCI_CHUNKSIZE`), `NCCL_P2P_NVL_CHUNKSIZE`, src/init.cc."""
LL_BYTES = 16384
"""`NCCL_P2P_LL_THRESHOLD`: what a channel sends by LL at most. Between machines there are no buffers for LL."""
NET_CHANNEL_GB_PER_S = 14
"""`NCCL_P2P_PER_CHANNEL_NET_BW`, by which NCCL chooses channels since 2.29."""
CHANNEL_BYTES_PER_S = 18.32e9
"""Rate of a channel to another machine. Fitted: send/recv of 512 MiB among 8 x 4 GH200, each with a NIC of 200 Gbit/s,
had 18.32 GB/s with the one channel of NCCL 2.20, and the line's rate with two."""
LINKS_SHARE = 0.915
"""Share of NVLink's rate, as NCCL counts it, that sends use. Fitted: an all-to-all of 500 MiB on 4 H100 had 334.9 GB/s."""
PEER_S = 0.72e-6
"""Time that each peer beyond `BATCH` takes. Fitted: 16 bytes to each of 32 GB200 in one machine took 28.2 us."""


class GroupedCall(StrEnum):
    """A call that NCCL carries out as a group of sends and receives. Sizes are of all blocks of a GPU; of send-recv, of
    what each GPU sends."""

    ALL_TO_ALL = "all-to-all"
    SEND_RECV = "send-recv"
    """Each GPU sends to the next one of all, in a circle."""
    GATHER = "gather"
    SCATTER = "scatter"
    HYPERCUBE = "hypercube"
    """An all-gather in doubling steps, each of which is a group."""


@dataclass(frozen=True)
class GroupLoad:
    """Bytes of a group that the busiest GPU, NIC and machine carry each way."""

    #: To one peer.
    message: float
    #: Peers that a GPU sends to or receives from.
    peers: int
    #: By NVLink of a GPU, or its slot where there is none.
    inside: float
    #: By all NICs of a GPU together, or by the one that it shares.
    by_nics: float
    #: By the slot of a GPU on the way to its NICs.
    by_slot: float
    machine: float


@dataclass(frozen=True)
class GroupFacts:
    """A call with all that its duration follows from."""

    comm: Communicator
    network: MachineNetwork
    kind: GroupedCall
    size_bytes: int

    @property
    def relays(self) -> bool:
        """Returns whether GPUs pass on what others send by their NICs (PXN)."""
        machine = self.comm.machine
        return self.comm.machines > 1 and self.comm.gpus > 1 and machine.links > 0 and machine.gpu_direct

    @property
    def sharing(self) -> int:
        """GPUs that share a NIC; NICs and GPUs are spread evenly."""
        return -(-self.comm.gpus // self.comm.machine.nics)

    @property
    def nics_of_a_gpu(self) -> int:
        """NICs that are a GPU's own."""
        return max(1, self.comm.machine.nics // self.comm.gpus)

    @property
    def loads(self) -> list[GroupLoad]:
        """Returns the call's groups, one after the other. Raises InputFault for a hypercube that cannot be."""
        if self.kind is GroupedCall.HYPERCUBE:
            return self._hypercube()
        if self.kind is GroupedCall.SEND_RECV:
            return [self._send_recv()]
        comm, ranks = self.comm, self.comm.ranks
        block, far = self.size_bytes / ranks, self.size_bytes * (1 - comm.gpus / ranks)
        own, peers = (comm.gpus - 1) * block, ranks - 1
        relayed = far * (comm.gpus - 1) / comm.gpus if self.relays else 0.0
        if self.kind is GroupedCall.ALL_TO_ALL:
            slot = far * (self.sharing if self.relays else 1)
            return [GroupLoad(block, peers, own + relayed, far * self.sharing, slot, far * comm.gpus)]
        if self.kind is GroupedCall.SCATTER and self.relays:
            share = far / comm.gpus * self.sharing
            return [GroupLoad(block, peers, own + relayed, share, share, far)]
        # All of it comes to the one GPU, or leaves it, by its own NICs.
        return [GroupLoad(block, peers, own, far, far, far)]

    def _send_recv(self) -> GroupLoad:
        """The last GPU of a machine sends to the first one of the next."""
        inside = self.size_bytes if self.comm.gpus > 1 else 0.0
        far = self.size_bytes if self.comm.machines > 1 else 0.0
        return GroupLoad(self.size_bytes, 1, inside, far, far, far)

    def _hypercube(self) -> list[GroupLoad]:
        comm, ranks = self.comm, self.comm.ranks
        if ranks & (ranks - 1):
            raise InputFault(f"a hypercube has a power of two of GPUs, and not {ranks}")
        found = []
        for step in range(ranks.bit_length() - 1):
            sent = self.size_bytes / ranks * (1 << step)
            inside, far = (sent, 0.0) if 1 << step < comm.gpus else (0.0, sent)
            slot = far * (self.sharing if self.relays else 1)
            found.append(GroupLoad(sent, 1, inside, far * self.sharing, slot, far * comm.gpus))
        return found

    @property
    def nic_payload(self) -> float:
        """Returns the rate of one NIC."""
        burst_s = self.network.burst_s
        return min(self.network.nic_bytes_per_s, BURST_BYTES / burst_s) if burst_s else self.network.nic_bytes_per_s

    @property
    def chunk_bytes(self) -> int:
        """Returns the size of a slot of a connection (`comm->p2pChunkSize`)."""
        comm = self.comm
        if comm.machines > 1 or not comm.machine.links:
            return NET_CHUNK_BYTES
        return NVLINK_CHUNK_BYTES

    def pieces(self, message: float) -> GroupPieces:
        """Returns the division of a message to one peer."""
        comm, several, step = self.comm, self.comm.machines > 1, self.chunk_bytes
        most = channels_of_a_peer(comm)
        least = most
        while least * comm.ranks > channels_of_all(comm) and least > 1:
            least //= 2
        smallest, largest = (step // 2, step) if several else (step // 8, step * 32)
        size = max(1, ceil(message))
        channels = min(least, -(-size // smallest))
        part = max(smallest, -(-size // channels))
        while part > largest and channels <= most // 2:
            channels *= 2
            part = -(-size // channels)
        counted = channels if comm.version >= (2, 29) else most
        by_ll = not several and size <= counted * LL_BYTES
        chunk = step
        if several and size < BATCH * step:
            chunk = step // 4 if size < step else step // 2
        return GroupPieces(LL if by_ll else SIMPLE, channels, min(chunk, -(-size // channels)))

    def begins_s(self, pieces: GroupPieces, load: GroupLoad) -> float:
        """Returns the seconds of a group apart from its bytes: the launch, one hop, and what further peers take."""
        comm, column = self.comm, list(Protocol).index(pieces.protocol)
        start_s = CALL_S + BASE[RING][column] / 1e6 + max(0, load.peers + 1 - BATCH) * PEER_S
        if not load.by_nics:
            return start_s + HOPS[comm.way_inside][RING][column] / 1e6
        start_s += HOPS[HopKind.NET][RING][column] / 1e6 + self.network.crossing_s
        if comm.machine.gpu_direct:
            return start_s
        return start_s + SOCKETS_S[pieces.protocol] + COPIES * pieces.chunk_bytes / self._slot_rate

    @property
    def _slot_rate(self) -> float:
        """A slot without NVLink carries messages to all others, and those of sockets at NCCL's rate of copies."""
        machine = self.comm.machine
        is_direct = machine.links and machine.gpu_direct
        return (machine.pci_payload_gb_per_s if is_direct else machine.pci_gb_per_s) * 1e9

    def carried_s(self, pieces: GroupPieces, load: GroupLoad) -> float:
        """Returns the seconds that the bytes of a group take where most of them pass."""
        machine = self.comm.machine
        by_slot = load.by_slot
        times = [load.machine / self.network.machine_bytes_per_s]
        if machine.links:
            links = machine.inside_gb_per_s(NEWEST) * LINKS_SHARE * 1e9
            times.append(load.inside * WIRE[pieces.protocol] / links)
        else:
            by_slot += load.inside * WIRE[pieces.protocol]
        times.append(by_slot / self._slot_rate)
        if load.by_nics:
            times.append(load.by_nics / self.nics_of_a_gpu / self.nic_payload)
            messages = load.by_nics / self.nics_of_a_gpu / load.message
            times.append(messages * ceil(load.message / BURST_BYTES) * self.network.burst_s)
            times.append(self._message_s(pieces, load))
        return max(times)

    def _message_s(self, pieces: GroupPieces, load: GroupLoad) -> float:
        """The seconds that one message takes by its channels, whose slots are filled again when they are known to be empty."""
        of_channels_s = load.message / (pieces.channels * CHANNEL_BYTES_PER_S)
        if self.network.back_s is None:
            return of_channels_s
        rounds = load.message / (pieces.channels * STEPS * pieces.chunk_bytes)
        return max(of_channels_s, (rounds - 1) * (self.network.crossing_s + self.network.back_s))


@dataclass(frozen=True)
class GroupPieces:
    """The division of a message to one peer."""

    protocol: Protocol
    channels: int
    chunk_bytes: int


def group_s(call: GroupFacts) -> float:
    """Returns the seconds that a call takes. Raises InputFault for a hypercube that cannot be."""
    times = []
    for load in call.loads:
        pieces = call.pieces(load.message)
        times.append(call.begins_s(pieces, load) + call.carried_s(pieces, load))
    return sum(times)


def channels_of_all(comm: Communicator) -> int:
    """Channels of sends (`comm->p2pnChannels`)."""
    return _power_of_two(comm.searched.all_channels)


def channels_of_a_peer(comm: Communicator) -> int:
    """The most channels that a message to one peer has (`comm->p2pnChannelsPerPeer`)."""
    every, wanted = channels_of_all(comm), comm.environment.net_peer_channels
    found = every
    if comm.gpus > 1:
        found = min(found, 2 * max(1, comm.machine.links))
    if comm.machines > 1:
        found = min(found, wanted or _net_channels(comm, every))
    found = min(every, _power_of_two(found))
    if comm.version >= (2, 29) and comm.machines > 1 and not wanted:
        while found * -(-comm.ranks // BATCH) > every and found > 1:
            found //= 2
    return found


def _net_channels(comm: Communicator, every: int) -> int:
    """Channels to a peer of another machine, by default."""
    machine = comm.machine
    slot = machine.pci_gb_per_s
    rate = min(machine.nic_gb_per_s, slot)
    # As many NICs as the GPU's slot feeds (`getLocalNetCountByBw`).
    nics = min(max(1, machine.nics // machine.gpus), ceil(slot / rate))
    if comm.version >= (2, 29):
        return max(nics, -(-int(nics * rate) // NET_CHANNEL_GB_PER_S))
    if comm.version <= (2, 19):
        return 2
    return max(nics, 1 if 2 * comm.ranks > every * 4 else 2)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
