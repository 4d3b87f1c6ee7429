"""Small clusters that stand for large ones: what they ask of latencies and links adds up to what the large ones ask."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import Combine, OpKind
from gradwire.faults import InputFault
from gradwire.scenario.loading import resolve
from gradwire.scenario.overrides import apply_setting
from gradwire.scenario.resolution.compilation import Compiled, compile_point
from gradwire.workloads.checker import check
from gradwire.workloads.engines.allreduce_buckets import allreduce_load
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.stand_in import AllreduceLoad, StandIn
from tests.shared.examples import examples
from tests.shared.small_allreduces import one_tensor, plan_of, sent_bytes

ALGORITHMS = ("ring", "butterfly", "halving-doubling")
SCENARIO = """
title = "A test"
[cluster]
workers = 8
workers_per_host = 2
stands_for = 32
stands_for_per_host = 8
[fabric]
rate = "56gbit"
[model]
name = "tensor"
layers = [{ name = "tensor", size = ["768KiB"], forward = "1us", backward = "0us" }]
[strategy]
name = "layer-allreduce"
[costs]
message_latency = { value = "5us", source = "made up" }
local_rate = { value = "4GB/s", source = "made up" }
aggregation_rate = { value = "9GB/s", source = "made up" }
"""
DIRECT = ("cluster.workers=32", "cluster.workers_per_host=8")


def compiled(*changes: str) -> Compiled:
    document = tomllib.loads(SCENARIO)
    for change in changes:
        apply_setting(document, change)
    (point,) = resolve(document, "test.toml", "test").points
    return compile_point(point.section)


@dataclass(frozen=True)
class Times:
    """Seconds that an iteration's allreduce spends in latencies, on the busiest ports and links, and adding, counted
    op by op."""

    latency_s: float
    network_s: float
    local_s: float
    added_s: float


def counted(point: Compiled) -> Times:
    (plan,) = point.plans.values()
    ops, costs = plan.ops, point.job.costs
    sends, remote = (ops.kind == OpKind.SEND) & (ops.chunk >= 0), plan.is_remote()
    messages = int((sends & (ops.rank == 0)).sum())
    inside = np.bincount(ops.rank[sends & ~remote], ops.size_bytes[sends & ~remote], len(plan.rank_host))
    outside = np.bincount(
        plan.rank_host[ops.rank[sends & remote]], ops.size_bytes[sends & remote], int(plan.rank_host.max()) + 1
    )
    adding = (ops.kind == OpKind.RECV) & (ops.combine == Combine.ADD)
    added = np.bincount(ops.rank[adding], ops.size_bytes[adding])
    return Times(
        messages * costs.message_latency_s,
        float(outside.max()) * 8 / point.fabric.rate_bps,
        float(inside.max()) / costs.local_bytes_per_s,
        float(added.max()) / costs.aggregation_bytes_per_s,
    )


@pytest.mark.parametrize("strategy", ["layer-allreduce", "butterfly"])
def test_a_stand_in_spends_as_long_on_everything(strategy: str) -> None:
    direct, scaled = (counted(compiled(f"strategy.name={strategy}", *changes)) for changes in (DIRECT, ()))
    assert scaled.latency_s == pytest.approx(direct.latency_s, rel=1e-9)
    assert scaled.network_s == pytest.approx(direct.network_s, rel=1e-9)
    assert scaled.local_s == pytest.approx(direct.local_s, rel=1e-9)
    assert scaled.added_s == pytest.approx(direct.added_s, rel=1e-9)


@settings(max_examples=examples(40))
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    machines=st.sampled_from([2, 4, 8]),
    per_machine=st.sampled_from([1, 2, 4]),
)
def test_the_closed_forms_count_what_plans_send(algorithm: str, machines: int, per_machine: int) -> None:
    workers = machines * per_machine
    values = workers * 24
    job = one_tensor(values, workers, per_host=per_machine, costs=Costs(message_latency_s=1e-5))
    name = "layer-allreduce" if algorithm == "ring" else algorithm
    plan = plan_of(job, name)
    load = allreduce_load(algorithm, job.cluster)
    assert sent_bytes(plan).max() == pytest.approx(load.network * values * 4)
    inside = sent_bytes(plan, remote=False)
    busiest = inside.max() / per_machine if algorithm != "ring" else inside.max() / max(1, per_machine - 1)
    assert busiest == pytest.approx(load.local * values * 4)
    paying = (plan.ops.kind == OpKind.SEND) & (plan.ops.duration_ns > 0) & (plan.ops.rank == 0)
    assert paying.sum() == load.messages


def test_gradientflows_formula_at_512_workers() -> None:
    """Section 2.4: 2 (N - 1) messages and 2 (N - 1) / N K bytes through every GPU."""
    load = allreduce_load("ring", Cluster(512, workers_per_host=8))
    assert (load.messages, load.network) == (1022, 1022 / 512)


def test_samples_are_those_of_the_cluster_that_is_meant() -> None:
    point = compiled("cluster.stands_for=512")
    assert point.job.samples == 512
    (plan,) = point.plans.values()
    assert (plan.samples, len(plan.workers)) == (512, 8)
    check(plan)


def test_a_cluster_that_stands_for_itself_is_scaled_by_nothing() -> None:
    itself = compiled("cluster.stands_for=8", "cluster.stands_for_per_host=2")
    assert itself.job.costs.message_latency_s == pytest.approx(5e-6)
    assert itself.fabric.rate_bps == 56e9


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["strategy.name=vanilla"], "not known how strategy 'vanilla' grows"),
        (["strategy.name=hierarchical-ring"], "not known how strategy 'hierarchical-ring' grows"),
        (["strategy.options.algorithm=hierarchical-ring"], "no closed form for 'hierarchical-ring'"),
        (["strategy.name=ring", "strategy.options.messaging=false"], "no closed form for 'ring of whole parameters'"),
        (["cluster.stands_for=4"], "must be at least cluster.workers = 8"),
        (["cluster.stands_for=36"], "a multiple of cluster.stands_for_per_host = 8"),
        (["cluster.workers_per_host=1"], "machines of one worker cannot stand"),
        (["cluster.workers_per_host=8"], "cannot stand for several machines"),
        (["strategy.name=butterfly", "cluster.stands_for=48"], "6 machines"),
    ],
)
def test_what_cannot_be_stood_for_is_refused(changes: list[str], said: str) -> None:
    with pytest.raises(InputFault, match=said):
        compiled(*changes)


def test_a_cost_that_neither_cluster_has_stays() -> None:
    free = AllreduceLoad(1, 1, 0, 0)
    costs = StandIn(free, AllreduceLoad(2, 2, 0, 0)).costs(Costs(local_bytes_per_s=3.0, aggregation_bytes_per_s=4.0))
    assert (costs.local_bytes_per_s, costs.aggregation_bytes_per_s) == (3.0, 4.0)


def test_a_latency_inside_machines_is_refused() -> None:
    with pytest.raises(InputFault, match=r"costs\.local_latency: "):
        StandIn(AllreduceLoad(1, 1, 0, 0), AllreduceLoad(2, 2, 0, 0)).costs(Costs(local_latency_s=1e-6))
