"""What ways of routing say of themselves: all have names of their own, fit together, and foresee what they say they do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gradwire.analysis.by_class.symmetry import refuse_unlike_ways
from gradwire.datatypes.class_plans import NotByClass
from gradwire.faults import InputFault, InternalFault
from gradwire.network.fabric import Fabric, Routing, Topology
from gradwire.network.routing import POLICIES
from gradwire.network.sprayed_ways import SprayedRoutes
from gradwire.network.wire.ways import MessageWays
from gradwire.scenario.sections.fabric import POLICIES_OF_KEYS, FabricSection
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.snippets import ROOT

FABRIC = Fabric(8, 10e9, Topology.LEAF_SPINE, leaves=2, spines=4, classes=1)
PLAN = compile_transfers("one", 8, [Transfer(0, 4, 1000)])
SEND = int(next(op for op in range(len(PLAN.ops)) if PLAN.ops.size_bytes[op] == 1000))


def test_every_name_has_a_policy_of_that_name() -> None:
    assert list(POLICIES)
    assert {each.value for each in Routing} == set(POLICIES)
    assert all(each.policy.name == each for each in Routing)


def test_every_way_of_routing_has_a_row_in_the_documentation() -> None:
    table = (ROOT / "docs" / "networks.md").read_text().split("| `fabric.routing` | what decides |")[1].split("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]
    assert sorted([*named, Routing.CONTROLLER]) == sorted(Routing), "a controller's row has no name in it"


@pytest.mark.parametrize("routing", Routing)
def test_a_network_comes_back_from_json_with_its_routing(routing: Routing) -> None:
    fabric = replace(FABRIC, routing=routing)
    assert Fabric.from_json(fabric.to_json()) == fabric


@pytest.mark.parametrize("routing", [each for each in Routing if each.policy.chooses_for_flowlets])
def test_whoever_chooses_for_flowlets_writes_ways_that_exist(routing: Routing) -> None:
    assert routing.policy.writes_ways
    assert not routing.policy.splits_messages
    ways = routing.policy.flowlet_ways(FABRIC, 5, 3)
    assert set(ways) <= set(range(4))
    assert len(set(ways)) == len(ways) > 0
    assert ways == routing.policy.flowlet_ways(FABRIC, 5, 3)


def test_nobody_else_chooses_for_flowlets() -> None:
    with pytest.raises(InternalFault, match="ecmp"):
        Routing.ECMP.policy.flowlet_ways(FABRIC, 0, 0)


def test_adaptive_messages_are_expected_on_all_ways_evenly() -> None:
    fabric = replace(FABRIC, routing=Routing.ADAPTIVE)
    ways = MessageWays(PLAN, fabric)
    assert ways.shares(SEND) == SprayedRoutes.of(fabric).shares(0, 4)
    assert sum(share for _, share in ways.shares(SEND)) == pytest.approx(1 + 1 + 1 + 1)
    with pytest.raises(NotByClass, match="adaptive"):
        refuse_unlike_ways(fabric)


def test_adaptive_needs_what_spraying_needs() -> None:
    with pytest.raises(InputFault, match="needs several switches"):
        Fabric(4, 10e9, routing=Routing.ADAPTIVE)
    with pytest.raises(InputFault, match="leave out"):
        replace(FABRIC, routing=Routing.ADAPTIVE, loss=0.01)


def test_a_key_of_some_policies_is_refused_with_their_names() -> None:
    assert POLICIES_OF_KEYS["flowlet_gap"] == ("flowlet", "adaptive")
    leaves = {"rate": "10gbit", "topology": "leaf-spine", "leaves": 2, "spines": 2, "flowlet_gap": "1ms"}
    with pytest.raises(ValueError, match="'flowlet' or 'adaptive'"):
        FabricSection.model_validate({**leaves, "routing": "ecmp"})
    assert FabricSection.model_validate({**leaves, "routing": "adaptive"}).gap_of_flowlets_s == 1e-3
