"""Multicast and in-network aggregation on real switches: NetOps' toys against times by hand, one copy a link, and injected loss.

That every replay ends at all shows that each rank held each contribution exactly once: agents compare real headers with the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.bounds import bounds
from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, IP_TCP_HEADER_BYTES, IP_UDP_HEADER_BYTES, Fabric, Topology
from gradwire.runs.replay import COUNTERS, ReplayedPlan, replay_plans
from gradwire.vm.kernel import cached_kernel
from gradwire.workloads.checker import check
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.strategy_registry import strategy

pytestmark = pytest.mark.kernel

CLOSE = 0.03
UNIT_S = 0.003
SINGLE = Fabric(hosts=5, rate_bps=10e9, classes=1, aggregators=True)
LEAF_SPINE = replace(SINGLE, hosts=8, topology=Topology.LEAF_SPINE, leaves=2, spines=2)
LOSSY = replace(SINGLE, loss=0.01, gso_bytes=SINGLE.mtu_bytes + ETHERNET_HEADER_BYTES)
"""Packet by packet, for netem loses a burst as a whole."""
UNIT_PARAMETERS = round(SINGLE.rate_bps / 8 * SINGLE.goodput_share() * UNIT_S / BYTES_PER_PARAMETER)
"""What a port carries in a unit."""
FINE = 25_000
"""Parameters of a message where a switch shall forward as it receives: a hundredth of an op's three units."""
ITERATIONS = 2


def job_of(layers: list[float], compute_units: float, cluster: Cluster, fabric: Fabric) -> Job:
    """A chain of layers of so many units of transfer, whose backward ops take `compute_units` each and whose forward ops take nothing."""
    chain = tuple(
        Layer(f"l{i}", LayerKind.FC, (Tensor(f"l{i}", round(size * UNIT_PARAMETERS)),), 1.0, (i - 1,) if i else ())
        for i, size in enumerate(layers)
    )
    times = ComputeTime((0.0,) * len(layers), (compute_units * UNIT_S,) * len(layers), "NetOps, Fig. 2")
    return Job(Profile("toy", chain, 1, "NetOps"), times, cluster, 1, fabric=fabric)


def plan_of(job: Job, name: str, options: Mapping[str, Any]) -> Plan:
    chosen = strategy(name)
    plan = chosen.compile(job, chosen.options.model_validate(options))[name]
    check(plan)
    return plan


def staggered(plan: Plan) -> Plan:
    """The second worker's backward pass begins three units late."""
    layers = plan.ops.layer[(plan.ops.rank == 1) & (plan.ops.kind == OpKind.COMPUTE)].max()
    last_forward = np.flatnonzero(
        (plan.ops.rank == 1) & (plan.ops.kind == OpKind.COMPUTE) & (plan.ops.layer == layers)
    )[0]
    duration_ns = plan.ops.duration_ns.copy()
    duration_ns[last_forward] = round(3 * UNIT_S * 1e9)
    return replace(plan, ops=replace(plan.ops, duration_ns=duration_ns))


def fig_2() -> dict[str, Plan]:
    """Three ops of 3 units to compute and 3 to send, two workers; parameters come by multicast, at the same time for both."""
    job = job_of([3, 3, 3], 3, Cluster(2, 1, colocated=False), SINGLE)
    none = plan_of(job, "multicast-ps", {})
    adding = plan_of(job, "multicast-aggregation-ps", {"message_parameters": FINE})
    return {"none": none, "agg": adding, "none, staggered": staggered(none), "agg, staggered": staggered(adding)}


def run(fabric: Fabric, plans: Mapping[str, Plan]) -> dict[str, ReplayedPlan]:
    return replay_plans(plans, fabric, ITERATIONS, reads=COUNTERS)


