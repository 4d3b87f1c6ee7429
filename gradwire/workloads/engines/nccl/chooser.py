"""NCCL's choice of an algorithm and a protocol for a collective: the one whose time is least by its own formulas.

Source: `ncclTopoTuneModel` and `ncclTopoGetAlgoTime`, src/graph/tuning.cc, and `updateCollCostTable` and
`topoGetAlgoInfo`, src/enqueue.cc, at the tags in `tables.TAGS`. NCCL computes with single precision and this module
with double: choices differ only where two times agree to seven digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.efa_plugin import Plugin
from gradwire.workloads.engines.nccl.environment import FUNCTIONS, Environment
from gradwire.workloads.engines.nccl.search import MAX_NVLS_GPUS, ChannelSearch, FoundChannels, GpuMachine, search
from gradwire.workloads.engines.nccl.tables import (
    NVLS_EFFICIENCY,
    TABLES,
    TREE_CORRECTION,
    Gpu,
    HopKind,
    NcclAlgorithm,
    Protocol,
    Tables,
    Version,
    name_of,
)

KINDS = tuple(FUNCTIONS.values())
"""Collectives that NCCL chooses algorithms for. An all-to-all is made of sends and receives."""
SHARED = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
TREE, RING, NVLS, NVLS_TREE, PAT = NcclAlgorithm
LL, LL128, SIMPLE = Protocol
NET_OVERHEAD_US = {False: 1.0, True: 2.0}
"""`getNetOverhead`: of Intel's processors, and of AMD's."""


@dataclass(frozen=True)
class Estimate:
    """NCCL's estimate of an algorithm with a protocol, for any size."""

    algorithm: NcclAlgorithm
    protocol: Protocol
    latency_us: float
    #: Bytes of the call over time: the bandwidth of the algorithm, in GB/s.
    gb_per_s: float


@dataclass(frozen=True)
class Choice:
    """NCCL's choice for a call, and the time that it expects."""

    algorithm: NcclAlgorithm
    protocol: Protocol
    expected_us: float


@dataclass(frozen=True)
class Communicator:
    """Machines that are alike and all of whose GPUs take part, with a version of NCCL and its environment."""

    version: Version
    machine: GpuMachine
    machines: int
    environment: Environment
    #: The plugin by which NCCL reaches the network, where it has a say.
    plugin: Plugin | None = None

    @cached_property
    def searched(self) -> ChannelSearch:
        """Returns the result of the topology search. Raises InputFault."""
        environment = self.environment
        return search(
            self.version, self.machine, self.machines, environment.channels, nvls_allowed=environment.nvls_allowed
        )

    @property
    def tables(self) -> Tables:
        """The version's tables."""
        return TABLES[self.version]

    @property
    def ranks(self) -> int:
        """GPUs of all machines."""
        return self.machines * self.machine.gpus

    @property
    def gpus(self) -> int:
        """GPUs of a machine."""
        return self.machine.gpus

    @property
    def size_class(self) -> int:
        """Column of tables by machines: one, two, more."""
        return min(self.machines, 3) - 1

    def found(self, algorithm: NcclAlgorithm) -> FoundChannels:
        """The channels of an algorithm."""
        if algorithm is RING:
            return self.searched.ring
        return self.searched.nvls if algorithm in (NVLS, NVLS_TREE) else self.searched.tree

    @property
    def way_inside(self) -> HopKind:
        """Returns the kind of link of hops inside a machine; PCI also if a machine has one GPU (`typeIntra`)."""
        return HopKind.NVLINK if self.machine.links and self.gpus > 1 else HopKind.PCI


def available(comm: Communicator, kind: Collective) -> Iterator[tuple[NcclAlgorithm, Protocol]]:
    """Algorithms and protocols that NCCL has for a collective on these machines, before the environment's say."""
    several, version = comm.machines > 1, comm.version
    for algorithm in NcclAlgorithm:
        if algorithm is TREE and kind is not Collective.ALL_REDUCE:
            continue
        if algorithm in (NVLS, NVLS_TREE):
            if comm.searched.nvls.channels < (2 if version >= (2, 28) else 1) or several is (algorithm is NVLS):
                continue
            if kind is not Collective.ALL_REDUCE and (
                algorithm is NVLS_TREE or kind not in SHARED or version < (2, 19)
            ):
                continue
            if kind in SHARED and comm.gpus > MAX_NVLS_GPUS:
                continue
        if algorithm is PAT and (version < (2, 23) or kind not in SHARED or comm.gpus > 1 or not several):
            continue
        for protocol in Protocol:
            if protocol is SIMPLE or algorithm in (TREE, RING):
                yield algorithm, protocol


