"""A small language model that is served, of which all sizes can be told by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradwire.analysis.request_times import RequestSpread
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.transformer_layers import transformer_profile
from gradwire.workloads.models.transformer_shapes import Experts, Transformer
from tests.shared.small_jobs import compiled

TOKENS, WIDTH, BLOCKS = 8, 16, 2
CACHE_BYTES = 2 * 4 * 2
"""Of a token in a block: keys and values of one head of 4 features, in 16 bits."""
LAYER_S = 8e-6
"""A layer's forward pass over a sample: 1 us for each of its tokens."""
FABRIC = Fabric(hosts=16, rate_bps=8e9, classes=2)
BYTES_PER_S = 1e9 * FABRIC.goodput_share()


def service(workers: int, *, per_host: int = 1, mixes: bool = False, memory_bytes_per_s: float | None = 1e15) -> Job:
    """Two blocks of 16 features, with 4 heads of queries and one of keys and values; with experts, four, of which a token takes two, and
    one that all share. Every layer takes as long."""
    experts = Experts(count=4, per_token=2, ffn=8, shared=1) if mixes else None
    shape = Transformer(
        words=32,
        tokens=TOKENS,
        width=WIDTH,
        blocks=BLOCKS,
        heads=4,
        ffn=32,
        key_value_heads=1,
        head_width=4,
        experts=experts,
    )
    profile = transformer_profile("small", shape, 1, "made up")
    forward_s = (LAYER_S,) * len(profile.layers)
    compute = ComputeTime(forward_s, tuple(2 * time_s for time_s in forward_s), "made up")
    cluster = Cluster(workers, workers_per_host=per_host)
    return Job(
        profile, compute, cluster, 1, rate_bps=FABRIC.rate_bps, fabric=FABRIC, memory_bytes_per_s=memory_bytes_per_s
    )


def served(job: Job, **options: Any) -> Plan:
    """The plan of a service."""
    return compiled(job, "serve", options)["serve"]


def there(spread: RequestSpread | None) -> RequestSpread:
    """The times of requests that have some."""
    assert spread is not None
    return spread


def with_costs(job: Job, **costs: Any) -> Job:
    """The job with other costs."""
    return replace(job, costs=replace(job.costs, **costs))
