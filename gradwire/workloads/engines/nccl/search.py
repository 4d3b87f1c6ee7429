"""The result of NCCL's topology search on a machine: how many channels of which rate, for rings, trees and NVLS.

NCCL tries rates of a channel from the fastest on, and takes what carries most in all (`ncclTopoCompute`,
src/graph/search.cc). Its search walks the links of a real machine. Here, a machine has GPUs that are all joined by
NVSwitch (or all by PCI Express), and each GPU reaches each NIC, over the NIC's own GPU where it is another's (PXN):
what fits then follows from sums. So the search of machines that are wired otherwise, such as a DGX-1, may differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor

from gradwire.faults import InputFault
from gradwire.workloads.engines.nccl.tables import TABLES, Gpu, Tables, Version

PCI_GB_PER_S = {Gpu.VOLTA: 12.0, Gpu.AMPERE: 24.0, Gpu.HOPPER: 48.0, Gpu.BLACKWELL: 48.0}
"""Rate that NCCL counts for 16 lanes of PCI Express 3, 4 and 5: `kvDictPciGen` (60, 120, 240) over 80,
src/graph/topo.cc."""
PCI_PAYLOAD_GB_PER_S = {Gpu.VOLTA: 14.4, Gpu.AMPERE: 28.8, Gpu.HOPPER: 57.6, Gpu.BLACKWELL: 57.6}
"""Payload that 16 lanes of PCI Express 3, 4 and 5 carry each way: 8, 16 and 32 GT/s, 128 of 130 bits, and 256 bytes of
payload in packets with 24 bytes of headers (PCI Express Base Specification)."""
INTEL_OVERHEAD = 6 / 5
"""What NCCL counts for a byte between a GPU and another device through an Intel processor (`INTEL_P2P_OVERHEAD`,
src/graph/topo.h)."""
WRITES_BACK = 1 / 8
"""What it counts on top where a GPU before Ampere sends and receives, for what goes back (`followPath`,
src/graph/search.cc)."""
ROUNDING = 1e-6
MAX_GPUS = 72
MAX_MACHINES = 65536
MAX_NVLS_GPUS = 32
"""`NCCL_MAX_NVLS_ARITY`, src/include/device.h."""
MAX_NICS = 64
FAST_NIC_GB_PER_S = 48.0
"""NICs of this rate have channels and chunks of their own since 2.30."""


@dataclass(frozen=True)
class GpuMachine:
    """One of several machines that are alike."""

    gpus: int
    gpu: Gpu
    #: NICs, and the rate of each in bytes per second, as its driver reports it.
    nics: int
    nic_bytes_per_s: float
    #: Whether NICs read and write the memory of GPUs. Sockets do not: what they send is first copied to the host.
    gpu_direct: bool
    #: Links of NVLink of a GPU; 0: GPUs exchange data over PCI Express.
    links: int
    #: Whether GPUs are joined by NVSwitch, which NVLS needs.
    nvswitch: bool = True
    amd: bool = False
    #: What NCCL counts for the slot of a GPU, in GB/s; None: 16 lanes of the generation's PCI Express.
    slot_gb_per_s: float | None = None

    def __post_init__(self) -> None:
        """Raises InputFault for machines that cannot be."""
        for name, number, most in (("GPUs", self.gpus, MAX_GPUS), ("NICs", self.nics, MAX_NICS)):
            if not 1 <= number <= most:
                raise InputFault(f"{number} {name} on a machine: must be from 1 to {most}")
        if not 0 <= self.links <= 64:
            raise InputFault(f"{self.links} links of NVLink: must be from 0 to 64")
        if not 1e6 <= self.nic_bytes_per_s <= 1e12:
            raise InputFault("the rate of a NIC must be from 8mbit to 8tbit")
        if self.slot_gb_per_s is not None and not 0.1 <= self.slot_gb_per_s <= 1000:
            raise InputFault("the slot of a GPU must carry 0.1 to 1000 GB/s")

    def inside_gb_per_s(self, tables: Tables) -> float:
        """Returns the rate of all links of a GPU to others of its machine, as NCCL counts it, in GB/s."""
        return max(self.links * tables.nvlink[self.gpu], self.pci_gb_per_s)

    @property
    def pci_gb_per_s(self) -> float:
        """Returns what NCCL counts for the slot of a GPU."""
        return PCI_GB_PER_S[self.gpu] if self.slot_gb_per_s is None else self.slot_gb_per_s

    @property
    def pci_payload_gb_per_s(self) -> float:
        """Returns the payload that the slot of a GPU carries each way."""
        return self.pci_gb_per_s * PCI_PAYLOAD_GB_PER_S[self.gpu] / PCI_GB_PER_S[self.gpu]

    @property
    def nic_gb_per_s(self) -> float:
        """Returns the rate of a NIC, in GB/s."""
        return self.nic_bytes_per_s / 1e9


@dataclass(frozen=True)
class FoundChannels:
    """The result of a search: channels, and the rate of each inside machines and between them, in GB/s."""

    channels: int
    inside: float
    between: float

    @property
    def total_between(self) -> float:
        """Returns the rate of all channels between machines, in GB/s."""
        return self.channels * self.between


NOTHING = FoundChannels(0, 0.0, 0.0)


@dataclass(frozen=True)
class ChannelSearch:
    """The results of the search for each kind of algorithm, and the most channels that a call has."""

    ring: FoundChannels
    tree: FoundChannels
    #: `NOTHING` where NVLS is not available.
    nvls: FoundChannels
    #: Channels of rings and trees (`comm->nChannels`, `collChannels` of 2.20 and 2.21).
    channels: int
    #: Channels that the plateau of a ring is counted with (`comm->nChannels`).
    all_channels: int
    nvls_channels: int
    #: The largest chunk of NVLSTree where NCCL sets it by the network; 0: it does not.
    nvls_tree_chunk_bytes: int
    #: Whether all channels visit GPUs in the same order (`sameChannels`).
    same_order: bool


class _Search:
    """The search of one machine, with its links as sums."""

    def __init__(self, version: Version, machine: GpuMachine, machines: int) -> None:
        self.tables = TABLES[version]
        self.machine = machine
        self.several = machines > 1
        self.inside = machine.inside_gb_per_s(self.tables)
        speeds = self.tables.speeds_between if self.several else self.tables.speeds_inside
        self.speeds = speeds[machine.gpu]
        self.pci = machine.pci_gb_per_s
        self.least_nvls_gpus = 2 if version >= (2, 28) else 3
        # Between machines, a head is the GPU of a NIC, and each NIC has one (`ncclTopoSearchRecNet`).
        self.most_heads = min(machine.gpus, MAX_NVLS_GPUS, machine.nics if self.several else MAX_NVLS_GPUS)

    def _through_nics(self, speed: float) -> int:
        """Channels of a rate that NICs carry, each in a slot of PCI Express, and the slots of the GPUs."""
        machine = self.machine
        counted = 1.0 if machine.gpu_direct or machine.amd else INTEL_OVERHEAD
        of_nic = floor(min(machine.nic_gb_per_s, self.pci / counted) / speed + ROUNDING)
        if machine.gpu < Gpu.AMPERE and machine.nics >= machine.gpus:
            counted += WRITES_BACK
        return min(machine.nics * of_nic, machine.gpus * floor(self.pci / counted / speed + ROUNDING))

    def fitting(self, speed: float, most: int, *, closed: bool = False) -> int:
        """Channels of a rate that fit, for rings and for trees: each passes every GPU once.

        Only rings within a machine are closed. From the last GPU of others, nothing goes on inside.
        """
        inside = self.fitting_inside(speed, most, closed=closed)
        return min(inside, self._through_nics(speed)) if self.several else inside

    def fitting_inside(self, speed: float, most: int, *, closed: bool = False) -> int:
        """Channels of a rate, `most` at most, that links inside carry."""
        gpus = self.machine.gpus
        if gpus == 1:
            return most
        # On one machine, NCCL's search finds trees of more than two GPUs about as fast as closed rings.
        closed = closed or (gpus > 2 and not self.several)
        fit = floor(self.inside / speed + ROUNDING)
        return max(count for count in range(most + 1) if count - (0 if closed else count // gpus) <= fit)

    def fitting_nvls(self, speed: float, between: float) -> int:
        """Returns the number of channels of a rate that fit, for NVLS: a channel has a head, whose links carry it
        twice."""
        most = min(self.most_heads, floor(self.inside / speed + ROUNDING) - 1)
        return max(0, min(most, self._through_nics(between)) if self.several else most)

    def first(self, least: int, *, ring: bool) -> int:
        """The index of the rate that the search begins with."""
        machine = self.machine
        most = min(self.pci, machine.nic_gb_per_s) if self.several else self.inside
        total = self.inside * (1.0 if ring or machine.gpus == 1 else machine.gpus / (machine.gpus - 1))
        for index, speed in enumerate(self.speeds[:-1]):
            if speed <= most + ROUNDING and speed * least <= total + ROUNDING:
                return index
        return len(self.speeds) - 1

    def goes_on(self, index: int, best: FoundChannels) -> bool:
        """Returns whether the rate after that of `index` is tried."""
        return index + 1 < len(self.speeds) and (
            best.channels == 0 or self.speeds[index + 1] / best.between > SLOWEST_SHARE
        )

    def doubled(self, graph: FoundChannels, most: int) -> FoundChannels:
        """Fast channels are divided in two (`ncclTopoDupChannels`)."""
        enough = self.machine.gpu > Gpu.AMPERE and graph.inside < 50.0 and graph.channels > 4
        if graph.channels == 0 or graph.inside < 25.0 or enough:
            return graph
        channels = min(2 * graph.channels, most)
        share = -(-channels // graph.channels)
        return FoundChannels(channels, graph.inside / share, graph.between / share)


SLOWEST_SHARE = 0.49
"""The search ends at rates of less than this share of the best one's."""


