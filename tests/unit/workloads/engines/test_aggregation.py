"""In-network aggregation: where aggregators are, what their switches are told, and plans that add on the way."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.analysis.bounds import bounds
from gradwire.controller.switch_flows import switch_rules, trace
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology, dscp_of_band
from gradwire.topo.netlink.addresses import neighbour_requests
from gradwire.topo.tc import Classify, Shaper, port_commands
from gradwire.topo.wiring import Naming, link_commands
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import BYTES_PER_PARAMETER, Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared.examples import examples
from tests.shared.fabric_links import link_bytes, supported_jobs
from tests.shared.small_jobs import compiled, dependencies, job_of, profile_of, with_cell, with_dependencies, without_op

PATCHED = Shaper(exact_timers=True, charges_frames=True)
SINGLE = Fabric(3, 1e9, aggregators=True)
LEAF_SPINE = Fabric(4, 1e9, Topology.LEAF_SPINE, leaves=2, spines=2, aggregators=True)


def test_an_aggregator_is_on_every_switch_at_a_port_without_limit() -> None:
    extra = LEAF_SPINE.links()[-4:]
    assert [(link.a.interface, link.b.interface) for link in extra] == [
        ("a1-eth0", "s1-eth5"),
        ("a2-eth0", "s2-eth5"),
        ("a3-eth0", "s3-eth3"),
        ("a4-eth0", "s4-eth3"),
    ]
    assert {link.rate_bps for link in extra} == {float("inf")}
    assert LEAF_SPINE.endpoint_names() == ["h1", "h2", "h3", "h4", "a1", "a2", "a3", "a4"]
    assert [LEAF_SPINE.switch_of(endpoint) for endpoint in range(8)] == [0, 0, 1, 1, 0, 1, 2, 3]
    assert replace(LEAF_SPINE, aggregators=False).endpoints == 4
    with pytest.raises(InputFault, match="aggregators=True"):
        replace(LEAF_SPINE, aggregators=False).aggregator_of(0)


def test_aggregators_are_wired_as_hosts() -> None:
    pids = {name: 100 + index for index, name in enumerate(SINGLE.endpoint_names())}
    command = " ".join(link_commands(SINGLE.links()[-1], Naming(SINGLE), pids)[0])
    assert command.startswith("link add s1-eth4 ")
    assert command.endswith("peer name a1-eth0 mtu 1500 gso_max_size 65536 address 02:00:00:00:00:04 netns 103")
    neighbours = [request.words.split()[3] for request in neighbour_requests(SINGLE, 2)]
    assert neighbours == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]


@pytest.mark.parametrize("has_prio", [True, False])
def test_a_port_without_limit_keeps_its_bands(has_prio: bool) -> None:
    commands = port_commands(
        "a1-eth0",
        float("inf"),
        SINGLE,
        has_prio=has_prio,
        classify=Classify.SKB_PRIORITY,
        has_fq=False,
        shaper=PATCHED,
    )
    text = [" ".join(command) for command in commands]
    assert [line for line in text if "pfifo" in line and "parent 1:" in line] == [
        line for line in text if "pfifo" in line
    ]
    assert any("htb" in line for line in text) is not has_prio
    assert not any("inf" in line.split() for line in text)


@settings(max_examples=examples(30))
@given(
    leaves=st.integers(1, 3),
    each=st.integers(1, 3),
    spines=st.integers(1, 3),
    seed=st.integers(0, 99),
    dscp=st.just(45),
)
def test_every_hop_of_every_tree_has_its_path(leaves: int, each: int, spines: int, seed: int, dscp: int) -> None:
    """Host to its leaf's aggregator, leaf to spine aggregators, and back; hosts of other leaves from any aggregator."""
    fabric = Fabric(leaves * each, 1e9, Topology.LEAF_SPINE, leaves=leaves, spines=spines, seed=seed, aggregators=True)
    rules = switch_rules(fabric)
    ends = {(link.b.device, link.b.number): link.a.device for link in fabric.links() if link.a.number == 0}
    names = fabric.endpoint_names()
    for source in range(fabric.endpoints):
        for target in range(fabric.endpoints):
            between_spines = min(fabric.switch_of(source), fabric.switch_of(target)) >= leaves
            if source == target or (between_spines and fabric.switch_of(source) != fabric.switch_of(target)):
                continue
            last = trace(fabric, rules, source, target, dscp_of_band(1))[-1]
            assert ends[last.switch, last.output_port] == names[target]