def ll128_by_default(comm: Communicator) -> bool:
    """Returns whether NCCL uses LL128 by default: only if all bytes arrive in the order in which they were stored."""
    machine = comm.machine
    if comm.gpus > 1 and not machine.links:
        return False
    if comm.machines > 1 and not machine.gpu_direct:
        return False
    # Before 2.25, generations are listed one by one.
    return machine.gpu < Gpu.BLACKWELL or comm.version >= (2, 25)


def bandwidth_gb_per_s(comm: Communicator, kind: Collective, algorithm: NcclAlgorithm, protocol: Protocol) -> float:
    """Returns the bandwidth that NCCL expects of an algorithm and a protocol: bytes of the call over time, in GB/s."""
    bus = _bus_gb_per_s(comm, kind, algorithm, protocol)
    if algorithm is RING:
        return bus * comm.ranks / _ring_steps(comm, kind)
    if kind in SHARED and comm.version >= (2, 23):
        return bus
    if algorithm in (NVLS, NVLS_TREE) and comm.version >= (2, 28):
        return bus * comm.ranks / _ring_steps(comm, kind)
    if algorithm is NVLS_TREE and comm.version == (2, 18):
        return bus * 0.70 * comm.machines / (2 * (comm.machines - 1))
    return bus * (5.0 / 6.0 if algorithm in (NVLS, NVLS_TREE) else 0.5)


def _ring_steps(comm: Communicator, kind: Collective) -> int:
    if kind is Collective.ALL_REDUCE:
        return 2 * (comm.ranks - 1)
    return comm.ranks - 1 if kind in SHARED else comm.ranks


def _channel_gb_per_s(comm: Communicator, kind: Collective, algorithm: NcclAlgorithm) -> float:
    """The rate of a channel that the formulas begin with."""
    graph, version = comm.found(algorithm), comm.version
    if version >= (2, 28) and algorithm in (NVLS, NVLS_TREE):
        return _nvls_channel_gb_per_s(comm, kind, algorithm, graph)
    if version >= (2, 19) and algorithm is NVLS:
        if version >= (2, 27) and kind is not Collective.ALL_REDUCE:
            return min(graph.inside * (comm.gpus - 1) / comm.gpus, graph.between * 0.9)
        return min(graph.inside, graph.between)
    if version >= (2, 19) and algorithm is NVLS_TREE:
        return min(graph.inside, graph.between if comm.machines <= 2 else graph.between / 2)
    return graph.inside if comm.machines <= 2 else graph.between


def _nvls_channel_gb_per_s(
    comm: Communicator, kind: Collective, algorithm: NcclAlgorithm, graph: FoundChannels
) -> float:
    """The busbw of a head, since 2.28."""
    inside = graph.inside * NVLS_EFFICIENCY[comm.machine.gpu] * (graph.channels - 1) / graph.channels
    inside *= 2.0 if kind is Collective.ALL_REDUCE else (comm.gpus - 1) / comm.gpus
    if algorithm is NVLS:
        return min(inside, graph.between)
    most = comm.tables.nvls_tree_max
    assert most is not None  # versions since 2.28 have it
    return min(inside, graph.between * (2 if comm.machines <= 2 else 1), most[comm.machine.gpu][comm.size_class])


def _bus_gb_per_s(comm: Communicator, kind: Collective, algorithm: NcclAlgorithm, protocol: Protocol) -> float:
    graph, tables, gpu, column = comm.found(algorithm), comm.tables, comm.machine.gpu, comm.size_class
    bus = graph.channels * _channel_gb_per_s(comm, kind, algorithm)
    if algorithm is RING:
        if protocol is LL:
            return min(_ll_max(comm), bus * _ring_ll_share(comm, kind))
        if protocol is LL128:
            share = 0.7 if comm.gpus < 2 and comm.version <= (2, 22) else 0.92
            return min(bus * share, graph.channels * tables.ring_ll128_max[gpu][column])
        return bus
    if algorithm is TREE:
        bus = min(bus * 0.92, graph.channels * tables.tree_max[gpu][column])
        if protocol is LL:
            bus = min(bus / 3.8, _ll_max(comm))
        if protocol is LL128:
            share = 7.0 / 9.0 if comm.machines == 1 else 120.0 / 128.0
            bus = min(bus * share, graph.channels * tables.tree_ll128_max[gpu][column])
        # A machine of one GPU has the simplest tree.
        return bus * (0.85 if comm.gpus == 1 else 1.0)
    if algorithm is PAT:
        return bus * (0.85 if comm.version == (2, 23) else 0.75)
    return bus


