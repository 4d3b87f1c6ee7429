"""Who dies when, and when a replay gives up."""

from __future__ import annotations

import pytest

from gradwire.agents.perils import Perils, Stalled, last_words
from gradwire.datatypes.records import PlannedFault

LIMIT_NS = 1000


def perils(*faults: PlannedFault, own: tuple[int, ...] = (4, 5)) -> Perils:
    return Perils(faults, [4, 5], set(own), LIMIT_NS)


def test_a_worker_dies_at_its_time_and_says_which_fault_it_was() -> None:
    found = perils(PlannedFault("crash", "dead-worker", 30, worker=1))
    assert found.next_ns() == 30
    assert found.deaths(29, 0) == {}
    assert found.deaths(31, 2) == {5: "rank 5 died at 0.000000 s, in iteration 2 (fault.crash)"}
    assert found.deaths(32, 2) == {}


def test_a_death_of_an_iteration_counts_from_its_beginning() -> None:
    found = perils(PlannedFault("crash", "dead-worker", 30, iteration=2, worker=0))
    found.iterated(1, 100)
    assert found.deaths(500, 1) == {}
    found.iterated(2, 600)
    assert found.deaths(629, 2) == {}
    assert list(found.deaths(630, 2)) == [4]


def test_workers_of_other_agents_die_there() -> None:
    found = perils(PlannedFault("crash", "dead-worker", 30, worker=1), own=(4,))
    assert found.deaths(100, 0) == {}


def test_a_replay_gives_up_when_nothing_moves_and_nothing_is_computed() -> None:
    found = perils()
    found.moved(1, 500)
    found.moved(1, 1400)
    assert found.next_ns() == 1500
    found.refuse_stall(1499, is_computing=False)
    found.refuse_stall(9999, is_computing=True)
    with pytest.raises(Stalled, match="nothing has moved for 1e-06 s"):
        found.refuse_stall(1500, is_computing=False)
    found.moved(2, 1500)
    found.refuse_stall(1501, is_computing=False)


def test_only_a_few_of_many_waits_are_told() -> None:
    assert last_words("it broke", ["x died"], list("abcde")) == "it broke; x died; a, b, c, and 2 more"
    assert last_words("it broke", [], []) == "it broke"
