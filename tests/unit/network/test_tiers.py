"""Switches and links of every shape: who is joined to whom, at which rates, and the ways between leaves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.tiers import Tiers

FAT_TREE = Fabric(16, 10e9, Topology.FAT_TREE, leaves=2, spines=2, pods=4, cores=4)
"""The fat tree of Al-Fares et al. with k = 4 (SIGCOMM 2008)."""
RAILS = Fabric(16, 10e9, Topology.LEAF_SPINE, leaves=4, spines=2, nics_per_host=4, rails=True)


def trees() -> st.SearchStrategy[Tiers]:
    few = st.integers(1, 3)
    return st.builds(
        lambda each, pods, leaves, spines, cores: Tiers(each, pods, leaves, spines, cores * spines),
        few,
        st.integers(2, 4),
        few,
        few,
        few,
    )


def test_the_k_ary_fat_tree_has_its_switches_and_links() -> None:
    tree = FAT_TREE.tree
    assert (tree.leaf_count, tree.spine_count, tree.cores, tree.switches) == (8, 8, 4, 20)
    ports = Counter(port.device for link in FAT_TREE.links() for port in (link.a, link.b))
    assert {ports[name] for name in FAT_TREE.switch_names()} == {4}
    assert {link.rate_bps for link in FAT_TREE.links()} == {10e9}
    assert [tier.word for tier in tree.tiers] == ["leaf", "pod"]
    assert {tier.part_bps[0] for tier in tree.tiers} == {20e9, 40e9}


def test_each_tier_has_an_oversubscription_of_its_own() -> None:
    fabric = replace(FAT_TREE, oversubscription=2.0, core_oversubscription=4.0)
    assert (fabric.uplink_rate_bps, fabric.core_rate_bps) == (5e9, 1.25e9)
    leaf, pod = fabric.tree.tiers
    assert (leaf.part_bps[0], pod.part_bps[0]) == (10e9, 5e9)


@given(trees())
def test_each_core_is_joined_to_one_spine_of_every_pod(tree: Tiers) -> None:
    first_core = tree.leaf_count + tree.spine_count
    below: dict[int, list[int]] = {}
    for trunk in tree.trunks:
        below.setdefault(trunk.upper, []).append(tree.pod_of(trunk.lower))
    assert {core: pods for core, pods in below.items() if core >= first_core} == {
        core: list(range(tree.pods)) for core in range(first_core, tree.switches)
    }
    ends = [end for trunk in tree.trunks for end in ((trunk.lower, trunk.lower_port), (trunk.upper, trunk.upper_port))]
    assert len(set(ends)) == len(ends)


@given(trees(), st.data())
def test_a_way_goes_up_to_its_summit_and_down_again(tree: Tiers, data: st.DataObject) -> None:
    near, far = (data.draw(st.integers(0, tree.leaf_count - 1)) for _ in range(2))
    summit = tree.summit(near, far, data.draw(st.integers(0, 100)))
    up, down = tree.between(near, [far], summit)
    if near == far:
        return
    tiers = 1 if tree.pod_of(near) == tree.pod_of(far) else 2
    assert (len(up), len(down)) == (tiers, tiers)
    here = near
    for number in up:
        assert tree.trunks[number].lower == here
        here = tree.trunks[number].upper
    assert here == tree.leaf_count + summit
    lowers = {tree.trunks[number].upper: tree.trunks[number].lower for number in down}
    while here in lowers:
        here = lowers[here]
    assert here == far


@given(trees())
def test_consecutive_numbers_take_every_summit_in_turn(tree: Tiers) -> None:
    chosen = Counter(tree.summit(0, tree.leaf_count - 1, number) for number in range(3 * tree.cores))
    assert chosen == dict.fromkeys(range(tree.spine_count, tree.spine_count + tree.cores), 3)


def test_a_copy_for_the_same_pod_leaves_the_way_at_its_spine() -> None:
    tree = FAT_TREE.tree
    up, down = tree.between(0, [1, 2], tree.spine_count)
    assert [(tree.trunks[number].lower, tree.trunks[number].upper) for number in up] == [(0, 8), (8, 16)]
    assert {(tree.trunks[number].upper, tree.trunks[number].lower) for number in down} == {(8, 1), (16, 10), (10, 2)}


def test_on_rails_each_nic_of_a_machine_is_at_a_leaf_of_its_own() -> None:
    assert RAILS.hosts_of_leaves == tuple(tuple(range(rail, 16, 4)) for rail in range(4))
    two_blocks = replace(RAILS, hosts=32, leaves=8)
    assert [two_blocks.leaf_of(host) for host in (0, 3, 12, 15, 16, 19, 31)] == [0, 3, 0, 3, 4, 7, 7]
    together = replace(RAILS, rails=False)
    assert together.hosts_of_leaves == tuple(tuple(range(first, first + 4)) for first in (0, 4, 8, 12))


@pytest.mark.parametrize("fabric", [Fabric(4, 1e9), FAT_TREE, replace(FAT_TREE, core_oversubscription=2.0), RAILS])
def test_a_fabric_is_the_same_after_its_file(fabric: Fabric) -> None:
    assert Fabric.from_json(fabric.to_json()) == fabric


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pods": 1}, "fabric.pods = 1: a fat tree has at least 2"),
        ({"cores": 3}, "fabric.cores = 3: must be a multiple of fabric.spines = 2"),
        ({"cores": 0}, "fabric.cores = 0"),
        ({"spines": 0}, "needs leaves and spines of each pod of at least 1"),
        ({"hosts": 12}, "fabric.pods = 4 and fabric.leaves = 2: must divide the 12 hosts"),
        ({"core_oversubscription": 0.0}, "fabric.core_oversubscription = 0.0: must be above 0"),
        ({"core_oversubscription": 1e10}, "fabric.core_oversubscription = 1e.10: makes uplinks of 1 bit/s"),
        ({"oversubscription": 1e10}, "fabric.oversubscription = 1e.10: makes uplinks of 1 bit/s"),
        ({"aggregators": True}, "fat-tree.: strategies that aggregate in the network"),
        ({"rails": True}, "fabric.rails = true: needs hosts with several NICs"),
        ({"nics_per_host": 3}, "cluster.nics_per_host = 3: must divide the 16 NICs"),
        ({"nics_per_host": 4}, "fabric.leaves = 2: a leaf has 2 ports for NICs"),
        ({"nics_per_host": 4, "rails": True}, "fabric.leaves = 2 must be a multiple of cluster.nics_per_host = 4"),
    ],
)
def test_shapes_that_cannot_be_are_refused_with_their_key(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputFault, match=words):
        replace(FAT_TREE, **change)
