"""Machines with several NICs: which of them each worker uses, what stays inside, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.faults import InputFault
from gradwire.topo.fabric import Topology
from gradwire.workloads.checker import check
from gradwire.workloads.compilation import Compiled, compile_point
from gradwire.workloads.job import Cluster
from gradwire.workloads.plan import Plan
from gradwire.workloads.scenario.loading import resolve
from gradwire.workloads.summary import summary_lines

FABRIC = {"rate": "10gbit", "topology": "leaf-spine", "leaves": 2, "spines": 2}


def compiled(nics: int, *, strategy: str = "ring", rails: bool = False, **cluster: object) -> Compiled:
    document = {
        "title": "NICs",
        "cluster": {"workers": 8, "workers_per_host": 4, "nics_per_host": nics, **cluster},
        "fabric": {**FABRIC, "rails": rails},
        "model": {"name": "alexnet", "device": "k40"},
        "strategy": {"name": strategy},
    }
    (point,) = resolve(document, "test.toml", "test").points
    return compile_point(point.section)


def plan_of(found: Compiled) -> Plan:
    (plan,) = found.plans.values()
    return plan


def test_a_machines_workers_are_divided_among_its_nics_in_order() -> None:
    found = compiled(2, rails=True)
    plan = plan_of(found)
    check(plan)
    assert plan.rank_host.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (found.fabric.hosts, found.fabric.nics_per_host, found.fabric.topology) == (4, 2, Topology.LEAF_SPINE)
    assert found.fabric.hosts_of_leaves == ((0, 2), (1, 3))
    assert "8 workers on 2 hosts" in summary_lines(plan, found.fabric)[0]
    assert any("2 hosts with 2 NICs each at 10 Gbit/s" in line for line in summary_lines(plan, found.fabric))


def test_messages_between_nics_of_a_machine_stay_inside_it() -> None:
    one, two = plan_of(compiled(1)), plan_of(compiled(2))
    assert one.is_remote().tolist() == two.is_remote().tolist()
    crossing = two.rank_host[two.ops.rank[two.is_remote()]] // 2 != two.rank_host[two.ops.peer[two.is_remote()]] // 2
    assert np.all(crossing)
    assert one.digest() != two.digest()


@pytest.mark.parametrize(
    ("nics", "changes", "said"),
    [
        (3, {}, "cluster.nics_per_host = 3: must divide cluster.workers_per_host = 4"),
        (2, {"strategy": "vanilla"}, "cluster.nics_per_host = 2: is for strategies without parameter servers"),
        (2, {"strategy": "multicast-aggregation-ps"}, "cluster.nics_per_host = 2: is for strategies without parameter"),
        (2, {"stands_for": 32, "stands_for_per_host": 4}, "cluster.stands_for: hosts of it have one NIC"),
        (4, {"rails": True}, "must be a multiple of cluster.nics_per_host = 4"),
    ],
)
def test_what_does_not_go_together_is_refused_with_its_key(nics: int, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputFault, match=said):
        compiled(nics, **changes)  # type: ignore[arg-type]


def test_a_cluster_knows_its_machines_and_their_nics() -> None:
    cluster = Cluster(8, workers_per_host=4, nics_per_host=2)
    assert (cluster.hosts, cluster.ports, cluster.worker_host(5)) == (2, 4, 1)
