"""GradientFlow's communication backends: per-tensor allreduce, Horovod's fusion, lazy allreduce, coarse-grained sparse
communication.

Source: GradientFlow, sections 2.4 to 2.6, 3.1 and 3.2. They reduce over one NCCL communicator, one bucket after the
other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from pydantic import Field

from gradwire.datatypes.class_plans import Folding, NotByClass, RingSequence
from gradwire.datatypes.plan import Plan
from gradwire.workloads.classes.ring_sequences import ring_sequence
from gradwire.workloads.engines.allreduce_buckets import (
    Bucket,
    Gradient,
    allreduce_load,
    backward_order,
    buffer_fused,
    by_cycle,
    fused,
    lazily_fused,
    negotiated,
)
from gradwire.workloads.engines.allreduce_plan import (
    BYTES_ON_WIRE,
    Algorithm,
    AllreduceOptions,
    algorithm_schedule,
    compile_buckets,
    tensor_buckets,
)
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.stand_in import AllreduceLoad
from gradwire.workloads.strategy import Strategy

CHUNK_VALUES = 32_000
"""GradientFlow, section 3.2: "32K gradients"; 60.9 M and 25.5 M make 1903 and 797 chunks only if K is 1000."""


class BackendOptions(AllreduceOptions):
    """Options for how each bucket is reduced."""

    algorithm: Algorithm = "ring"
    """NCCL's is the ring."""


class HorovodOptions(BackendOptions):
    """Horovod's settings, with its own defaults.

    Sources: Horovod's documentation of HOROVOD_FUSION_THRESHOLD (64 MB), HOROVOD_CYCLE_TIME (5 ms until version 0.21)
    and HOROVOD_CACHE_CAPACITY; Kurth et al., Exascale Deep Learning for Climate Analytics, 2018, for the first rank as
    the bottleneck. The paper gives none of them.
    """

    buffer_bytes: int = Field(64 << 20, ge=4)
    """Size of the fusion buffer."""
    cycle_s: float = Field(5e-3, ge=0)
    """Horovod looks for ready tensors this often (0: at once)."""
    report_s: float = Field(0.0, ge=0)
    """What the first rank spends on each report of a rank that a tensor is ready. It reads them one after the other,
    and a tensor may go once every rank has reported it. 0, the default: reports cost nothing, thanks to a cache since
    version 0.16."""


class LazyOptions(BackendOptions):
    """Options for when a lazy allreduce starts."""

    threshold_bytes: int = Field(4 << 20, ge=0)
    """Gradients wait until together they are more than this on the wire. The paper does not print its theta."""


class CscOptions(LazyOptions):
    """Coarse-grained sparse communication; `threshold_bytes` fills its buffer."""

    chunk_values: int = Field(CHUNK_VALUES, ge=1)
    """Gradients in a chunk."""
    share: float = Field(0.15, gt=0, le=1)
    """Share of the chunks that are selected: 0.15 at the paper's sparsity of 85 % (section 4.2)."""
    warmup_iterations: int = Field(0, ge=0)
    """Within the warm-up, the share falls linearly from 1 (dense) to `share`."""
    iteration: int | None = Field(None, ge=0)
    """The iteration of the training that a run stands for, whose share it keeps."""
    norm_rate_bytes_per_s: float | None = Field(None, gt=0)
    """Gradients of which a GPU computes the L1 norm per second; None: free."""


def share_at(options: CscOptions) -> float:
    """Share of the chunks that are selected in the iteration of the training that the run stands for (section 3.2,
    warm-up)."""
    if options.iteration is None or options.iteration >= options.warmup_iterations:
        return options.share
    return 1 - (1 - options.share) * options.iteration / options.warmup_iterations


def _compile(job: Job, name: str, buckets: Sequence[Bucket], options: BackendOptions) -> Mapping[str, Plan]:
    schedule = algorithm_schedule(job.cluster, options.algorithm, segments=options.segments)
    return compile_buckets(job, name, buckets, schedule, options)


def _per_tensor(job: Job, options: BackendOptions) -> Mapping[str, Plan]:
    return _compile(job, "layer-allreduce", tensor_buckets(job), options)