@st.composite
def aggregated(draw: st.DrawFn) -> tuple[Job, Plan]:
    job = draw(supported_jobs())
    options = {
        "barrier": draw(st.booleans()),
        "placement": draw(st.sampled_from(["whole", "split"])),
        "message_parameters": 60,
        "switch_memory_bytes": draw(st.sampled_from([0, 240, 700])),
    }
    return job, compiled(job, "multicast-aggregation-ps", options)["multicast-aggregation-ps"]


@settings(max_examples=examples(40))
@given(aggregated())
def test_one_result_a_chunk_on_each_link_and_the_server_gets_one(example: tuple[Job, Plan]) -> None:
    job, plan = example
    check(plan)
    assert job.fabric is not None
    pushes = np.isin(plan.rank_role[plan.ops.rank], (Role.WORKER, Role.AGGREGATOR)) & (plan.ops.kind == OpKind.SEND)
    chunk = np.where(pushes[np.maximum(plan.ops.message, 0)], plan.ops.chunk, -1).astype(np.int32)
    bytes_of = link_bytes(replace(plan, ops=replace(plan.ops, chunk=chunk)), job.fabric)
    model_bytes, cluster = job.profile.parameters * BYTES_PER_PARAMETER, job.cluster
    arriving = np.zeros(max(cluster.hosts, plan.hosts), np.int64)
    direct = pushes & (plan.ops.chunk >= 0) & (plan.ops.group == 0)
    for send in np.flatnonzero(direct & (plan.rank_role[plan.ops.peer] == Role.SERVER) & plan.is_remote()).tolist():
        arriving[plan.rank_host[plan.ops.peer[send]]] += plan.ops.size_bytes[send]
    for host, name in enumerate(job.fabric.host_names()):
        link = job.fabric.links()[host]
        held = arriving[host]
        assert bytes_of[link.b.device, link.b.number] == held
        # A worker sends all but what goes to a server on its own host.
        local = local_bytes(plan, host)
        assert bytes_of[name, 0] == (model_bytes - local if host < cluster.worker_hosts else 0)
    assert arriving.sum() <= model_bytes
    for link in job.fabric.links()[job.fabric.hosts :]:
        if "a" not in link.a.device:
            assert bytes_of[link.a.device, link.a.number] <= model_bytes
            assert bytes_of[link.b.device, link.b.number] <= model_bytes


def local_bytes(plan: Plan, host: int) -> int:
    ops = plan.ops
    sends = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (plan.rank_role[ops.rank] == Role.WORKER) & ~plan.is_remote()
    return int(ops.size_bytes[sends & (plan.rank_host[ops.rank] == host)].sum())


def test_a_far_leafs_result_crosses_each_switch_once() -> None:
    """Two leaves of two hosts, three workers and a server: by hand."""
    profile = profile_of([(LayerKind.FC, [250])])
    job = replace(job_of(profile, Cluster(3, 1, colocated=False)), fabric=LEAF_SPINE)
    plan = compiled(job, "aggregation-ps", {})["aggregation-ps"]
    pushes = plan.rank_role[plan.ops.rank] != Role.SERVER
    chunk = np.where(pushes[np.maximum(plan.ops.message, 0)], plan.ops.chunk, -1).astype(np.int32)
    bytes_of = link_bytes(replace(plan, ops=replace(plan.ops, chunk=chunk)), LEAF_SPINE)
    spine = 2 + (job.seed + 0) % 2
    up, down = ("s1", 3 + spine - 2), (f"s{spine + 1}", 2)
    assert bytes_of == {
        **{(name, 0): 1000 for name in ("h1", "h2", "h3", "a1", "a2", f"a{spine + 1}")},
        ("s1", 5): 2000,
        up: 1000,
        (f"s{spine + 1}", 3): 1000,
        down: 1000,
        ("s2", 5): 2000,
        ("s2", 2): 1000,
    }


