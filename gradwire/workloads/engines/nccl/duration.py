"""The duration of a call of NCCL on a network: of its pieces, one after the other and side by side, as it sends them.

NCCL's own formulas (`chooser`) serve to choose. They know rates of a table, and neither chunks nor what a machine or a
network really does. Here, the rates between machines are those of the network, and each channel pipelines its chunks:

- In a ring, a GPU sends a chunk when its last one has left and the first slice of the chunk has come.
- By LL and LL128, a GPU passes each line on to the next GPU as it comes: every 8 or 128 bytes have their flag
  (`LLGenericOp`, src/device/prims_ll.h and prims_ll128.h). A network is handed whole slices (`sendProxyProgress`,
  src/transport/net.cc).
- A connection's buffer has eight slots. A slot is filled again when its slice has come and the receiver has said that it
  is empty (`sub->done + NCCL_STEPS`, src/transport/net.cc). Sockets have further buffers, and no such limit.
- In a tree, chunks go up chains and machines, and down again while others go up.
- NVLS adds and copies in the switch, and trees join the machines' heads.

Inside a machine, rates of links and latencies of hops come from NCCL's tables. A call on one machine is the same without
a network.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf

from gradwire.workloads.engines.collectives.allreduces import NONE, parents, second_parents
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import (
    LL,
    LL128,
    NVLS,
    NVLS_TREE,
    PAT,
    RING,
    SHARED,
    SIMPLE,
    TREE,
    Choice,
    Communicator,
)
from gradwire.workloads.engines.nccl.pieces import Pieces
from gradwire.workloads.engines.nccl.search import MAX_NVLS_GPUS
from gradwire.workloads.engines.nccl.tables import NVLS_EFFICIENCY, TABLES, HopKind, NcclAlgorithm, Protocol

NEWEST = TABLES[max(TABLES)]
"""What takes a time takes it in any version: NCCL's latest tables say it best. They also have the most of NVLSTree, and do
not count a tree's chunk with its hops, as 2.19 to 2.22 do."""
HOPS = NEWEST.hop_latency
BASE = NEWEST.base_latency
WIRE = {LL: 2.0, LL128: 16 / 15, SIMPLE: 1.0}
"""Bytes that are stored and sent for each byte of data: LL has a flag for each 4 bytes, LL128 for each 120."""
SEARCH_CHANNELS = 2
"""Channels that a call has for each that the search finds (`ncclTopoPostset`)."""
CALL_S = 3.8e-6
"""Time of a call on top of NCCL's table, before and after all hops: the kernel's launch and end. Measured with `SOCKETS_S`."""
NVL72_EFFICIENCY = 0.61
"""`NVLS_EFFICIENCY` among more GPUs than a call has heads. Fitted: an all-reduce of 16 GiB on the 72 GPUs of a GB200 NVL72 had 842 GB/s."""
TREE_SHARE = 5 / 6
"""Share of a NIC's rate that trees between machines use, as NCCL counts it for NVLSTree (`ncclTopoTuneModel`, up to 2.27).
Over sockets, where hosts' memory decouples them, plain trees use all of it."""
PAT_SHARE = 0.75
"""Share of the channels' rate that NCCL counts for PAT (`ncclTopoTuneModel`)."""
PAT_CALL_US, PAT_GPU_US, PAT_OVERLAP = 8.0, 2.8, 3.5
"""Latency that NCCL counts for PAT: of a call, of each of its GPUs, and the part of a hop (`ncclTopoTuneModel`)."""
BURST_BYTES = 65536
"""Size of the bursts that Linux hands a NIC: the largest burst of TCP that the NIC cuts into packets (`GSO_MAX_SIZE`,
include/linux/netdevice.h)."""
SOCKETS_S = {LL: 4.7e-6, LL128: 5.9e-6, SIMPLE: 13.5e-6}
"""Time of a message through NCCL's sockets, on top of its table and of half a round trip of TCP with a receiver that
sleeps until it comes (netperf's TCP_RR): threads that are signalled, a proxy that polls, flags and data in hosts'
memory. Measured (benchmarks/host/nccl_sockets.cu) with NCCL 2.28.9 in a virtual machine with an H100, ranks on the
loopback interface, four threads of a socket each, 8 bytes, five starts of each: half a round trip took 8.3 us. Tree by
LL took 43.1 and 85.7 us on 2 and 3 ranks, Ring by LL 45.3 and 70.2: two and four steps one after the other, of which the
least squares are 4.7 us for each message and 3.8 for the call (`CALL_S`). By Simple they took 81.8, 159.1, 96.9 and 147.4,
which leaves 11.5 to 20 for a message, and Tree by LL128 on 2 ranks 63.1. Each value is the median."""
COPIES = 2
"""Through a socket, data goes from a GPU to its host's memory, and from the other host's memory to its GPU."""
ALIKE_LOOPS = 3
"""Loops after which each takes as long as the one before."""


