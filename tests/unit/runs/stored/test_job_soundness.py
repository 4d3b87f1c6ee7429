"""Jobs of a plan from a file that are not jobs of that plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gradwire.faults import Fault
from gradwire.runs.stored.job_soundness import refuse_unsound_jobs
from gradwire.workloads.combined_plans import PlacedJob, combined
from gradwire.workloads.patterns import Transfer, compile_transfers

ONE = compile_transfers("one", 2, [Transfer(0, 1, 1000)])
PLAN = combined([PlacedJob("a", ONE, (0, 1)), PlacedJob("b", ONE, (2, 3), iterations=2, start_ns=5)])


def test_jobs_of_a_plan_are_sound() -> None:
    refuse_unsound_jobs(PLAN)
    refuse_unsound_jobs(ONE)


@pytest.mark.parametrize(
    "change",
    [
        {"first_op": 1},
        {"ops": 10**9},
        {"ops": -1},
        {"iterations": 0},
        {"iterations": 7},
        {"ranks": 1},
        {"ranks": 3},
        {"delays": -1},
        {"name": "b"},
        {"name": 3},
        {"compute_s": float("nan")},
        {"samples": True},
    ],
    ids=str,
)
def test_others_are_refused(change: dict[str, Any]) -> None:
    first, second = PLAN.jobs
    with pytest.raises((ValueError, Fault)):
        refuse_unsound_jobs(replace(PLAN, jobs=(replace(first, **change), second)))