def _ll_max(comm: Communicator) -> float:
    if comm.machines == 1:
        return comm.tables.ll_max_one_machine[comm.machine.gpu]
    return comm.tables.ll_max_machines[int(comm.machine.amd)][comm.size_class - 1]


def _ring_ll_share(comm: Communicator, kind: Collective) -> float:
    if comm.version >= (2, 21):
        return 0.5
    return 1 / 4 if comm.machines > 1 or kind in (Collective.ALL_REDUCE, Collective.REDUCE) else 1 / 3


def latency_us(comm: Communicator, kind: Collective, algorithm: NcclAlgorithm, protocol: Protocol) -> float:
    """Returns the time that NCCL expects of a call of no bytes, in microseconds."""
    column = list(Protocol).index(protocol)
    hops, version = comm.tables.hop_latency, comm.version
    base = comm.tables.base_latency[algorithm][column]
    inside = hops[comm.way_inside][algorithm][column]
    alone = version >= (2, 23) and comm.gpus == 1
    between = hops[HopKind.NET][TREE if alone else algorithm][column]
    if comm.plugin and (version, algorithm) != ((2, 18), NVLS_TREE):
        # With Simple, once more for the flush (`latencyInter`).
        between += comm.plugin.latency_us * (2 if protocol is SIMPLE else 1)
    doublings = comm.machines.bit_length() - 1
    if algorithm is RING:
        return base + _ring_latency_us(comm, kind, protocol, inside, between)
    if algorithm is TREE:
        return base + 2 * ((comm.gpus - 1) * inside + doublings * between)
    if algorithm is PAT:
        return 8 + doublings * (between / 3.5) + comm.ranks * 2.8
    if version == (2, 18):
        return base + (0 if algorithm is NVLS else 2 * (comm.machines - 1) * between)
    return base + inside + (0 if algorithm is NVLS else 2 * doublings * between)


def _ring_latency_us(comm: Communicator, kind: Collective, protocol: Protocol, inside: float, between: float) -> float:
    several, machines, steps = comm.machines > 1, comm.machines, _ring_steps(comm, kind)
    if kind in (Collective.BROADCAST, Collective.REDUCE):
        column = list(Protocol).index(protocol)
        way = HopKind.NET if several else comm.way_inside
        if comm.searched.same_order:
            return comm.tables.hop_latency[way][RING][column]
        return steps * comm.tables.hop_latency[way][TREE if protocol is SIMPLE else RING][column]
    overhead = NET_OVERHEAD_US[comm.machine.amd] * (3 if protocol is SIMPLE else 1) if several else 0.0
    rounds = 2 if kind is Collective.ALL_REDUCE else 1
    crossings = rounds * (machines - 1)
    if comm.version <= (2, 22) and kind is Collective.ALL_REDUCE:
        crossings = 2 * machines
    crossings = crossings if several else 0
    return (steps - crossings) * max(inside, overhead) + crossings * between


def expected_us(comm: Communicator, kind: Collective, estimate: Estimate, size_bytes: int) -> float:
    """Returns the time that NCCL expects of a call of this size, in microseconds."""
    bandwidth, latency = estimate.gb_per_s, estimate.latency_us
    if estimate.algorithm is TREE:
        # Sizes below 64 bytes are the first of the table up to 2.21, and are not corrected since 2.22.
        power = (size_bytes >> 6).bit_length() - 1
        correction = TREE_CORRECTION[estimate.protocol]
        if power < 0 and comm.version <= (2, 21):
            power = 0
        if 0 <= power < len(correction):
            bandwidth *= correction[power]
    if estimate.algorithm is NVLS_TREE and comm.version >= (2, 29) and comm.machine.gpu is Gpu.BLACKWELL:
        power = (size_bytes >> 6).bit_length() - 1
        correction = (*TREE_CORRECTION[Protocol.SIMPLE], TREE_CORRECTION[Protocol.SIMPLE][-1])
        if kind is Collective.ALL_REDUCE and 0 <= power < len(correction):
            bandwidth *= correction[power]
    plateau = size_bytes // (comm.searched.all_channels * comm.ranks) >= 64 and comm.machines > 1
    if estimate.algorithm is RING and estimate.protocol is SIMPLE and kind is Collective.ALL_REDUCE and plateau:
        latency *= 1.9 if comm.machine.gpu < Gpu.AMPERE else 1.4
    return latency + size_bytes / (1000 * bandwidth)


