"""Switches that add and copy: every strategy's plans by them are sound, and take as long and send as much as can be
said by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.runs.compiling.ideal_times import fluid_times
from gradwire.workloads.checker import check
from gradwire.workloads.engines.collectives.in_network import Tree, all_reduce
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.job import Costs, Job
from gradwire.workloads.strategy_registry import strategy
from tests.shared.parts import in_order
from tests.shared.small_jobs import dependencies
from tests.unit.workloads.engines.collectives.test_algorithms import replayed
from tests.unit.workloads.strategies.test_fsdp import blocks
from tests.unit.workloads.strategies.test_megatron import small_transformer

NAME, WORKERS, RATE_BPS = "in-network", 8, 10e9
SIZE = WORKERS << 20
ONE_SWITCH = Fabric(WORKERS, RATE_BPS, aggregators=True)
TWO_TIERS = replace(ONE_SWITCH, topology=Topology.LEAF_SPINE, leaves=2, spines=2)
REDUCING = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)


def on(fabric: Fabric, per_host: int) -> Fabric:
    return replace(fabric, hosts=WORKERS // per_host)


def compiled(job: Job, name: str, options: dict[str, Any]) -> Plan:
    chosen = strategy(name)
    settings = chosen.options.model_validate({"algorithm": NAME, **options})
    assert chosen.aggregators(settings)
    assert not chosen.aggregators(chosen.options())
    (plan,) = chosen.compile(job, settings).values()
    return plan


@pytest.mark.parametrize("per_host", [1, 2])
@pytest.mark.parametrize("fabric", [ONE_SWITCH, TWO_TIERS], ids=["one switch", "two tiers"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ddp", {}),
        ("fsdp", {}),
        ("fsdp", {"shard": 4}),
        ("fsdp", {"shard": 2}),
        ("megatron", {"tensor": 2}),
        ("megatron", {"overlap_gradients": True, "sharded_optimizer": True, "bucket_parameters": 50}),
    ],
)
def test_strategies_on_switches_are_sound(name: str, options: dict[str, Any], fabric: Fabric, per_host: int) -> None:
    job = small_transformer(2, WORKERS, per_host=per_host)
    plan = compiled(replace(job, fabric=on(fabric, per_host), costs=Costs(1e9, 1e-6)), name, options)
    check(plan)
    assert (plan.ops.rank[plan.rank_role[plan.ops.rank] == Role.AGGREGATOR]).size
    reduces = plan.ops.rank[plan.ops.kind == OpKind.REDUCE]
    assert (plan.rank_role[reduces] == Role.WORKER).all(), "switches add at no cost"


@pytest.mark.parametrize(("spines", "beside"), [(2, 2), (4, 2), (2, 4), (3, 2)])
def test_every_place_of_a_machine_sends_by_every_spine(spines: int, beside: int) -> None:
    """Four machines on two leaves. A part for each place and spine together, and as many of them past each spine and
    from each member."""
    members = 4 * beside
    machines = [range(first, first + beside) for first in range(0, members, beside)]
    tree = Tree(machines, tuple(member // (2 * beside) for member in range(members)), leaves=2, spines=spines)
    schedule = all_reduce(tree)
    assert schedule.parts == beside * spines
    leaves = range(members, members + 2)
    rail = {part: src % beside for src, dst, part in schedule.rows[:, :3].tolist() if src < members and dst in leaves}
    passed = {
        (rail[part], dst)
        for src, dst, part in schedule.rows[:, :3].tolist()
        if src in leaves and dst not in range(members + 2)
    }
    assert passed == {(one, members + 2 + spine) for one in range(beside) for spine in range(spines)}


def sent_by_hosts(plan: Plan) -> list[int]:
    """Bytes of payload that each host hands to its port."""
    sends = np.flatnonzero(plan.is_remote())
    sent: list[int] = np.bincount(plan.rank_host[plan.ops.rank[sends]], plan.ops.size_bytes[sends]).astype(int).tolist()
    return sent[:WORKERS]


@pytest.mark.parametrize("fabric", [ONE_SWITCH, TWO_TIERS], ids=["one switch", "two tiers"])
@pytest.mark.parametrize(
    ("kind", "sent", "busiest"),
    [
        # All of the buffer goes up once, and comes down once; a piece later, as all have 64.
        (Collective.ALL_REDUCE, SIZE, SIZE),
        (Collective.REDUCE_SCATTER, SIZE * 7 // 8, SIZE * 7 // 8),
        # Each sends its own part, and gets those of the seven others.
        (Collective.ALL_GATHER, SIZE, 7 * SIZE),
        (Collective.REDUCE, SIZE, SIZE),
    ],
)
def test_every_line_carries_a_part_once(kind: Collective, sent: int, busiest: int, fabric: Fabric) -> None:
    plan = replayed(kind, NAME, WORKERS, fabric=fabric, size=SIZE)
    check(plan)
    of_members = sent_by_hosts(plan)
    assert of_members == [0 if kind is Collective.REDUCE and host == 1 else sent for host in range(WORKERS)]
    share = fabric.multicast_goodput_share() if kind is Collective.ALL_GATHER else fabric.goodput_share()
    assert fluid_times(plan, fabric).iteration_s == pytest.approx(busiest * 8 / (RATE_BPS * share), rel=0.07)


@pytest.mark.parametrize("per_host", [1, 2, 4])
def test_members_of_a_machine_send_no_more_than_one_would(per_host: int) -> None:
    """They add up inside, and divide what goes up among them: the machine's port carries the buffer once, whoever
    shares it."""
    fabric = on(ONE_SWITCH, per_host)
    hosts = WORKERS // per_host
    plan = replayed(Collective.ALL_REDUCE, NAME, WORKERS, per_machine=per_host, fabric=fabric, size=SIZE)
    check(plan)
    assert sent_by_hosts(plan)[:hosts] == [SIZE] * hosts
    gathered = replayed(Collective.ALL_GATHER, NAME, WORKERS, per_machine=per_host, fabric=fabric, size=SIZE)
    check(gathered)
    assert sent_by_hosts(gathered)[:hosts] == [SIZE * per_host] * hosts
    assert len(gathered.multicasts()) == hosts


@pytest.mark.parametrize("kind", REDUCING)
def test_machines_of_different_numbers_of_members_take_part(kind: Collective) -> None:
    """A group of three on two machines."""
    plan = replayed(kind, NAME, 3, per_machine=3)
    check(plan)
    assert not plan.is_remote().any(), "nobody else has to know"


def test_a_switch_begins_a_sum_when_it_has_passed_on_the_one_before() -> None:
    """A member that has its own part may begin the next iteration before others have sent what the switch still adds
    up."""
    plan = replayed(Collective.REDUCE_SCATTER, NAME, WORKERS, fabric=ONE_SWITCH)
    ops = plan.ops
    at_switch = plan.rank_role[ops.rank] == Role.AGGREGATOR
    waits = {(op, on) for op, on, lag in dependencies(plan) if lag and at_switch[op]}
    passed_on = {int(ops.chunk[op]): op for op in np.flatnonzero(at_switch & (ops.kind == OpKind.SEND)).tolist()}
    arrivals = np.flatnonzero(at_switch & (ops.kind == OpKind.RECV)).tolist()
    assert waits == {(op, passed_on[int(ops.chunk[op])]) for op in arrivals}


def test_the_same_shards_are_summed_apart_in_every_group() -> None:
    """Hybrid sharding: each group has ranks of its own at a switch, and the sums among groups have others."""
    job = replace(blocks(1, WORKERS), fabric=ONE_SWITCH)
    plan = compiled(job, "fsdp", {"shard": 4})
    check(plan)
    at_switch = np.flatnonzero(plan.rank_role == Role.AGGREGATOR)
    sums = [
        set(plan.ops.rank[plan.ops.message[(plan.ops.kind == OpKind.RECV) & (plan.ops.rank == one)]].tolist())
        for one in at_switch
    ]
    assert sums == [{0, 1, 2, 3}, {4, 5, 6, 7}, set(range(8))]


def test_shards_that_cannot_be_cut_for_all_spines_are_refused() -> None:
    job = replace(blocks(1, 6), fabric=replace(TWO_TIERS, hosts=6))
    with pytest.raises(InputFault, match=in_order("'in-network':", "among 3", "2 parts")):
        compiled(job, "fsdp", {"shard": 2})
