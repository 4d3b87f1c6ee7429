"""Hosts of several jobs: lists, and what placements choose of what is left."""

from __future__ import annotations

import pytest

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.scenario.resolution.job_placement import hosts_needed, placed
from gradwire.scenario.sections.job import JobPlace
from tests.shared.parts import in_order

RACKS = Fabric(8, 1e10, topology=Topology.LEAF_SPINE, leaves=2, spines=1)
"""h1 to h4 are in one rack, h5 to h8 in the other."""


def test_lists_go_first_and_placements_take_what_is_left() -> None:
    places = {
        "a": JobPlace(placement="packed"),
        "b": JobPlace(hosts=("h2", "h5")),
        "c": JobPlace(placement="spread"),
    }
    found = placed(places, {"a": 2, "b": 2, "c": 3}, RACKS, 1)
    assert found == {"a": (0, 2), "b": (1, 4), "c": (3, 5, 6)}


def test_random_hosts_are_those_of_the_seed() -> None:
    places = {"a": JobPlace(placement="random"), "b": JobPlace(placement="random")}
    first, again, other = (placed(places, {"a": 4, "b": 4}, RACKS, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first["a"] + first["b"]) == list(range(8))


def test_a_network_has_the_hosts_that_lists_name() -> None:
    assert hosts_needed({"a": JobPlace(hosts=("h1", "h5"))}, {"a": 4}) == 5
    assert hosts_needed({"a": JobPlace()}, {"a": 4}) == 4
    assert hosts_needed({"a": JobPlace(hosts=("h1", "h16"))}, {"a": 2}) == 16
    assert hosts_needed({"a": JobPlace(hosts=("h1", "h1000"))}, {"a": 2}) == 2


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({"a": JobPlace(hosts=("h1", "h9"))}, "job.a.hosts: no host is called 'h9'; hosts are h1 to h8"),
        ({"a": JobPlace(hosts=("h1", "h1"))}, "job.a.hosts: h1: it is listed twice"),
        ({"a": JobPlace(hosts=("h1",))}, "job.a.hosts: has 1 hosts, and the job needs 2"),
        (
            {"a": JobPlace(hosts=("h1", "h2")), "b": JobPlace(hosts=("h2", "h3"))},
            "job.b.hosts: h2: job 'a' has it",
        ),
    ],
)
def test_wrong_lists_are_refused(places: dict[str, JobPlace], said: str) -> None:
    with pytest.raises(InputFault, match=said):
        placed(places, dict.fromkeys(places, 2), RACKS, 1)


def test_a_job_without_hosts_left_is_refused() -> None:
    with pytest.raises(InputFault, match=in_order("job.b: needs 4 hosts", "2", "8")):
        placed({"a": JobPlace(), "b": JobPlace()}, {"a": 6, "b": 4}, RACKS, 1)
