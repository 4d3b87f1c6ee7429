"""Who dies when, and when a replay gives up."""

from __future__ import annotations

import pytest

from gradwire.agents.perils import Perils, Stalled, last_words
from gradwire.datatypes.records import PlannedFault
from tests.shared.parts import tells

LIMIT_NS = 1000


def perils(*faults: PlannedFault, own: tuple[int, ...] = (4, 5)) -> Perils:
    return Perils(faults, [4, 5], set(own), LIMIT_NS)


def test_a_worker_dies_at_its_time_and_says_which_fault_it_was() -> None:
    faults = perils(PlannedFault("crash", "dead-worker", 30, worker=1))
    assert faults.next_ns() == 30
    assert faults.deaths(29, 0) == {}
    ((rank, said),) = faults.deaths(31, 2).items()
    assert rank == 5
    assert tells(said, "rank 5", "0.000000 s", "iteration 2", "fault.crash")
    assert faults.deaths(32, 2) == {}


def test_a_death_of_an_iteration_counts_from_its_beginning() -> None:
    faults = perils(PlannedFault("crash", "dead-worker", 30, iteration=2, worker=0))
    faults.iterated(1, 100)
    assert faults.deaths(500, 1) == {}
    faults.iterated(2, 600)
    assert faults.deaths(629, 2) == {}
    assert list(faults.deaths(630, 2)) == [4]


def test_workers_of_other_agents_die_there() -> None:
    faults = perils(PlannedFault("crash", "dead-worker", 30, worker=1), own=(4,))
    assert faults.deaths(100, 0) == {}


def test_a_replay_gives_up_when_nothing_moves_and_nothing_is_computed() -> None:
    stall = perils()
    stall.moved(1, 500)
    stall.moved(1, 1400)
    assert stall.next_ns() == 1500
    stall.refuse_stall(1499, is_computing=False)
    stall.refuse_stall(9999, is_computing=True)
    with pytest.raises(Stalled, match="1e-06 s"):
        stall.refuse_stall(1500, is_computing=False)
    stall.moved(2, 1500)
    stall.refuse_stall(1501, is_computing=False)


def test_only_a_few_of_many_waits_are_told() -> None:
    said = last_words("it broke", ["x died"], list("abcde"))
    assert tells(said, "it broke; x died; a, b, c", "2 more")
    assert "d," not in said
    assert last_words("it broke", [], []) == "it broke"
