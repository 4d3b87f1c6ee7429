"""Slow workers: when their work ends, and that the analysis finds the same times in the log."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.agents.pace import ComputePace
from gradwire.analysis.logged import Slow, slowed_end_ns
from gradwire.datatypes.records import FaultRecord, PlannedFault


def slow(
    at_ns: int, duration_ns: int = -1, factor: float = 2.0, iteration: int = -1, name: str = "slow"
) -> PlannedFault:
    return PlannedFault(name, "slow-worker", at_ns, iteration, duration_ns, worker=0, value=factor)


@pytest.mark.parametrize(
    ("begin_ns", "work_ns", "end_ns"),
    [
        (0, 100, 100),  # before it
        (1000, 100, 1200),  # in it
        (950, 100, 1050 + 50),  # half of it in it: 50 at full speed, 50 that take 100
        (1900, 100, 1900 + 100 + 50),  # 50 of work in the last 100, 50 after it
        (900, 700, 2000 + 100),  # over all of it: 100 before, 500 in 1000, 100 after
        (2000, 100, 2100),  # after it
    ],
)
def test_work_goes_on_at_a_share_of_its_speed_while_the_fault_lasts(begin_ns: int, work_ns: int, end_ns: int) -> None:
    assert ComputePace([slow(1000, 1000)], [7]).end_ns(7, 0, begin_ns, work_ns) == end_ns
    assert ComputePace([slow(1000, 1000)], [7]).end_ns(6, 0, begin_ns, work_ns) == begin_ns + work_ns
    ends_ns = slowed_end_ns(np.array([begin_ns]), np.array([work_ns]), [Slow(1000, 2000, 2.0)])
    assert ends_ns.tolist() == [end_ns]


def test_several_faults_multiply_and_the_analysis_agrees_to_the_nanosecond() -> None:
    pace = ComputePace([slow(100, 500, 1.7), slow(300, -1, 3.1, name="more")], [0])
    begins, work = np.random.default_rng(1).integers(0, 1000, (2, 200))
    ends = [pace.end_ns(0, 0, begin, size) for begin, size in zip(begins.tolist(), work.tolist(), strict=True)]
    assert slowed_end_ns(begins, work, [Slow(100, 600, 1.7), Slow(300, np.inf, 3.1)]).tolist() == ends


def test_a_fault_of_an_iteration_counts_from_the_first_op_that_the_rank_begins_there() -> None:
    pace = ComputePace([slow(10, 100, iteration=2)], [0])
    assert pace.end_ns(0, 1, 1000, 50) == 1050
    assert pace.end_ns(0, 2, 2000, 50) == 2000 + 10 + 80
    assert pace.end_ns(0, 1, 2100, 50) == 2110 + 45
    (record,) = pace.records(9999)
    assert (record.due_ns, record.begun_ns, record.ended_ns) == (2010, 2010, 2110)


def test_the_second_iteration_begins_later_than_the_run() -> None:
    """A fault of the first counts from the begin of the run, as one of no iteration does; of the second, from that
    iteration's."""
    for iteration, end_ns in ((-1, 500 + 2 * 50), (0, 500 + 2 * 50), (1, 500 + 10 + 2 * 40)):
        pace = ComputePace([slow(10, 1000, iteration=iteration)], [0])
        assert pace.end_ns(0, 1, 500, 50) == end_ns


def test_the_last_nanosecond_is_work_too() -> None:
    assert ComputePace([slow(1000, 1000)], [0]).end_ns(0, 0, 0, 1) == 1
    assert ComputePace([slow(1000, 1000)], [0]).end_ns(0, 0, 999, 2) == 1002
    assert ComputePace([slow(1000, 1000)], [0]).end_ns(0, 0, 999, 1) == 1000


def test_a_fault_that_never_came_is_recorded_as_such() -> None:
    fault = slow(10, iteration=5)
    assert ComputePace([fault], [0]).records(100) == (FaultRecord(fault, -1, -1, -1),)