def estimates(comm: Communicator, kind: Collective) -> list[Estimate]:
    """Returns the estimates that NCCL compares for a collective: those of the algorithms and protocols that are
    available and allowed.

    Raises InputFault if the environment leaves none, and the version does not help itself.
    """
    if kind not in KINDS:
        raise InputFault(f"{kind.value}: NCCL chooses for {', '.join(known.value for known in KINDS)}")
    algorithms = comm.environment.algorithms_for(kind)
    protocols = comm.environment.protocols_for(kind)
    default: tuple[Protocol, ...] = (LL, LL128, SIMPLE) if ll128_by_default(comm) else (LL, SIMPLE)
    if comm.plugin and not comm.plugin.keeps_order:
        default = (SIMPLE,)

    def weighed(allowed: frozenset[NcclAlgorithm] | None, protocols: frozenset[Protocol] | None) -> list[Estimate]:
        return [
            Estimate(
                algorithm,
                protocol,
                latency_us(comm, kind, algorithm, protocol),
                bandwidth_gb_per_s(comm, kind, algorithm, protocol),
            )
            for algorithm, protocol in available(comm, kind)
            if (allowed is None or algorithm in allowed)
            and (protocol in protocols if protocols is not None else protocol in default)
        ]

    if comm.version == (2, 18) and algorithms is not None and kind is not Collective.ALL_REDUCE:
        algorithms |= {RING}
    here = (RING, TREE, NVLS_TREE if comm.machines > 1 else NVLS)
    if comm.version <= (2, 23) and algorithms is not None and algorithms.isdisjoint(here):
        algorithms |= {RING, TREE}  # Only what is not to be had was asked for, which is ignored.
    considered = weighed(algorithms, protocols)
    if not considered and (2, 19) <= comm.version <= (2, 23):
        # Rings are the way out; up to 2.21 with whatever protocol, also where it is not allowed.
        considered = weighed(frozenset((RING,)), frozenset(Protocol) if comm.version <= (2, 21) else protocols)
    if not considered:
        raise InputFault(
            f"NCCL {name_of(comm.version)} has no algorithm for {kind.value} here with "
            f"NCCL_ALGO={comm.environment.algorithms} and NCCL_PROTO={comm.environment.protocols}: allow Ring and Simple"
        )
    return considered


def choose(comm: Communicator, kind: Collective, size_bytes: int) -> Choice:
    """Returns NCCL's choice for a call.

    size_bytes: the buffer; of an all-gather what a rank gets, and of a reduce-scatter what a rank puts in. Raises
    InputFault.
    """
    if comm.ranks == 1:
        return Choice(RING, SIMPLE, 0.0)
    weighed = estimates(comm, kind)
    if tuned := tuned_pair(comm, kind, size_bytes, weighed):
        weighed = [one for one in weighed if (one.algorithm, one.protocol) == tuned]
    times = [(expected_us(comm, kind, one, size_bytes), one) for one in weighed]
    least, best = min(times, key=lambda entry: entry[0])
    return Choice(best.algorithm, best.protocol, least)


def tuned_pair(
    comm: Communicator, kind: Collective, size_bytes: int, weighed: Sequence[Estimate]
) -> tuple[NcclAlgorithm, Protocol] | None:
    """Returns the choice of the plugin's tuner among NCCL's estimates; None if it leaves the choice to NCCL."""
    if comm.plugin is None:
        return None
    pairs = {(one.algorithm, one.protocol) for one in weighed}
    return comm.plugin.tuned(kind, comm.machines, comm.gpus, size_bytes, pairs.__contains__)