@pytest.fixture(scope="module")
def single(virtual_kernel: object) -> dict[str, ReplayedPlan]:
    assert cached_kernel() is not None
    idle = job_of([4, 4], 0, Cluster(4, 1, colocated=False), SINGLE)
    ring = job_of([4, 4], 0, Cluster(4), SINGLE)
    bounded = {"message_parameters": FINE, "switch_memory_bytes": 40 * FINE * BYTES_PER_PARAMETER}
    plans = {
        "multicast": plan_of(idle, "multicast-ps", {}),
        "both": plan_of(idle, "multicast-aggregation-ps", {"message_parameters": FINE}),
        "bounded": plan_of(idle, "multicast-aggregation-ps", bounded),
        "ring": plan_of(ring, "ring-multicast", {"message_parameters": FINE}),
    }
    return run(SINGLE, {**fig_2(), **plans})


def adding_units(replayed: ReplayedPlan) -> float:
    """From the first backward op's start to the last gradient's arrival at the server, in units, in the last iteration."""
    ops, log = replayed.plan.ops, replayed.log
    now = log.iteration == ITERATIONS - 1
    last_layer = ops.layer.max()
    backward = (ops.kind == OpKind.COMPUTE) & (ops.layer == last_layer) & (ops.rank == 0) & (ops.duration_ns > 0)
    arrivals = (ops.kind == OpKind.RECV) & (ops.chunk >= 0) & (replayed.plan.rank_role[ops.rank] == Role.SERVER)
    return (
        float(log.end_ns[now & arrivals[log.op]].max() - log.nominal_start_ns[now & backward[log.op]].min())
        / UNIT_S
        / 1e9
    )


@pytest.mark.parametrize(
    ("name", "units"), [("none", 21), ("agg", 12), ("none, staggered", 21), ("agg, staggered", 15)]
)
def test_netops_fig_2(single: dict[str, ReplayedPlan], name: str, units: float) -> None:
    assert adding_units(single[name]) == pytest.approx(units, rel=CLOSE)


@pytest.mark.parametrize(
    ("name", "units"),
    [
        # Four workers: the model goes down once and up four times; with aggregation, up once.
        ("multicast", 8 * (1 + 4)),
        ("both", 8 * (1 + 1)),
        # Each worker has 3/4 of the model come in twice.
        ("ring", 8 * 2 * 3 / 4),
    ],
)
def test_closed_forms_of_a_model_without_computation(single: dict[str, ReplayedPlan], name: str, units: float) -> None:
    replayed = single[name]
    iteration_s = iteration_times_s(replayed.plan, replayed.log, ITERATIONS)[-1]
    assert iteration_s / UNIT_S == pytest.approx(units, rel=CLOSE)
    assert iteration_s >= bounds(replayed.plan, SINGLE).lower_bound_s


def test_enough_switch_memory_costs_no_time(single: dict[str, ReplayedPlan]) -> None:
    """4 MB are three milliseconds of a port at 10 Gbit/s: tokens come long before senders have nothing left to send."""
    times = [iteration_times_s(single[name].plan, single[name].log, ITERATIONS)[-1] for name in ("bounded", "both")]
    assert times[0] == pytest.approx(times[1], rel=CLOSE)


def test_a_lossless_fabric_loses_repairs_and_floods_nothing(single: dict[str, ReplayedPlan]) -> None:
    for name, replayed in single.items():
        assert replayed.counts is not None
        assert replayed.repairs == 0, name
        assert sum(band.drops for band in replayed.counts.bands) == 0, name
        assert (replayed.counts.tcp_retransmits, replayed.counts.table_miss_packets) == (0, 0), name


@pytest.fixture(scope="module")
def leaf_spine(virtual_kernel: object) -> dict[str, ReplayedPlan]:
    job = job_of([2, 1], 1, Cluster(6, 2, colocated=False), LEAF_SPINE)
    plans = {"both": plan_of(job, "multicast-aggregation-ps", {"placement": "split", "message_parameters": FINE})}
    ring = job_of([2, 1], 1, Cluster(8), LEAF_SPINE)
    plans["ring"] = plan_of(ring, "ring-multicast", {"message_parameters": 0})
    return run(LEAF_SPINE, plans)