def _ring(search: _Search) -> FoundChannels:
    most = search.tables.max_channels // 2
    index, best = search.first(1, ring=True), NOTHING
    while True:
        speed = search.speeds[index]
        channels = search.fitting(speed, most, closed=not search.several)
        if channels * speed > best.total_between + ROUNDING:
            best = FoundChannels(channels, speed, speed)
        if channels == most or best.total_between >= search.inside or not search.goes_on(index, best):
            break
        index += 1
    best = search.doubled(best or NOTHING, most)
    for speed in reversed(search.speeds):
        channels = search.fitting(speed, most, closed=not search.several)
        if speed > best.between and channels >= best.channels and channels * speed > best.total_between + ROUNDING:
            best = FoundChannels(channels, speed, speed)
    return best if best.channels else FoundChannels(1, 0.1, 0.1)


def _tree(search: _Search, channels: int) -> FoundChannels:
    """Trees have as many channels as rings, and inside a machine a faster rate where its links allow."""
    index = search.first(channels, ring=False)
    while search.fitting(search.speeds[index], channels) < channels and index + 1 < len(search.speeds):
        index += 1
    if search.fitting(search.speeds[index], channels) < channels:
        return FoundChannels(1, 0.1, 0.1)
    tree = search.doubled(FoundChannels(channels, search.speeds[index], search.speeds[index]), channels)
    for speed in reversed(search.speeds):
        if speed <= tree.inside or tree.inside >= 2 * tree.between:
            continue
        if search.fitting_inside(speed, channels) < channels:
            break
        tree = replace(tree, inside=speed)
    return tree