@dataclass(frozen=True)
class MachineNetwork:
    """The network between machines, and the hosts' part in it."""

    #: Payload that a NIC carries each way, in bytes per second.
    nic_bytes_per_s: float
    #: From the last byte leaving a machine to its arrival, software of both ends included, on top of what NCCL's table
    #: has for a hop over InfiniBand.
    crossing_s: float = 0.0
    #: The most that a machine carries each way, whatever its NICs do.
    machine_bytes_per_s: float = inf
    #: Time that a host spends on each burst that leaves by a NIC, one after the other: on every `BURST_BYTES` of a
    #: message, and on its rest.
    burst_s: float = 0.0
    #: Time until the sender knows that a slot is empty; None: senders do not wait for it.
    back_s: float | None = None


@dataclass(frozen=True)
class CallFacts:
    """A call with all that its duration follows from. Rates are of data per channel, in bytes per second."""

    comm: Communicator
    network: MachineNetwork
    kind: Collective
    choice: Choice
    pieces: Pieces
    size_bytes: int

    @property
    def algorithm(self) -> NcclAlgorithm:
        """Returns the algorithm that NCCL chose."""
        return self.choice.algorithm

    @property
    def protocol(self) -> Protocol:
        """Returns the protocol that NCCL chose."""
        return self.choice.protocol

    @property
    def slices(self) -> int:
        """Slices of a chunk."""
        return max(1, round(self.pieces.chunk_bytes / self.pieces.slice_bytes))

    @property
    def by_lines(self) -> bool:
        """Returns whether GPUs of a machine pass a chunk on while it comes."""
        return self.protocol is not SIMPLE

    @property
    def data_of_a_piece(self) -> float:
        """Returns the data, in bytes, that a channel of a tree passes on at a time between two machines, on one NIC."""
        nvls = self.algorithm is NVLS_TREE
        nics = self.channels_of_a_nic * self.comm.machine.nics if nvls else self.pieces.channels
        return self.size_bytes / (nics * self.pieces.loops)

    @property
    def hop_s(self) -> float:
        """Latency of a hop inside a machine."""
        return self._latency_s(self.comm.way_inside)

    @property
    def crossing_s(self) -> float:
        """Latency of a hop between machines."""
        return self._latency_s(HopKind.NET) + self.network.crossing_s + self.sockets_s + self.staged_s

    @property
    def sockets_s(self) -> float:
        """Returns the time that NCCL's sockets add to a message between machines, in seconds; 0 if NICs reach the
        memory of GPUs."""
        return 0.0 if self.comm.machine.gpu_direct else SOCKETS_S[self.protocol]

    @property
    def slot_s(self) -> float | None:
        """Returns the seconds from a slice's last byte leaving a machine until its slot may be filled again, on top of
        NCCL's table, which was measured with as many slots; None: at once."""
        if self.network.back_s is None or self.comm.machines == 1:
            return None
        return self.network.crossing_s + self.network.back_s

    def refilled_s(self, sent_s: float) -> float:
        """The least time between two slices of a connection, each of which takes `sent_s` to send."""
        return 0.0 if self.slot_s is None else (sent_s + self.slot_s) / self.pieces.slots

    @property
    def staged_s(self) -> float:
        """Returns the time in seconds that a message between machines takes over PCI Express to and from the memory of
        hosts; 0 if NICs reach that of GPUs. Channels that leave by the same GPU share its link; of a tree's, half cross
        at a time."""
        machine, pieces = self.comm.machine, self.pieces
        if machine.gpu_direct:
            return 0.0
        if self.algorithm is RING:
            parts = self.comm.ranks if self.goes_around else 1
            at_once = self.channels_of_a_nic * self.size_bytes / (pieces.channels * pieces.loops * parts * self.slices)
        else:
            heads = self.comm.searched.nvls.channels if self.algorithm is NVLS_TREE else machine.nics
            at_once = self.size_bytes / pieces.loops / max(1, heads) / 2
        return COPIES * at_once * WIRE[self.protocol] / (machine.pci_gb_per_s * 1e9)

    @property
    def goes_around(self) -> bool:
        """Returns whether a ring is closed, so that each GPU sends and receives in each step."""
        return self.kind is Collective.ALL_REDUCE or self.kind in SHARED

    @property
    def base_s(self) -> float:
        """Returns the seconds of a call before its first hop and after its last one. PAT has a part for each GPU
        (`ncclTopoTuneModel`)."""
        if self.algorithm is PAT:
            return CALL_S + (PAT_CALL_US + PAT_GPU_US * self.comm.ranks) / 1e6
        return CALL_S + BASE[self.algorithm][list(Protocol).index(self.protocol)] / 1e6

    @property
    def apart_s(self) -> float:
        """Returns the time of a call apart from its pieces, in seconds: with NVLS, also the hop to the switch and back."""
        return self.base_s + (self._latency_s(HopKind.NVLINK) if self.algorithm in (NVLS, NVLS_TREE) else 0.0)

    def nvls_s(self, data: float) -> float:
        """Returns the seconds that NVLS takes to add and copy so much data of a call, in all channels."""
        comm = self.comm
        heads, gpu, ranks = comm.searched.nvls.channels, comm.machine.gpu, comm.ranks
        efficiency = NVLS_EFFICIENCY[gpu] if comm.gpus <= MAX_NVLS_GPUS else NVL72_EFFICIENCY
        rate = comm.machine.inside_gb_per_s(comm.tables) * efficiency
        if self.kind is Collective.ALL_REDUCE:
            # A GPU's links carry each head's data, and its own as a head once more.
            rate *= heads / (heads + 1)
        if self.algorithm is NVLS_TREE:
            most = NEWEST.nvls_tree_max
            assert most is not None  # versions since 2.28 have it
            rate = min(rate, heads * most[gpu][comm.size_class] * ranks / (2 * (ranks - 1)))
        return data / (rate * 1e9)

    def _latency_s(self, way: HopKind) -> float:
        if self.algorithm is PAT:
            return HOPS[HopKind.NET][TREE][list(Protocol).index(SIMPLE)] / PAT_OVERLAP / 1e6
        return HOPS[way][self.algorithm][list(Protocol).index(self.protocol)] / 1e6

    @property
    def channels_of_a_nic(self) -> float:
        """Channels that share a NIC."""
        return max(1.0, self.pieces.channels / self.comm.machine.nics)

    @property
    def between(self) -> float:
        """Returns the rate of a channel between machines."""
        return self.nic_payload / self.channels_of_a_nic / WIRE[self.protocol]

    @property
    def nic_payload(self) -> float:
        """Returns the rate of one NIC for payload of the algorithm's kind: trees get five sixths of it, PAT three
        quarters. What NICs carry goes through the slots of the machine's GPUs."""
        machine = self.comm.machine
        used = min(machine.nics, self.pieces.channels)
        slots = machine.gpus * machine.pci_payload_gb_per_s * 1e9
        rate = min(self.network.nic_bytes_per_s, self.network.machine_bytes_per_s / used, slots / used)
        if self.network.burst_s:
            rate = min(rate, BURST_BYTES / self.network.burst_s)
        if self.algorithm is NVLS_TREE or (self.algorithm is TREE and machine.gpu_direct):
            return rate * TREE_SHARE
        return rate * (PAT_SHARE if self.algorithm is PAT else 1.0)

    @property
    def inside(self) -> float:
        """Returns the rate of a channel inside a machine."""
        comm, tables = self.comm, self.comm.tables
        gpu, column = comm.machine.gpu, comm.size_class
        links = comm.machine.inside_gb_per_s(tables)
        most = max(tables.speeds_inside[gpu])
        if self.algorithm is TREE:
            most = tables.tree_max[gpu][column]
        if self.protocol is LL128:
            most = min(most, (tables.tree_ll128_max if self.algorithm is TREE else tables.ring_ll128_max)[gpu][column])
        return min(links / self.pieces.channels, most / SEARCH_CHANNELS) * 1e9 / WIRE[self.protocol]

    def sent_s(self, data: float) -> float:
        """Returns the seconds that a channel's message with so much data takes to leave a machine; 0 on one machine."""
        return 0.0 if self.comm.machines == 1 else max(data / self.between, self.bursts_s(1, data))

    def bursts_s(self, messages: int, data: float) -> float:
        """Returns the seconds that a host spends on so many messages of each channel of a NIC, each with so much
        data."""
        bursts = ceil(max(1.0, data * WIRE[self.protocol]) / BURST_BYTES)
        return messages * bursts * self.channels_of_a_nic * self.network.burst_s