def sent_bytes(replayed: ReplayedPlan, ports: list[str]) -> int:
    """What data bands of ports (as the fabric names them) sent in all iterations."""
    assert replayed.counts is not None
    return sum(band.bytes_sent for band in replayed.counts.bands if band.band > 0 and band.port in ports)


def frames(size_bytes: float, headers: int) -> float:
    """Bytes of full frames as tc counts them."""
    return size_bytes * (1500 + ETHERNET_HEADER_BYTES) / (1500 - headers)


def test_each_link_of_a_leaf_and_spine_fabric_carries_one_copy_and_one_result(
    leaf_spine: dict[str, ReplayedPlan],
) -> None:
    """Six workers (four on leaf 1), two servers on leaf 2, each with half of the model."""
    replayed = leaf_spine["both"]
    model_bytes = float(replayed.plan.chunk_bytes.sum()) * ITERATIONS
    down, up = frames(model_bytes, IP_UDP_HEADER_BYTES), frames(model_bytes, IP_TCP_HEADER_BYTES)
    uplinks = {name: [f"{name}-eth5", f"{name}-eth6"] for name in ("s1", "s2")}
    downlinks = {leaf: [f"{spine}-eth{leaf}" for spine in ("s3", "s4")] for leaf in (1, 2)}
    expected: dict[tuple[str, ...], float] = {
        **{(f"h{host}-eth0",): up for host in range(1, 7)},
        **{(f"h{host}-eth0",): down / 2 for host in (7, 8)},
        **{(f"s1-eth{port}",): down for port in range(1, 5)},
        **{(f"s2-eth{port}",): down for port in (1, 2)},
        **{(f"s2-eth{port}",): up / 2 for port in (3, 4)},
        tuple(uplinks["s1"]): up,
        tuple(downlinks[2]): up,
        tuple(uplinks["s2"]): down,
        tuple(downlinks[1]): down,
    }
    for ports, size_bytes in expected.items():
        assert sent_bytes(replayed, list(ports)) == pytest.approx(size_bytes, rel=CLOSE), ports


def test_leaf_and_spine_multicast_is_never_below_its_bound_and_repairs_nothing(
    leaf_spine: dict[str, ReplayedPlan],
) -> None:
    for name, replayed in leaf_spine.items():
        assert replayed.repairs == 0, name
        mean_s = iteration_times_s(replayed.plan, replayed.log, ITERATIONS)[-1]
        assert mean_s >= bounds(replayed.plan, replayed.fabric).lower_bound_s * 0.999, name


@pytest.fixture(scope="module")
def lossy(virtual_kernel: object) -> dict[str, ReplayedPlan]:
    job = job_of([0.5, 0.4], 0.1, Cluster(4, 1, colocated=False), LOSSY)
    ring = job_of([0.5, 0.4], 0.1, Cluster(5), LOSSY)
    plans = {
        "multicast": plan_of(job, "multicast-ps", {}),
        "aggregation": plan_of(job, "aggregation-ps", {}),
        "both": plan_of(
            job, "multicast-aggregation-ps", {"message_parameters": 50_000, "switch_memory_bytes": 800_000}
        ),
        "ring": plan_of(ring, "ring-multicast", {}),
    }
    return run(LOSSY, plans)


@pytest.mark.parametrize("name", ["multicast", "aggregation", "both", "ring"])
def test_loss_costs_time_and_never_data(lossy: dict[str, ReplayedPlan], name: str) -> None:
    replayed = lossy[name]
    assert replayed.counts is not None
    done = np.bincount(replayed.log.iteration * len(replayed.plan.ops) + replayed.log.op)
    assert (len(done), set(done.tolist())) == (ITERATIONS * len(replayed.plan.ops), {1})
    assert sum(band.drops for band in replayed.counts.bands) > 0
    resent = replayed.counts.tcp_retransmits if name == "aggregation" else replayed.repairs
    assert resent > 0
    assert iteration_times_s(replayed.plan, replayed.log, ITERATIONS)[-1] > bounds(replayed.plan, LOSSY).lower_bound_s
