"""All-reduces of buckets one after the other around a ring, as data for `RingSequence`.

A bucket's gradients are cut as evenly as they come, so that parts differ by a value and no two ranks do the same: the
ranks of such a job are not classes. But each call is only a ring, whose messages meet no others, and its times follow
from those of the one before in closed form (analysis/by_class/ring_times.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwire.datatypes.class_plans import Float64, NotByClass, RingCall, RingSequence
from gradwire.datatypes.plan import Int64
from gradwire.workloads.classes.folding import host_of_rank
from gradwire.workloads.engines.allreduce_buckets import Bucket, after_backward
from gradwire.workloads.engines.allreduce_plan import BYTES_ON_WIRE, AllreduceOptions
from gradwire.workloads.job import Job


def ring_sequence(job: Job, name: str, buckets: Sequence[Bucket], options: AllreduceOptions) -> RingSequence:
    """Returns the all-reduces that `compile_buckets` makes of these buckets by "ring", as a sequence around one ring.
    Raises NotByClass if they are not all-reduces around one ring, one after the other."""
    _refuse_others(job, options)
    cluster, costs = job.cluster, job.costs
    ready = list(buckets) if options.overlap else after_backward(buckets)
    if any(bucket.hold or bucket.copy_in_s or bucket.copy_out_s or bucket.selection for bucket in ready):
        raise NotByClass("buckets wait for cycles, or are copied or selected")
    yielded = _yielded_ns(job)
    width = BYTES_ON_WIRE[options.wire]
    return RingSequence(
        name=name,
        ranks=cluster.workers,
        host_of_rank=host_of_rank(cluster),
        nics_per_host=cluster.nics_per_host,
        calls=tuple(
            RingCall(
                yielded[bucket.ready_layer],
                _part_bytes(bucket.values, cluster.workers, width),
                float(round(bucket.call_s * 1e9)),
            )
            for bucket in ready
        ),
        computed_ns=yielded[0],
        latency_s=costs.latency_s(inside=False),
        local_latency_s=costs.latency_s(inside=True),
        local_bytes_per_s=costs.local_bytes_per_s,
        compute_s=job.compute_s,
        samples=job.samples,
    )


def _refuse_others(job: Job, options: AllreduceOptions) -> None:
    """Raises NotByClass with all that stands against one ring after the other."""
    if job.cluster.workers < 2:
        raise NotByClass("there is one worker")
    wanted = {"concurrent": False, "forward_waits": "all", "segments": 1}
    values = {name: getattr(options, name) for name in wanted}
    reasons = [
        f"strategy.options.{name} is {value!r}, not {wanted[name]!r}"
        for name, value in values.items()
        if value != wanted[name]
    ]
    if options.wire != "fp32" and options.conversion_rate_bytes_per_s is not None:
        reasons.append("gradients are converted (strategy.options.conversion_rate_bytes_per_s)")
    if not np.isinf(job.costs.aggregation_bytes_per_s):
        reasons.append("adding takes time (costs.aggregation_rate)")
    if reasons:
        raise NotByClass(", and ".join(reasons))


def _part_bytes(values: int, parts: int, width: int) -> Int64:
    """Bytes of each part: whole gradients, as even as they come."""
    return (values // parts + (np.arange(parts) < values % parts)) * width


def _yielded_ns(job: Job) -> Float64:
    """Returns the end of each layer's backward op, counted from the start of the iteration, with shape (layers, ranks);
    one rank if all are alike. Times are whole nanoseconds, as those of a plan's ops are."""
    forward, backward = (np.array(times_s)[None, :] for times_s in (job.compute.forward_s, job.compute.backward_s))
    pace = np.array(job.relative_times or (1.0,))[:, None]
    forward_ns, backward_ns = np.rint(forward * pace * 1e9), np.rint(backward * pace * 1e9)
    ends_ns = forward_ns.sum(axis=1, keepdims=True) + np.cumsum(backward_ns[:, ::-1], axis=1)[:, ::-1]
    yielded: Float64 = np.ascontiguousarray(ends_ns.T)
    return yielded
