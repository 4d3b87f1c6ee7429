"""NCCL's division of a call: among channels, and within a channel into chunks and slices.

Source: `topoGetAlgoInfo`, `scheduleCollTasksToPlan` and `calcCollChunking`, src/enqueue.cc (`getAlgoInfo` and
`computeColl` before 2.20), src/include/collectives.h and src/include/device.h, at the tags in `tables.TAGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.channel_shares import shares_of
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
    Communicator,
    bandwidth_gb_per_s,
    estimates,
    tuned_pair,
)
from gradwire.workloads.engines.nccl.tables import NcclAlgorithm, Protocol

STEPS = 8
"""`NCCL_STEPS`: slots of the buffer of a connection."""
BUFFER_BYTES = {LL: 8 * 512 * STEPS * 16, LL128: 120 * 640 * STEPS * 8, SIMPLE: 1 << 22}
"""`DEFAULT_LL_BUFFSIZE`, `DEFAULT_LL128_BUFFSIZE`, `DEFAULT_BUFFSIZE`, src/init.cc."""
MOST_THREADS = {LL: 512, LL128: 640, SIMPLE: 512}
THREAD_THRESHOLD = {LL: 8, LL128: 8, SIMPLE: 64}
"""Bytes for which a channel gets another thread: `NCCL_.._THREAD_THRESHOLD`, src/include/comm.h."""
SLOW_GB_PER_S = 12.0
"""`PCI_BW`: slower rings with Simple use half of the threads."""
GRAIN_BYTES = {LL: 16, LL128: 1920, SIMPLE: 512}
"""`ncclProtoGrainSize`, since 2.22."""
NVLS_CHUNK_BYTES = 128 * 1024
"""`NCCL_NVLS_CHUNKSIZE`."""


@dataclass(frozen=True)
class Pieces:
    """The division of a call into pieces. Sizes are of data, without what a protocol adds."""

    channels: int
    #: Size of a chunk, which goes from one GPU to the next before the next chunk of the channel.
    chunk_bytes: int
    #: Size of the slices in which the network gets a chunk.
    slice_bytes: int
    #: How often a channel goes through all of its steps.
    loops: int
    #: Slices that may be under way on a channel's connection: slots of its buffer.
    slots: int = STEPS


def divide(
    comm: Communicator, kind: Collective, algorithm: NcclAlgorithm, protocol: Protocol, size_bytes: int
) -> Pieces:
    """Returns the division of a call into pieces; size_bytes as `chooser.choose` has it."""
    channels = _tuned_channels(comm, kind, algorithm, protocol, size_bytes) or _channels(
        comm, algorithm, protocol, size_bytes
    )
    if comm.version >= (2, 22):
        whole = comm.ranks if kind in SHARED else 1
        channels, share = shares_of(
            comm.version,
            size_bytes // whole,
            2 if kind is Collective.ALL_REDUCE else whole,
            by_ll=protocol is LL,
            wanted=channels,
            there=_channels_there(comm, algorithm),
        )
        share *= whole
        chunk = _chunk(comm, kind, algorithm, protocol, share, 1)
        grain = GRAIN_BYTES[protocol]
        chunk = max(grain, chunk // grain * grain)
    else:
        share = -(-size_bytes // channels)
        chunk = _chunk(comm, kind, algorithm, protocol, size_bytes, channels)
    at_once = _chunks_of_a_loop(comm, kind, algorithm)
    loops = max(1, -(-share // (chunk * at_once)))
    if loops == 1:
        chunk = min(chunk, max(1, -(-share // at_once)))
    steps = _chunk_steps(kind, algorithm, protocol)
    slices = steps[0] // steps[1]
    return Pieces(channels, chunk, -(-chunk // slices), loops, STEPS // steps[1])


def _threads(comm: Communicator, algorithm: NcclAlgorithm, protocol: Protocol) -> int:
    ring = comm.searched.ring
    slow = algorithm is RING and protocol is SIMPLE and ring.inside * ring.channels <= SLOW_GB_PER_S
    return 256 if slow else MOST_THREADS[protocol]


def _channels(comm: Communicator, algorithm: NcclAlgorithm, protocol: Protocol, size_bytes: int) -> int:
    """Channels at most: small calls have fewer."""
    if algorithm in (NVLS, NVLS_TREE, PAT):
        # NCCL has no threads for PAT in its table (`maxThreads`), and so takes all channels.
        return _channels_there(comm, algorithm)
    threshold = THREAD_THRESHOLD[protocol] * (comm.ranks if algorithm is RING and protocol is LL else 1)
    wanted = size_bytes // (_threads(comm, algorithm, protocol) * threshold)
    return min(comm.searched.channels, max(1, wanted))


def _channels_there(comm: Communicator, algorithm: NcclAlgorithm) -> int:
    return comm.searched.nvls_channels if algorithm in (NVLS, NVLS_TREE) else comm.searched.channels


def _tuned_channels(
    comm: Communicator, kind: Collective, algorithm: NcclAlgorithm, protocol: Protocol, size_bytes: int
) -> int | None:
    """Channels that the plugin's tuner sets, where it has chosen Tree with LL128."""
    if comm.plugin is None or (algorithm, protocol) != (TREE, LL128):
        return None
    tuned = tuned_pair(comm, kind, size_bytes, estimates(comm, kind))
    return comm.plugin.channels(kind, comm.machines, comm.gpus, size_bytes) if tuned == (TREE, LL128) else None