def _horovod(job: Job, options: HorovodOptions) -> Mapping[str, Plan]:
    """Tensors are copied into the buffer and back unless one is alone in it (Horovod then works in place)."""
    bytes_per_value = BYTES_ON_WIRE[options.wire]
    gradients = backward_order(job)
    cycles = by_cycle(job, gradients, options.cycle_s) if options.cycle_s and options.overlap else [(None, gradients)]
    tensor_s = (job.stands_for or job.cluster).workers * options.report_s
    buckets = []
    for wait, together in cycles:
        all_at_once = negotiated(wait, together, tensor_s)
        for group in buffer_fused(together, options.buffer_bytes // bytes_per_value):
            bucket = fused(group)
            copy_s = bucket.values * bytes_per_value / job.costs.copy_bytes_per_s if len(group) > 1 else 0.0
            in_turn = options.overlap and not options.cycle_s
            hold = negotiated(None, group, tensor_s) if in_turn else all_at_once
            buckets.append(replace(bucket, hold=hold, copy_in_s=copy_s, copy_out_s=copy_s))
    return _compile(job, "horovod", buckets, options)


def _lazy(job: Job, options: LazyOptions) -> Mapping[str, Plan]:
    return _compile(job, "lazy-allreduce", _lazy_buckets(job, options), options)


def _lazy_buckets(job: Job, options: LazyOptions) -> list[Bucket]:
    threshold_values = options.threshold_bytes // BYTES_ON_WIRE[options.wire]
    return [fused(group) for group in lazily_fused(backward_order(job), threshold_values)]


def _ring_by_class(
    name: str, buckets_of: Callable[[Job, Any], list[Bucket]], job: Job, options: BackendOptions, _: Folding
) -> RingSequence:
    if options.algorithm != "ring":
        raise NotByClass(f"strategy.options.algorithm is '{options.algorithm}', not 'ring'")
    return ring_sequence(job, name, buckets_of(job, options), options)


def _csc(job: Job, options: CscOptions) -> Mapping[str, Plan]:
    """Selected chunks are copied into a buffer, reduced when it is full, and copied back; at last the norms of all
    chunks.

    The norms choose the chunks of the next iteration, so its backward pass needs them. Buffers take their turn like
    NCCL's calls: one is filled when the one before is reduced.
    """
    bytes_per_value = BYTES_ON_WIRE[options.wire]
    chunks = pool_chunks(backward_order(job), options.chunk_values)
    selected = select_chunks(len(chunks), share_at(options), job.seed)
    groups = lazily_fused([chunks[number] for number in selected], options.threshold_bytes // bytes_per_value)
    buckets = []
    for group in groups:
        bucket = fused(group)
        copy_s = bucket.values * bytes_per_value / job.costs.copy_bytes_per_s
        buckets.append(replace(bucket, copy_in_s=copy_s, copy_out_s=copy_s))
    rate = options.norm_rate_bytes_per_s
    norm_s = job.profile.parameters * BYTES_PER_PARAMETER / rate if rate else 0.0
    last_layer = len(job.profile.layers) - 1
    buckets.append(Bucket("L1 norms", len(chunks), 0, last_layer, copy_in_s=norm_s, selection=True))
    return _compile(job, "csc", buckets, options)


def _load(cluster: Cluster, options: BackendOptions) -> AllreduceLoad:
    return allreduce_load(options.algorithm, cluster)


def pool_chunks(gradients: Sequence[Gradient], chunk_values: int) -> list[Gradient]:
    """The memory pool, gradients in backward order, in chunks of `chunk_values`, the last one smaller.

    A chunk belongs to the layer of the last gradient in it, with which it is filled.
    """
    ends = [0]
    for gradient in gradients:
        ends.append(ends[-1] + gradient.values)
    chunks, tensor = [], 0
    bounds = [*range(0, ends[-1], chunk_values), ends[-1]]
    for number, (start, end) in enumerate(pairwise(bounds)):
        while ends[tensor + 1] < end:
            tensor += 1
        chunks.append(Gradient(f"chunk {number}", end - start, gradients[tensor].layer))
    return chunks


def select_chunks(count: int, share: float, seed: int) -> list[int]:
    """Numbers of the selected chunks, in order.

    Norms are not known here, so the seed decides, for all workers and iterations alike.
    """
    chosen = max(1, round(share * count))
    return sorted(random.Random(f"{seed}/csc").sample(range(count), chosen))


STRATEGIES = (
    Strategy(
        name="layer-allreduce",
        summary="one allreduce a tensor, one after the other, overlapped with the backward pass or not",
        source="GradientFlow, sections 2.4 to 2.6",
        options=BackendOptions,
        compile=_per_tensor,
        by_class=partial(_ring_by_class, "layer-allreduce", lambda job, _: tensor_buckets(job)),
        needs_servers=False,
        load=_load,
    ),
    Strategy(
        name="horovod",
        summary="tensors that one cycle finds ready are copied into a fusion buffer and reduced together",
        source="GradientFlow, section 3.1 (Horovod)",
        options=HorovodOptions,
        compile=_horovod,
        needs_servers=False,
        load=_load,
    ),
    Strategy(
        name="lazy-allreduce",
        summary="tensors are fused in place, in backward order, until they exceed a threshold",
        source="GradientFlow, section 3.1",
        options=LazyOptions,
        compile=_lazy,
        by_class=partial(_ring_by_class, "lazy-allreduce", _lazy_buckets),
        needs_servers=False,
        load=_load,
    ),
    Strategy(
        name="csc",
        summary="only a share of the gradients is reduced, chunk by chunk, and the norms that select them",
        source="GradientFlow, section 3.2",
        options=CscOptions,
        compile=_csc,
        needs_servers=False,
        load=_load,
    ),
)
