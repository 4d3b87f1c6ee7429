"""The busiest port of a plan: its time at line rate is the bandwidth bound, on whatever network."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from gradwire.analysis.bounds import bounds
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.graph_shapes import Linear
from gradwire.network.links import LinkSetting
from gradwire.network.network_graph import spread
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.patterns import all_to_all, compile_transfers
from gradwire.workloads.plan_summary import busiest_port, summary_lines
from gradwire.workloads.strategy_registry import strategy
from tests.shared.parts import tells
from tests.shared.small_jobs import compiled, job_of, profile_of, training_strategies

PROFILE = profile_of([(LayerKind.CONV, [3000, 10]), (LayerKind.FC, [40_000])])
SINGLE = Fabric(hosts=4, rate_bps=10e9)


def leaf_spine(oversubscription: float) -> Fabric:
    return replace(SINGLE, topology=Topology.LEAF_SPINE, leaves=2, spines=2, oversubscription=oversubscription)


FAT_TREE = replace(SINGLE, topology=Topology.FAT_TREE, leaves=1, spines=1, pods=2, cores=2, core_oversubscription=4.0)
NETWORKS = {"single": SINGLE, "fat tree": FAT_TREE, **{f"{ratio}:1": leaf_spine(ratio) for ratio in (1, 4, 40)}}
CLUSTERS = {"four servers": Cluster(4, 4), "one": Cluster(4, 1), "machines": Cluster(8, 2, workers_per_host=2)}


def plan_on(fabric: Fabric, name: str, cluster: Cluster) -> tuple[Plan, Fabric]:
    how = strategy(name)
    fabric = replace(fabric, aggregators=how.aggregators(how.options()))
    job = job_of(PROFILE, cluster if how.needs_servers else replace(cluster, servers=0))
    return next(iter(compiled(replace(job, rate_bps=fabric.rate_bps, fabric=fabric), name, {}).values())), fabric


def knows(name: str, network: str, cluster: str) -> bool:
    """Whether a strategy can be compiled: multicast has one worker on each host, and aggregators one or two tiers."""
    if name == "ring-multicast" and CLUSTERS[cluster].workers_per_host > 1:
        return False
    has_aggregators = bool(strategy(name).aggregators(strategy(name).options()))
    return not (has_aggregators and NETWORKS[network].topology is Topology.FAT_TREE)


@pytest.mark.parametrize("name", training_strategies())
def test_it_takes_the_bandwidth_bound(name: str) -> None:
    found, expected = dict[str, float](), dict[str, float]()
    for network, cluster in product(NETWORKS, CLUSTERS):
        if knows(name, network, cluster):
            plan, fabric = plan_on(NETWORKS[network], name, CLUSTERS[cluster])
            found[f"{network}, {cluster}"] = busiest_port(plan, fabric).seconds
            expected[f"{network}, {cluster}"] = bounds(plan, fabric).bandwidth_s
    assert found
    assert found == pytest.approx(expected, rel=1e-12)


def test_oversubscribed_uplinks_are_named_with_what_they_carry() -> None:
    plan, fabric = plan_on(leaf_spine(4), "ring", Cluster(4))
    busiest = busiest_port(plan, fabric)
    assert busiest.name.startswith("uplinks of leaf")
    assert tells(busiest.rate, "2 x", "2.5 Gbit/s")
    assert f"{busiest.name}, 0." in summary_lines(plan, fabric)[-1]
    assert busiest_port(*plan_on(SINGLE, "ring", Cluster(4))).name.startswith("h")
    busiest = busiest_port(*plan_on(FAT_TREE, "ring", Cluster(4)))
    assert busiest.name.startswith("uplinks of pod")
    assert tells(busiest.rate, "2 x", "2.5 Gbit/s")


def test_the_network_is_told_in_a_line() -> None:
    plan, _ = plan_on(SINGLE, "ring", Cluster(4))
    for fabric, parts in (
        (SINGLE, ["one switch"]),
        (leaf_spine(4), ["leaf/spine", "2 x 2", "2.5 Gbit/s (oversubscription 4)"]),
    ):
        (line,) = (line for line in summary_lines(plan, fabric) if line.startswith("network: "))
        assert tells(line, "4 hosts", "10 Gbit/s", *parts)


def test_a_plan_that_sends_nothing_has_an_idle_port() -> None:
    plan, fabric = plan_on(replace(SINGLE, hosts=1), "ring", Cluster(1))
    assert busiest_port(plan, fabric).seconds == 0


def test_in_a_graph_the_busiest_line_may_be_between_switches() -> None:
    """Between the middle switches of four in a line pass the messages of all pairs of two hosts at one end with two at the other."""
    size_bytes = 1_000_000
    graph = spread(4, 4, Linear(4).pairs(), 8e9, "a line")
    fabric = Fabric(4, 8e9, Topology.LINEAR, classes=1, graph=graph)
    plan = compile_transfers("all", 4, all_to_all(4, size_bytes))
    busiest = busiest_port(plan, fabric)
    assert busiest.name in ("s2-s3 to s3", "s2-s3 to s2")
    assert busiest.seconds == pytest.approx(4 * size_bytes / 1e9 / fabric.goodput_share(), rel=1e-3)
    slow = replace(fabric, link_settings=(LinkSetting("s1-s2", rate_bps=1e9),))
    assert busiest_port(plan, slow).name in ("s1-s2 to s2", "s1-s2 to s1")
