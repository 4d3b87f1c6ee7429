"""`gradwire ccl` and the plan of the same call agree, or a cause that is tried says why: benchmarks/nccl_agreement.py has
thirty calls, and here are those that take no time."""

from __future__ import annotations

import pytest

from benchmarks.nccl_agreement import NEAR, SizedCall, calls, cause_of, estimated_s, row_of_call

QUICK = [call for call in calls() if call.given.machines < 8]


def test_there_are_thirty_calls_by_all_algorithms_between_machines() -> None:
    every = list(calls())
    assert len(every) == 30
    assert {call.given.machines for call in every} == {2, 4, 8}
    assert {row_of_call(call).algorithm for call in every} == {"Ring", "Tree", "NVLSTree", "PAT"}


@pytest.mark.parametrize("call", QUICK, ids=lambda call: call.what.replace(" ", ""))
def test_a_plan_takes_what_the_table_says(call: SizedCall) -> None:
    row = row_of_call(call)
    plan_s = estimated_s(call.given, row)
    cause = cause_of(call.given, row, plan_s)
    assert abs(plan_s / row.time_s - 1) <= NEAR or (cause and "not all" not in cause)
    if "whole chunks" in cause:
        assert row.protocol.startswith("LL")