def most_held_bytes(plan: Plan, seed: int) -> int:
    """Most bytes of sums at any aggregator while the first iteration's ops are carried out in a random order.

    A sum is held from the first RECV of its chunk until the next switch or server has it.
    """
    ops, count = plan.ops, len(plan.ops)
    waits, successors = [0] * count, [list[int]() for _ in range(count)]
    edges = [(on, op) for op, on, lag in dependencies(plan) if not lag]
    edges += [(int(ops.message[recv]), int(recv)) for recv in np.flatnonzero(ops.kind == OpKind.RECV)]
    for before, after in edges:
        successors[before].append(after)
        waits[after] += 1
    ready, order = [op for op in range(count) if not waits[op]], random.Random(seed)
    held: dict[int, set[int]] = {}
    most = done = 0
    while ready:
        op = ready.pop(order.randrange(len(ready)))
        done += 1
        rank, chunk = int(ops.rank[op]), int(ops.chunk[op])
        if ops.kind[op] == OpKind.RECV and chunk >= 0:
            held.get(int(ops.peer[op]), set()).discard(chunk)
            if plan.rank_role[rank] == Role.AGGREGATOR:
                held.setdefault(rank, set()).add(chunk)
        most = max([most, *(int(plan.chunk_bytes[list(chunks)].sum()) for chunks in held.values())])
        for after in successors[op]:
            waits[after] -= 1
            if not waits[after]:
                ready.append(after)
    assert done == count
    return most


@settings(max_examples=examples(40))
@given(job=supported_jobs(), memory_bytes=st.sampled_from([200, 500, 900]), seed=st.integers(0, 99))
def test_no_switch_ever_holds_more_than_its_memory(job: Job, memory_bytes: int, seed: int) -> None:
    options = {"message_parameters": 50, "switch_memory_bytes": memory_bytes}
    plan = compiled(job, "aggregation-ps", options)["aggregation-ps"]
    check(plan)
    assert most_held_bytes(plan, seed) <= memory_bytes


def test_without_a_bound_a_switch_may_hold_the_whole_model() -> None:
    """So the test above can fail."""
    profile = profile_of([(LayerKind.FC, [50] * 8)])
    plan = compiled(job_of(profile, Cluster(4, 1, colocated=False)), "aggregation-ps", {})["aggregation-ps"]
    assert max(most_held_bytes(plan, seed) for seed in range(20)) > 900


def test_a_chunk_beyond_the_memory_is_refused_with_what_would_fit() -> None:
    profile = profile_of([(LayerKind.FC, [50])])
    with pytest.raises(InputFault, match="message_parameters = 25"):
        compiled(job_of(profile, Cluster(2, 1, colocated=False)), "aggregation-ps", {"switch_memory_bytes": 100})


def test_broken_aggregation_is_refused() -> None:
    profile = profile_of([(LayerKind.CONV, [10]), (LayerKind.FC, [30])])
    job = replace(job_of(profile, Cluster(3, 1, colocated=False)), fabric=LEAF_SPINE)
    plan = compiled(job, "aggregation-ps", {})["aggregation-ps"]
    ops = plan.ops
    at_switch = plan.rank_role[ops.rank] == Role.AGGREGATOR
    for recv in np.flatnonzero(at_switch & (ops.kind == OpKind.RECV)).tolist():
        kept = [dep for dep in dependencies(plan) if dep[1] != recv]
        with pytest.raises(PlanError):  # forwards before that worker's gradient has come
            check(with_dependencies(plan, kept))
        with pytest.raises(PlanError):
            check(without_op(plan, recv))
        with pytest.raises(PlanError):
            check(with_cell(plan, "combine", recv, 2))
    for send in np.flatnonzero(at_switch & (ops.kind == OpKind.SEND)).tolist():
        with pytest.raises(PlanError):
            check(without_op(plan, send))


def test_bounds_know_that_one_result_arrives_and_no_aggregator_is_slow() -> None:
    """NetOps, Fig. 2: the server's link carries each gradient once instead of twice."""
    profile = profile_of([(LayerKind.FC, [2500])] * 3)
    job = replace(job_of(profile, Cluster(2, 1, colocated=False)), fabric=SINGLE)
    plan = compiled(job, "multicast-aggregation-ps", {})["multicast-aggregation-ps"]
    bandwidth_s = bounds(plan, SINGLE).bandwidth_s
    line_bits = 30_000 * 8 / SINGLE.goodput_share()
    assert bandwidth_s == pytest.approx(line_bits / 1e9, rel=0.01)
