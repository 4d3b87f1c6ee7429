"""Machines with several NICs: which of them each worker uses, what stays inside, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradwire.datatypes.plan import Plan, Role
from gradwire.documents import Document, DocumentValue
from gradwire.faults import InputFault
from gradwire.network.fabric import Topology
from gradwire.runs.compiling.ideal_times import fluid_times
from gradwire.scenario.loading import resolve
from gradwire.scenario.resolution.compilation import Compiled, compile_point
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster
from gradwire.workloads.plan_summary import summary_lines
from tests.shared.parts import tells

FABRIC: Document = {"rate": "10gbit", "topology": "leaf-spine", "leaves": 2, "spines": 2}


def compiled(
    nics: int,
    *,
    strategy: str = "ring",
    rails: bool = False,
    options: Document | None = None,
    **cluster: DocumentValue,
) -> Compiled:
    document: Document = {
        "title": "NICs",
        "cluster": {"workers": 8, "workers_per_host": 4, "nics_per_host": nics, **cluster},
        "fabric": {**FABRIC, "rails": rails},
        "model": {"name": "alexnet", "device": "k40"},
        "strategy": {"name": strategy, "options": dict(options or {})},
    }
    (point,) = resolve(document, "test.toml", "test").points
    return compile_point(point.section)


def plan_of(of_nics: Compiled) -> Plan:
    (plan,) = of_nics.plans.values()
    return plan


def test_a_machines_workers_are_divided_among_its_nics_in_order() -> None:
    of_nics = compiled(2, rails=True)
    plan = plan_of(of_nics)
    check(plan)
    assert plan.rank_host.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (of_nics.fabric.hosts, of_nics.fabric.nics_per_host, of_nics.fabric.topology) == (4, 2, Topology.LEAF_SPINE)
    assert of_nics.fabric.hosts_of_leaves == ((0, 2), (1, 3))
    assert tells(summary_lines(plan, of_nics.fabric)[0], "8 workers", "2 hosts")
    assert any(tells(line, "2 hosts", "2 NICs", "10 Gbit/s") for line in summary_lines(plan, of_nics.fabric))


def test_messages_between_nics_of_a_machine_stay_inside_it() -> None:
    one, two = plan_of(compiled(1)), plan_of(compiled(2))
    assert one.is_remote().tolist() == two.is_remote().tolist()
    crossing = two.rank_host[two.ops.rank[two.is_remote()]] // 2 != two.rank_host[two.ops.peer[two.is_remote()]] // 2
    assert np.all(crossing)
    assert one.digest() != two.digest()


@pytest.mark.parametrize("rails", [False, True])
@pytest.mark.parametrize(
    "strategy", ["vanilla", "p3", "multicast-ps", "aggregation-ps", "multicast-aggregation-ps", "kvstore"]
)
def test_servers_take_the_nics_of_their_machines_in_turn(strategy: str, rails: bool) -> None:
    of_nics = compiled(2, strategy=strategy, rails=rails, servers=2)
    plan = plan_of(of_nics)
    check(plan)
    assert plan.rank_host[plan.rank_role == Role.SERVER].tolist() == [0, 3]
    assert plan.rank_host[plan.rank_role == Role.WORKER].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    on_switches = plan.rank_host[plan.rank_role == Role.AGGREGATOR]
    assert (on_switches >= of_nics.fabric.hosts).all()
    assert all(source // 2 not in {member // 2 for member in members} for source, members in plan.multicasts())
    assert fluid_times(plan, of_nics.fabric).iteration_s > 0


def test_a_group_with_another_nic_of_its_senders_machine_is_refused() -> None:
    """What NICs of a machine exchange stays inside it, where nothing is multicast."""
    plan = plan_of(compiled(2, strategy="multicast-ps", servers=2))
    with pytest.raises(PlanError, match="sender's own host"):
        check(replace(plan, nics_per_host=4))


@pytest.mark.parametrize("rails", [False, True])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_switches_add_what_comes_by_every_nic(strategy: str, rails: bool) -> None:
    of_nics = compiled(2, strategy=strategy, options={"algorithm": "in-network"}, rails=rails)
    plan = plan_of(of_nics)
    check(plan)
    remote = plan.is_remote() & (plan.rank_role[plan.ops.rank] == Role.WORKER)
    sent = np.bincount(plan.rank_host[plan.ops.rank[remote]], plan.ops.size_bytes[remote].astype(np.float64))
    assert sent.max() == pytest.approx(sent.min(), rel=1e-5), "NICs share what a machine sends"
    assert fluid_times(plan, of_nics.fabric).iteration_s > 0


@pytest.mark.parametrize(
    ("nics", "changes", "said"),
    [
        (3, {}, "cluster.nics_per_host = 3: must divide cluster.workers_per_host = 4"),
        (
            2,
            {"stands_for": 32, "stands_for_per_host": 4},
            "cluster.stands_for: leave out cluster.nics_per_host = 2: it is",
        ),
        (4, {"rails": True}, "must be a multiple of cluster.nics_per_host = 4"),
    ],
)
def test_what_does_not_go_together_is_refused_with_its_key(nics: int, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputFault, match=said):
        compiled(nics, **changes)  # type: ignore[arg-type]


def test_a_cluster_knows_its_machines_and_their_nics() -> None:
    cluster = Cluster(8, workers_per_host=4, nics_per_host=2)
    assert (cluster.hosts, cluster.ports, cluster.worker_host(5)) == (2, 4, 1)
