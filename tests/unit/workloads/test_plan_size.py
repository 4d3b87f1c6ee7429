"""Strategies say how many ops their plans have before they make them, so that a plan that is too large takes no memory."""

from __future__ import annotations

import resource
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads import plan_size
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.collectives import halving_doubling
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.plan_size import MostOps, TooManyOps
from gradwire.workloads.strategy_registry import strategy
from tests.shared.small_jobs import compiled, job_of, profile_of
from tests.unit.workloads.test_golden_digests import DIGESTS

EXACT = (
    *("butterfly", "butterfly-mixing", "ddp", "double-tree", "halving-doubling", "hierarchical-ring", "horovod"),
    *("layer-allreduce", "ring", "ring-multicast", "kvstore", "p3", "vanilla", "partition-slicing", "p3-slicing"),
)
"""Strategies that say the very number: allreduces of buckets, and most parameter servers."""
NAMES = sorted({*DIGESTS, "fsdp", "zero1", "zero2"})

LAYERS = st.lists(
    st.tuples(st.sampled_from([LayerKind.CONV, LayerKind.FC]), st.lists(st.integers(1, 3000), min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
)
COSTS = st.builds(
    Costs,
    aggregation_bytes_per_s=st.sampled_from([1e6, float("inf")]),
    copy_bytes_per_s=st.sampled_from([1e6, float("inf")]),
    message_latency_s=st.sampled_from([0.0, 1e-5]),
)


@pytest.mark.parametrize("name", NAMES)
@given(layers=LAYERS, costs=COSTS, workers=st.sampled_from([2, 4, 8]), servers=st.integers(1, 3))
def test_what_is_said_is_what_is_made(
    name: str, layers: list[tuple[LayerKind, list[int]]], costs: Costs, workers: int, servers: int
) -> None:
    how = strategy(name)
    cluster = Cluster(workers, servers if how.needs_servers else 0, colocated=False)
    job = job_of(profile_of(layers), cluster, costs=costs)
    fabric = Fabric(hosts=cluster.hosts, rate_bps=1e9, aggregators=how.aggregators(how.options()))
    said: list[int] = [0]

    def note(_: MostOps, of: str, ops: int, *, more: bool = False) -> None:
        assert not more, f"{of} has {ops} ops, which are not too many"
        if not of.startswith("a collective"):  # whose parts may be empty
            said.append(ops)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MostOps, "refuse", note)
        plans = compiled(replace(job, rate_bps=1e9, fabric=fabric), name, {})
    made = max(len(plan.ops) for plan in plans.values())
    assert max(said) == made if name in EXACT else 0 < max(said) <= made


def large(name: str) -> dict[str, Plan]:
    profile = profile_of([(LayerKind.FC, [10_000])] * 100)
    job = job_of(profile, Cluster(1024, 1024 if strategy(name).needs_servers else 0))
    return compiled(replace(job, rate_bps=1e9, fabric=Fabric(hosts=1024, rate_bps=1e9)), name, {})


@pytest.mark.parametrize("name", ["halving-doubling", "ring", "horovod", "ddp"])
def test_a_plan_that_is_too_large_takes_neither_time_nor_memory(name: str) -> None:
    kept_bytes, began_s = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, time.process_time()
    with pytest.raises(TooManyOps):
        large(name)
    assert time.process_time() - began_s < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - kept_bytes < 1e9


def test_memory_is_a_limit_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_size, "_free_bytes", lambda: 1000 * plan_size.BYTES_PER_OP)
    with pytest.raises(TooManyOps, match=r"1,001 ops, and may have 1,000, which fit into the 0\.0 GB of memory"):
        MostOps.here().refuse("ring", 1001)
    MostOps.here().refuse("ring", 1000)


def test_free_memory_is_no_more_than_a_process_may_take() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    assert MostOps.here().free_bytes > 1 << 29
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes := 5 << 30, before[1]))
    try:
        assert MostOps.here().free_bytes < most_bytes
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_builder_counts_what_nobody_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_size, "MOST_OPS", 10_000)
    builder = PlanBuilder("plug-in")
    begin = builder.compute(0)
    with pytest.raises(InputFault, match="more than"):
        many_contributions(builder, begin)


def many_contributions(builder: PlanBuilder, begin: int) -> None:
    for _ in range(100_000):
        chunk = builder.chunk(0, 1)
        for _ in range(100):
            builder.produces(begin, chunk)


def test_many_segments_are_refused() -> None:
    with pytest.raises(TooManyOps):
        halving_doubling(256).segmented(4096)
