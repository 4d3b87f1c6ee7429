"""Strategies say how many ops their plans have before they make them, so that a plan that is too large takes no memory."""

from __future__ import annotations

import pickle
import resource
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads import plan_size
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.collectives import halving_doubling
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.plan_size import MostOps, TooManyOps
from gradwire.workloads.strategy_registry import strategy
from gradwire.workloads.trace_replay.recorded_job import grow_job
from gradwire.workloads.trace_replay.replay_strategy import REPLAY
from gradwire.workloads.traces.record import Call, Findings, RankRecord, Reading
from gradwire.workloads.traces.trace_import import assemble
from gradwire.workloads.traces.workload import Kind, Workload
from tests.shared.parts import in_order, tells
from tests.shared.small_jobs import compiled, job_of, profile_of, training_strategies
from tests.unit.workloads.traces.random_workloads import workloads

AT_LEAST = {"aggregation-ps", "multicast-aggregation-ps"}
"""Strategies that say less than they make: what switches add and acknowledge depends on the network and on their memory."""

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


NAMES = [*training_strategies(), REPLAY.name]
RESET_PEAK = "5"
"""What /proc/self/clear_refs takes to forget the most memory that a process had (proc_pid_clear_refs(5))."""


@st.composite
def small_jobs(draw: st.DrawFn, name: str) -> Job:
    """A job of a few layers, or a recorded one."""
    if name == REPLAY.name:
        trace = draw(workloads())
        job = job_of(profile_of([(LayerKind.FC, [1])]), Cluster(trace.ranks), costs=draw(COSTS))
        return replace(job, trace=trace)
    servers = draw(st.integers(1, 3)) if strategy(name).needs_servers else 0
    cluster = Cluster(draw(st.sampled_from([2, 4, 8])), servers, colocated=draw(st.booleans()))
    return job_of(profile_of(draw(LAYERS)), cluster, costs=draw(COSTS))


def large_job(name: str) -> Job:
    """4,096 workers and 500 layers, in blocks as models of transformers name them, or one recorded all-reduce."""
    hosts = 4096
    layers = profile_of([(LayerKind.FC, [10_000])] * 500).layers
    blocks = tuple(replace(layer, name=f"block{number}/{layer.name}") for number, layer in enumerate(layers))
    job = job_of(Profile("large", blocks, 4, "made up"), Cluster(hosts, hosts if strategy(name).needs_servers else 0))
    return job if name != REPLAY.name else replace(job, trace=recorded_all_reduce(hosts))


def recorded_all_reduce(ranks: int) -> Workload:
    """A workload in which so many ranks have one all-reduce."""
    records = [RankRecord(Path(f"{rank}.et"), "made up", Findings()) for rank in range(2)]
    for rank, record in enumerate(records):
        record.rank, record.world, record.groups = rank, 2, {"all": (0, 1)}
        record.call(Call(Kind.ALL_REDUCE, "sum", 1_000_000, 4, "all"))
    recorded = assemble("large", records, Reading(), Findings())
    assert recorded is not None
    return grow_job(recorded, ranks // 2, (0,))


def planned(job: Job, name: str) -> dict[str, Plan]:
    how = strategy(name)
    fabric = Fabric(hosts=job.cluster.hosts, rate_bps=1e9, aggregators=how.aggregators(how.options()))
    return compiled(replace(job, rate_bps=1e9, fabric=fabric), name, {})


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_what_is_said_is_what_is_made(name: str, data: st.DataObject) -> None:
    job, said = data.draw(small_jobs(name)), [0]

    def note(_: MostOps, of: str, ops: int, *, more: bool = False) -> None:
        assert not more, f"{of} has {ops} ops, which are not too many"
        if of:  # parts without a name may be empty
            said.append(ops)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MostOps, "refuse", note)
        plans = planned(job, name)
    made = max(len(plan.ops) for plan in plans.values())
    assert 0 < max(said) <= made if name in AT_LEAST else max(said) == made


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_that_is_too_large_takes_neither_time_nor_memory(name: str) -> None:
    job = large_job(name)
    Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    before_bytes, began_s = most_bytes(), time.process_time()
    with pytest.raises(TooManyOps):
        planned(job, name)
    assert time.process_time() - began_s < 3
    assert most_bytes() - before_bytes < 0.7e9


def most_bytes() -> int:
    """The most memory that this process had since its peak was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def test_memory_is_a_limit_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_size, "_free_bytes", lambda: 1000 * plan_size.BYTES_PER_OP)
    with pytest.raises(TooManyOps, match=in_order("1,001 ops", "1,000", "0.0 GB")):
        MostOps.here().refuse("ring", 1001)
    MostOps.here().refuse("ring", 1000)


def test_a_refusal_comes_back_from_another_process() -> None:
    fault = pickle.loads(pickle.dumps(TooManyOps("ring", "9 ops")))
    assert fault.name == "ring"
    assert tells(str(fault), "'ring'", "9 ops")


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
