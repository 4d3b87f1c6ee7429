"""Neighbouring all-reduces become one where nothing forbids it: the same bytes, and everything waits for at least what
it waited for."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.faults import InputFault
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, fuse_calls, routes_of
from gradwire.workloads.traces.workload import Kind, Tasks, Workload
from tests.shared.parts import in_order

RANKS = 2
Step = tuple[Kind, int, int, list[int]]
"""A task that both ranks have: its kind, its size or duration, its group, and the steps that it waits for."""


def recorded(steps: list[Step], element_bytes: int = 4, priority: list[int] | None = None) -> Workload:
    """Both ranks do the same steps; those that communicate are calls."""
    rows, deps = [], []
    for rank in range(RANKS):
        for number, (kind, amount, group, after) in enumerate(steps):
            computes = kind is Kind.COMPUTE
            duration, size = (amount, -1) if computes else (-1, amount)
            of_task = (-1, -1, 0) if computes else (group, number, -1)
            rows.append((rank, kind, duration, size, element_bytes, of_task[0], -1, of_task[1], of_task[2]))
            deps.append([rank * len(steps) + on for on in after])
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    start = np.concatenate([[0], np.cumsum([len(after) for after in deps])]).astype(np.int64)
    flat = np.array([on for after in deps for on in after], np.int64)
    columns.append(np.array((priority or []) * RANKS, np.int64))
    return Workload("recorded", RANKS, ((0, 1), (0, 1)), Tasks(*columns), start, flat)


REDUCE = Kind.ALL_REDUCE
BACKWARD: list[Step] = [
    (Kind.COMPUTE, 100, 0, []),
    (REDUCE, 4000, 0, [0]),
    (Kind.COMPUTE, 100, 0, [0]),
    (REDUCE, 8000, 0, [2]),
    (Kind.COMPUTE, 100, 0, [2]),
    (REDUCE, 400, 0, [4]),
    (Kind.COMPUTE, 100, 0, [1, 3, 5]),
]
"""A backward pass that goes on while gradients are reduced, and an optimizer's step."""


def sizes(workload: Workload) -> list[int]:
    reductions = (workload.tasks.rank == 0) & (workload.tasks.kind == REDUCE)
    return [int(size) for size in workload.tasks.size_bytes[reductions]]


@pytest.mark.parametrize(
    ("most_bytes", "expected"),
    [(12_400, [12_400]), (12_399, [12_000, 400]), (11_999, [4000, 8400]), (400, [4000, 8000, 400])],
)
def test_all_reduces_are_joined_up_to_the_limit(most_bytes: int, expected: list[int]) -> None:
    whole = recorded(BACKWARD)
    result = fuse_calls(whole, most_bytes)
    assert sizes(result) == expected
    plan = compile_workload(result, Cluster(RANKS), Costs(), routes_of(ReplayOptions()), min(busiest_s(result)), 0)
    check(plan)
    if most_bytes == 400:
        assert result.digest() == whole.digest()


def test_a_fused_call_waits_for_all_that_its_parts_wait_for() -> None:
    result = fuse_calls(recorded(BACKWARD), 12_400)
    (call,) = np.flatnonzero((result.tasks.rank == 0) & (result.tasks.kind == REDUCE))
    on = result.dep_task[result.dep_start[call] : result.dep_start[call + 1]]
    assert (result.tasks.kind[on] == Kind.COMPUTE).all()
    assert len(on) == 3


@pytest.mark.parametrize("through", [True, False])
def test_calls_that_wait_for_one_another_stay_apart(through: bool) -> None:
    """Where something is computed between them."""
    steps: list[Step] = [(REDUCE, 4000, 0, []), (Kind.COMPUTE, 100, 0, [0] if through else []), (REDUCE, 4000, 0, [1])]
    assert sizes(fuse_calls(recorded(steps), 8000)) == ([4000, 4000] if through else [8000])


def test_calls_that_were_recorded_one_right_behind_the_other_are_joined() -> None:
    """As on a stream of collectives; nothing waits for itself then."""
    steps: list[Step] = [(REDUCE, 4000, 0, []), (REDUCE, 4000, 0, [0]), (REDUCE, 4000, 0, [0, 1])]
    result = fuse_calls(recorded(steps), 12_000)
    assert (sizes(result), len(result.dep_task)) == ([12_000], 0)


def test_groups_and_elements_stay_apart() -> None:
    steps: list[Step] = [(REDUCE, 4000, 0, []), (REDUCE, 4000, 1, []), (REDUCE, 4000, 0, [])]
    assert sorted(sizes(fuse_calls(recorded(steps), 8000))) == [4000, 8000]


def test_a_fused_call_is_as_urgent_as_its_most_urgent_part() -> None:
    result = fuse_calls(recorded([(REDUCE, 4000, 0, []), (REDUCE, 4000, 0, [])], priority=[1, 5]), 8000)
    assert result.tasks.priority.tolist() == [5, 5]


def test_calls_that_would_wait_for_one_another_are_refused() -> None:
    """One group's first call comes before the other's second, and the other's first before this one's second."""
    steps: list[Step] = [(REDUCE, 40, 0, []), (REDUCE, 40, 1, []), (REDUCE, 40, 1, [0]), (REDUCE, 40, 0, [1])]
    with pytest.raises(InputFault, match=in_order("fuse:", "wait for one another")):
        fuse_calls(recorded(steps), 80)