def _nvls(search: _Search) -> FoundChannels:
    machine = search.machine
    if machine.gpu < Gpu.HOPPER or not machine.nvswitch or machine.gpus < search.least_nvls_gpus:
        return NOTHING
    heads = search.most_heads
    least = 1 if search.several else heads
    index, best = search.first(least, ring=False), NOTHING
    while True:
        speed = search.speeds[index]
        channels = search.fitting_nvls(speed, speed)
        better = channels > best.channels or channels * speed > best.total_between + ROUNDING
        if channels >= least and better:
            best = FoundChannels(channels, speed, speed)
            if channels == heads:
                break
        if best.total_between >= search.inside or not search.goes_on(index, best):
            break
        index += 1
    for speed in reversed(search.speeds):
        if best.channels == 0 or speed <= best.between or best.between >= 2 * best.inside:
            continue
        if search.fitting_nvls(best.inside, speed) < best.channels:
            break
        best = replace(best, between=speed)
    return best


def _blackwell_nvls_tree(machine: GpuMachine, machines: int) -> tuple[int, int]:
    """Returns the channels of NVLSTree and its largest chunk, in bytes (`ncclNvlsTreeSm100Tuning`,
    src/transport/nvls.cc since 2.30).

    GPUs are as near to their NICs as on a DGX, not behind a processor as on GB200. Rates of 96 GB/s, for which NCCL has
    further numbers, need PCI Express 6, which `PCI_GB_PER_S` does not have.
    """
    if min(machine.nic_gb_per_s, machine.pci_gb_per_s) < FAST_NIC_GB_PER_S:
        return 32, 65536 if machines >= 4 else 131072
    if machines > 2:
        return 24, 65536 if machine.gpu_direct else 131072
    if machine.gpus <= 4:
        return 32, 262144
    small = machine.gpus >= 16 or (machine.gpus <= 8 and machine.gpu_direct)
    return 32, 65536 if small else 131072