def _chunks_of_a_loop(comm: Communicator, kind: Collective, algorithm: NcclAlgorithm) -> int:
    """`nchunksPerLoop`."""
    if algorithm is RING:
        return comm.ranks if kind is Collective.ALL_REDUCE or kind in SHARED else 1
    return comm.searched.nvls.channels if algorithm in (NVLS, NVLS_TREE) else 1


def _chunk_steps(kind: Collective, algorithm: NcclAlgorithm, protocol: Protocol) -> tuple[int, int]:
    """Slots of the buffer that a chunk takes, and a slice."""
    ring = algorithm is RING and protocol is SIMPLE
    return (4, 2) if ring and (kind is Collective.ALL_REDUCE or kind in SHARED) else (1, 1)


def _chunk(
    comm: Communicator, kind: Collective, algorithm: NcclAlgorithm, protocol: Protocol, size_bytes: int, channels: int
) -> int:
    """Bytes of data of a chunk of a call that is large enough."""
    buffer_bytes = BUFFER_BYTES[protocol]
    if protocol is SIMPLE:
        set_by_plugin = comm.plugin.buffer_bytes if comm.plugin else None
        buffer_bytes = comm.environment.buffer_bytes or set_by_plugin or buffer_bytes
    stored = buffer_bytes // STEPS * _chunk_steps(kind, algorithm, protocol)[0]
    if algorithm is NVLS:
        return _nvls_chunk(comm, min(stored, _most_of_nvls(comm)), size_bytes, channels)
    if algorithm is NVLS_TREE:
        return _nvls_tree_chunk(comm, stored, size_bytes, channels)
    if algorithm is PAT:
        share = 32 if kind is Collective.ALL_GATHER else 16
        return _halved(stored, lambda chunk: chunk * channels * share > size_bytes, 65536)
    if algorithm is TREE and protocol is SIMPLE and comm.version <= (2, 19):
        depth = comm.gpus - 1 + comm.machines.bit_length() - 1
        for times, least in ((8, 131072), (4, 65536), (1, 32768)):
            stored = _halved(stored, _fewer(size_bytes, channels, times * depth), least)
        return stored
    data = stored // 2 if protocol is LL else stored // 16 * 15 if protocol is LL128 else stored
    if algorithm is TREE and protocol is LL128:
        # Up to 2.19, the size with flags is compared.
        compared = stored if comm.version <= (2, 19) else data
        steps = comm.machines.bit_length() + 0.1 * comm.gpus
        for loops, least in ((steps * 64 / comm.gpus, 131072), (steps * 16 / comm.gpus, 32768)):
            compared = _halved(compared, _fewer(size_bytes, channels, loops), least)
        return compared // 16 * 15 if comm.version <= (2, 19) else compared
    return data


def _fewer(size_bytes: int, channels: int, loops: float) -> Callable[[int], bool]:
    return lambda chunk: size_bytes // (channels * chunk) < loops


def _halved(chunk: int, too_large: Callable[[int], bool], least: int) -> int:
    while too_large(chunk) and chunk > least:
        chunk //= 2
    return chunk


def _most_of_nvls(comm: Communicator) -> int:
    slow = comm.machines > 1 and comm.version >= (2, 19)
    slow = slow and bandwidth_gb_per_s(comm, Collective.ALL_REDUCE, NVLS, SIMPLE) < 150
    return 32768 if slow else _set_chunk(comm) or NVLS_CHUNK_BYTES


def _set_chunk(comm: Communicator) -> int | None:
    """The largest chunk of NVLS and NVLSTree where the plugin sets it, for versions that read its variables."""
    return comm.plugin.nvls_chunk_bytes if comm.plugin and comm.version >= (2, 21) else None


def _nvls_chunk(comm: Communicator, chunk: int, size_bytes: int, channels: int) -> int:
    heads = comm.searched.nvls.channels
    for times, least in ((64, 65536), (8, 32768), (2, 16384)):
        if size_bytes < times * channels * heads * chunk:
            chunk = min(chunk, least)
    return chunk


def _nvls_tree_chunk(comm: Communicator, stored: int, size_bytes: int, channels: int) -> int:
    set_ = _set_chunk(comm)
    chunk = set_ or comm.searched.nvls_tree_chunk_bytes or (NVLS_CHUNK_BYTES if comm.version >= (2, 21) else stored)
    if comm.machines >= 4 and comm.version >= (2, 19) and not set_ and not comm.searched.nvls_tree_chunk_bytes:
        chunk = min(chunk, 65536)
    heads = comm.searched.nvls.channels
    for times, least in ((32, 262144), (16, 131072), (4, 65536), (1, 32768)):
        if size_bytes < times * channels * heads * chunk:
            chunk = min(chunk, least)
    return chunk