def duration_s(call: CallFacts) -> float:
    """Returns the seconds that a call takes, from its launch to its last byte at the last GPU."""
    return call.apart_s + _PIECES_S[call.algorithm](call)


def _ring_s(call: CallFacts) -> float:
    return _around(call) if call.goes_around else _along(call)


def _around(call: CallFacts) -> float:
    """A ring in which each GPU sends and receives in each step.

    Machines are alike, so that the GPUs of one stand for those of all: what comes to its first one is what leaves its
    last one.
    """
    comm, pieces = call.comm, call.pieces
    gpus, ranks = comm.gpus, comm.ranks
    steps = (2 if call.kind is Collective.ALL_REDUCE else 1) * (ranks - 1)
    chunk = call.size_bytes / (pieces.channels * pieces.loops * ranks)
    slices = call.slices
    sends, late_s = [chunk / call.inside] * gpus, [call.hop_s] * gpus
    if comm.machines > 1:
        sends[-1] = max(chunk / call.between, call.bursts_s(slices, chunk / slices))
        late_s[-1] = call.crossing_s
    slice_s = [sent / slices for sent in sends]
    begun, ended = [0.0] * gpus, [0.0] * gpus
    ends: list[float] = []
    # Of the chunks that last left the machine, when their first slot and when all of them may be filled again.
    free: deque[tuple[float, float]] = deque(maxlen=max(1, pieces.slots // slices))
    for _ in range(min(pieces.loops, ALIKE_LOOPS)):
        for step in range(steps):
            before = range(-1, gpus - 1)
            come = [0.0] * gpus if step == 0 else [begun[i] + slice_s[i] + late_s[i] for i in before]
            whole = [0.0] * gpus if step == 0 else [ended[i] + late_s[i] for i in before]
            if call.by_lines and step:
                # What the network brings is there at once, and what it takes must be whole.
                come = [whole[0], *(begun[i] + late_s[i] for i in range(gpus - 1))]
                come[-1] = whole[-1]
            begun = [max(ended[i], come[i]) for i in range(gpus)]
            last_s = [0.0] * (gpus - 1) + slice_s[-1:] if call.by_lines else slice_s
            first_free, all_free = free[0] if len(free) == free.maxlen else (0.0, 0.0)
            begun[-1] = max(begun[-1], first_free)
            ended = [max(begun[i] + sends[i], whole[i] + last_s[i]) for i in range(gpus)]
            ended[-1] = max(ended[-1], all_free + slice_s[-1])
            if call.slot_s is not None:
                free.append((begun[-1] + slice_s[-1] + call.slot_s, ended[-1] + call.slot_s))
        ended = [max(ended[i], ended[i - 1] + late_s[i - 1]) for i in range(gpus)]
        ends.append(max(ended))
    further = (pieces.loops - len(ends)) * (ends[-1] - ends[-2]) if pieces.loops > len(ends) else 0.0
    return ends[-1] + further


def _along(call: CallFacts) -> float:
    """A broadcast or a reduction along a chain through all GPUs."""
    comm, pieces = call.comm, call.pieces
    chunk = call.size_bytes / (pieces.channels * pieces.loops)
    crossing = call.sent_s(chunk)
    chains = comm.machines * min(1, comm.gpus - 1) if call.by_lines else comm.ranks - comm.machines
    first = (comm.ranks - comm.machines) * call.hop_s + chains * chunk / call.inside
    first += (comm.machines - 1) * (call.crossing_s + crossing)
    inside = chunk / call.inside if comm.gpus > 1 else 0.0
    return first + (pieces.loops - 1) * max(crossing, inside, call.refilled_s(crossing))


@dataclass(frozen=True)
class TreeShape:
    """The shape of the two trees of machines, each of which carries half of the data."""

    #: Crossings from the deepest machine to the root.
    depth: int
    #: Time of these crossings with the first chunk of all channels, as a multiple of the time that a channel's own
    #: share of the NIC takes. Half of the channels cross at a time, and with them those of the parent's other child.
    climb: float
    #: Share of the data that the busiest machine sends or receives.
    load: float


@lru_cache(maxsize=16)
def tree_shape(machines: int) -> TreeShape:
    """The trees of so many machines."""
    load = [0.0] * machines
    deepest, climb = 0, 0.0
    for above in (parents(machines), second_parents(machines)):
        below = Counter(above)
        for machine in range(machines):
            at, depth, cost = machine, 0, 0.0
            while above[at] != NONE:
                at, depth, cost = above[at], depth + 1, cost + below[above[at]] / 2
            deepest, climb = max(deepest, depth), max(climb, cost)
            # Up to the parent and down to those below: as much comes as goes.
            load[machine] += (int(above[machine] != NONE) + below[machine]) / 2
    return TreeShape(deepest, climb, max(load))


def _tree_s(call: CallFacts) -> float:
    comm, data = call.comm, call.data_of_a_piece
    shape, loops = tree_shape(comm.machines), max(1, call.pieces.loops)
    crossing_s, inside_s = call.sent_s(data), data / call.inside
    chain_s = (comm.gpus - 1) * call.hop_s + inside_s * (min(1, comm.gpus - 1) if call.by_lines else comm.gpus - 1)
    up_s = chain_s + shape.depth * call.crossing_s + shape.climb * crossing_s
    # Up and down share a GPU's links.
    each_s = max(shape.load * crossing_s, 2 * inside_s if comm.gpus > 1 else 0.0, call.refilled_s(crossing_s))
    return 2 * up_s + (loops - 1) * each_s


def _nvls_tree_s(call: CallFacts) -> float:
    shape, loops = tree_shape(call.comm.machines), max(1, call.pieces.loops)
    crossing_s, nvls_s = call.sent_s(call.data_of_a_piece), call.nvls_s(call.size_bytes / loops)
    each_s = max(shape.load * crossing_s, nvls_s, call.refilled_s(crossing_s))
    first_s = nvls_s / call.channels_of_a_nic + shape.depth * call.crossing_s + shape.climb * crossing_s
    return 2 * first_s + (loops - 1) * each_s


def _nvls_s(call: CallFacts) -> float:
    """NVLS on one machine: of an all-reduce, a piece is copied while the next one is added."""
    rounds = 2 if call.kind is Collective.ALL_REDUCE else 1
    return call.nvls_s(call.size_bytes / max(1, call.pieces.loops)) * (max(1, call.pieces.loops) + rounds - 1)


def _pat_s(call: CallFacts) -> float:
    comm = call.comm
    steps = (comm.machines - 1).bit_length()
    received = call.size_bytes * (comm.ranks - 1) / comm.ranks
    return steps * call.crossing_s + received / (call.nic_payload * comm.machine.nics)


_PIECES_S = {RING: _ring_s, TREE: _tree_s, NVLS: _nvls_s, NVLS_TREE: _nvls_tree_s, PAT: _pat_s}