def search(
    version: Version,
    machine: GpuMachine,
    machines: int,
    channels_wanted: tuple[int, int] = (0, 0),
    *,
    nvls_allowed: bool = True,
) -> ChannelSearch:
    """Returns the result of NCCL's search on machines that are alike.

    channels_wanted: NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS; 0: not set. nvls_allowed: NCCL_NVLS_ENABLE. Raises
    InputFault.
    """
    if not 1 <= machines <= MAX_MACHINES:
        raise InputFault(f"{machines} machines: must be from 1 to {MAX_MACHINES}")
    machine_search = _Search(version, machine, machines)
    ring = _ring(machine_search)
    tree = _tree(machine_search, ring.channels)
    nvls = _nvls(machine_search) if nvls_allowed else NOTHING
    most = TABLES[version].max_channels
    channels = min(ring.channels, tree.channels)
    ring, tree = replace(ring, channels=channels), replace(tree, channels=channels)
    channels = min(most, 2 * channels)
    room = 2 * channels <= most if version <= (2, 19) else channels < 16
    generation = machine.gpu >= Gpu.HOPPER if version >= (2, 25) else machine.gpu == Gpu.HOPPER
    if generation and machines > 1 and ring.inside > 45.0 and room:
        channels *= 2
    least_wanted, most_wanted = channels_wanted
    channels = min(channels, most_wanted if most_wanted > 0 else most, most)
    channels = max(channels, min(least_wanted, most))
    nvls_channels = TABLES[version].nvls_channels[machine.gpu][int(machines > 1)] if nvls.channels else 0
    nvls_tree_chunk_bytes = 0
    if nvls.channels and version >= (2, 30) and machine.gpu >= Gpu.BLACKWELL and machines > 1:
        nvls_channels, nvls_tree_chunk_bytes = _blackwell_nvls_tree(machine, machines)
    raised = channels if version <= (2, 19) or version >= (2, 28) else max(channels, nvls_channels)
    return ChannelSearch(
        ring=ring,
        tree=tree,
        nvls=nvls,
        channels=channels if version <= (2, 21) else raised,
        all_channels=raised,
        nvls_channels=nvls_channels,
        nvls_tree_chunk_bytes=nvls_tree_chunk_bytes,
        same_order=machines == 1 or machine.nics == 1 or machine.gpus == 1,
    )
