"""The line below each table of results that names what was free in it, and what was assumed with its source.

Free is what a scenario leaves out and no device knows. Assumed is what follows from the named device, from a default or
from a table in a scenario's place. Both are those of a job as it was resolved, so that they cannot differ from what was
estimated or run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gradwire.faults import InputFault
from gradwire.scenario.loading import Point
from gradwire.workloads.engines.call_costs import CallCosts
from gradwire.workloads.engines.nccl.devices import GpuName, default_version
from gradwire.workloads.engines.nccl.options import NCCL, NcclKeys
from gradwire.workloads.engines.parallel.group_collectives import RING
from gradwire.workloads.job import Job
from gradwire.workloads.strategies.megatron import MegatronOptions
from gradwire.workloads.strategies.serve import ServingOptions
from gradwire.workloads.strategy import Options
from gradwire.workloads.units import byte_rate_text

SINGLE_RINGS = ("ring", "layer-allreduce", "lazy-allreduce", "horovod")
"""Strategies of papers with one ring around all workers."""
HAVE_CALLS = ("ddp", "fsdp", "zero1", "zero2")
"""Strategies whose calls have a latency of their own (workloads/engines/call_costs.py)."""


def free_and_assumed(points: Sequence[Point]) -> str:
    """Returns one line for all of these points, in which each thing stands once; "" without points."""
    free: dict[str, None] = {}
    assumed: dict[str, None] = {}
    compute_s_by_source: dict[str, set[float]] = {}
    for point in points:
        for job, options, strategy in _jobs(point):
            free |= dict.fromkeys(_free(job, options, strategy))
            assumed |= dict.fromkeys(_assumed(job, options, strategy, point))
            if job.compute_s and not point.section.model.layers and not isinstance(options, ServingOptions):
                compute_s_by_source.setdefault(job.compute.source, set()).add(job.compute_s)
    assumed |= dict.fromkeys(
        f"computation of {_range_text(times_s)} ({source})" for source, times_s in compute_s_by_source.items()
    )
    if not free and not assumed:
        return ""
    return f"free in this run: {', '.join(free) or 'nothing'}; assumed: {', '.join(assumed) or 'nothing'}"


def _range_text(times_s: Collection[float]) -> str:
    ends = dict.fromkeys(f"{time_s:.4g}" for time_s in (min(times_s), max(times_s)))
    return f"{' to '.join(ends)} s"


def _jobs(point: Point) -> Iterator[tuple[Job, Options, str]]:
    """Each job of a point, with its options and its strategy's name."""
    resolved = point.resolved
    for each in resolved.jobs.values() or (resolved,):
        try:
            yield each.job, each.options, each.strategy.name
        except InputFault:
            # Reports of older runs do without what today's options refuse.
            continue


def _free(job: Job, options: Options, strategy: str) -> Iterator[str]:
    costs, cluster = job.costs, job.cluster
    by_nccl = getattr(options, "algorithm", None) == NCCL
    if cluster.worker_hosts > 1 and not costs.message_latency_s and not by_nccl:
        yield "messages' software latency"
    if isinstance(options, NcclKeys) and not by_nccl and not _has_calls(job, options, strategy):
        yield "calls"
    if cluster.workers_per_host > 1 and costs.local_bytes_per_s == float("inf"):
        yield "copies inside a machine"
    if cluster.servers and costs.aggregation_bytes_per_s == float("inf"):
        yield "adding gradients"
    if costs.speed_while_communicating == 1.0 and isinstance(options, NcclKeys):
        yield "communication's share of the GPU"
    if not job.compute_s:
        yield "computation"
    if not job.relative_times and cluster.workers > 1:
        yield "differences between workers"
    if not isinstance(options, ServingOptions):
        yield "the optimizer's step"


def _has_calls(job: Job, options: Options, strategy: str) -> bool:
    if strategy not in HAVE_CALLS:
        return False
    calls = CallCosts(job, str(getattr(options, "algorithm", RING)))
    return calls.is_known or bool(job.costs.call_latency_s) or job.costs.message_latency_s > 0


def _assumed(job: Job, options: Options, strategy: str, point: Point) -> Iterator[str]:
    costs, cluster, said = job.costs, job.cluster, point.section.costs
    device = point.section.model.device
    if cluster.workers_per_host > 1 and said.local_rate is None and costs.local_bytes_per_s < float("inf"):
        yield f"{byte_rate_text(costs.local_bytes_per_s)} inside a machine (link of {device})"
    if strategy in HAVE_CALLS and CallCosts(job, str(getattr(options, "algorithm", RING))).is_known:
        assert job.gpu is not None  # its table is known
        yield f"calls' latencies (table of NCCL {default_version(GpuName(job.gpu))} for {job.gpu})"
    if isinstance(options, NcclKeys) and options.goes_by_nccl and not (options.nccl.version and options.nccl.gpu):
        gpu = options.nccl.gpu_for(job.gpu)
        yield f"NCCL {options.nccl.version_for(gpu)}, by its tables for {gpu.value} (strategy.options.nccl)"
    if cluster.rings > 1 and getattr(options, "channels", 1) is None and getattr(options, "algorithm", RING) == RING:
        if getattr(options, "shard", None) in (None, cluster.workers):
            yield f"{cluster.rings} rings, one for each NIC of a machine (channels)"
        else:
            yield f"one ring for each group of {getattr(options, 'shard', None)} (shard)"
    if cluster.rings > 1 and (strategy in SINGLE_RINGS or _has_wide_groups(job, options)):
        yield "one ring for each group, which leaves a machine by one of its NICs"
    if isinstance(options, ServingOptions):
        yield from _assumed_of_serving(job, options)


def _assumed_of_serving(job: Job, options: ServingOptions) -> Iterator[str]:
    if options.prefill:
        yield f"prompts at the speed of training's forward pass ({job.compute.source})"
    if options.step_time is None and job.memory_bytes_per_s:
        yield f"steps of decoding that compute as fast, or read weights and caches at {byte_rate_text(job.memory_bytes_per_s)} (data sheet)"
    yield "requests in the steps that a timetable decides in advance"


def _has_wide_groups(job: Job, options: Options) -> bool:
    """Returns whether several replicas of a division, which sum gradients by ring, are on one machine."""
    is_ring = isinstance(options, MegatronOptions) and options.algorithm == RING
    return is_ring and getattr(options, "tensor", 1) < job.cluster.workers_per_host
