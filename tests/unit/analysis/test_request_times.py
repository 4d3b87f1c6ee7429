"""Times of requests: from agents' logs as from estimates, of one job and of several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.analysis.plan_names import PlanNames
from gradwire.analysis.request_times import (
    RequestSpread,
    arrival_ops,
    computed_request_times,
    logged_request_times,
    plans_of_requests,
    replayed_request_times,
    request_rows,
)
from gradwire.datatypes.plan import Moment, Plan
from gradwire.datatypes.plan_of_job import plan_of_job
from gradwire.faults import InternalFault
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.combined_plans import PlacedJob, combined, relative_times
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.simulation import replay
from tests.shared.small_services import served, service, there


def plan_of(requests: int = 2) -> Plan:
    return served(service(2), requests=requests, prompt_tokens=8, output_tokens=3, rate=1000.0, arrivals="even")


def ends_s(plan: Plan, at_s: dict[tuple[Moment, int], list[float]]) -> np.typing.NDArray[np.float64]:
    """Ends of ops in one iteration, of which only those of moments matter."""
    found = np.zeros((1, len(plan.ops)))
    left = {key: list(values) for key, values in at_s.items()}
    for op, moment, request, _ in plan.moments.tolist():
        found[0, op] = left[Moment(moment), request].pop(0)
    return found


def test_times_are_differences_of_moments() -> None:
    """The second step of the first request is the first one of the second, which has the same end."""
    plan = served(service(2), requests=1, prompt_tokens=8, output_tokens=3)
    at_s = {
        (Moment.ARRIVED, 0): [1.0],
        (Moment.SENT, 0): [1.5],
        (Moment.TOKEN, 0): [2.0, 5.0, 6.0],
        (Moment.CACHED, 0): [4.0],
    }
    found = replayed_request_times(plan, ends_s(plan, at_s))
    assert found.requests == 1
    assert found.first_token == RequestSpread(1.0, 1.0)
    assert there(found.between_tokens).median_s == 2.0  # 3 s and 1 s
    assert there(found.between_tokens).tail_s == pytest.approx(1.0 + 0.99 * 2.0)
    assert found.cache == RequestSpread(2.5, 2.5)
    assert found.behind == RequestSpread(2.0, 2.0)


def test_rows_have_each_request_of_each_iteration() -> None:
    plan = plan_of(2)
    log = replay(plan, 2)
    rows = request_rows(plan, log, 1, 2)
    assert [row[:3] for row in rows] == [(0, True, 0), (0, True, 1), (1, False, 0), (1, False, 1)]
    measured = logged_request_times(plan, log, 1, 2)
    assert np.median([row[3] for row in rows[2:]]) == pytest.approx(there(measured.first_token).median_s)
    assert np.median([row[4] for row in rows[2:]]) == pytest.approx(there(measured.behind).median_s)
    assert all(row[5] <= row[6] for row in rows)
    short = served(service(2), requests=1, output_tokens=1)
    ((*_, first_s, behind_s, mean_s, longest_s),) = request_rows(short, replay(short, 1), 0, 1)
    assert first_s > 0
    assert np.isnan([behind_s, mean_s, longest_s]).all()


def test_by_computation_alone_times_are_those_of_the_timetable() -> None:
    """A prompt of 8 tokens takes what its layers do, and a step is of one token."""
    plan = served(service(2), requests=1, prompt_tokens=8, output_tokens=3)
    found = computed_request_times(plan)
    assert there(found.first_token).median_s == pytest.approx(
        float(plan.ops.duration_ns[plan.ops.rank == 0].sum()) / 1e9
    )
    assert 0 < there(found.between_tokens).median_s < there(found.first_token).median_s
    assert (found.cache, found.behind) == (None, None)


def test_logs_have_the_requests_of_all_iterations_but_those_of_the_warm_up() -> None:
    plan = plan_of()
    log = replay(plan, 3)
    assert logged_request_times(plan, log, 1, 3).requests == 4
    first = logged_request_times(plan, log, 0, 1)
    assert there(first.first_token).median_s > 0
    assert there(first.cache).median_s > 0
    with pytest.raises(InternalFault, match="lacks op"):
        logged_request_times(plan, replay(plan, 1), 0, 3)


def test_of_several_jobs_each_has_its_requests() -> None:
    training = compile_transfers("one", 2, [Transfer(0, 1, 1000)])
    jobs = [
        PlacedJob("train", training, (0, 1)),
        PlacedJob("few", plan_of(2), (0, 1), iterations=2),
        PlacedJob("many", plan_of(3), (2, 3), start_ns=1000),
    ]
    plan = combined(jobs)
    check(plan, relative_times(plan, [[], [], []]))
    found = dict(plans_of_requests(plan))
    counts = {name: int(one.moments[:, 2].max()) + 1 for name, one in found.items()}
    assert counts == {"few": 4, "many": 3}
    log = replay(plan, 2)
    assert logged_request_times(found["few"], log, 0, 2).requests == 8
    alone = {job.name: plan_of_job(plan, job) for job in plan.jobs}
    assert np.array_equal(alone["many"].moments, plan_of(3).moments)
    assert not len(alone["train"].moments)
    assert plans_of_requests(training) == []


def test_what_waits_until_requests_arrive_is_not_taken_for_latency() -> None:
    """Of several jobs, only streams of those that serve are meant, though others may have one of the same number."""
    plan = plan_of(3)
    waits = arrival_ops(plan)
    assert plan.ops.duration_ns[waits].sum() == 2_000_000 * len(
        np.unique(plan.ops.rank[waits])
    )  # 1 ms between requests
    names = PlanNames(plan)
    assert {names.op(int(op)) for op in np.flatnonzero(waits)} == {"requests"}
    assert "requests" not in {names.op(int(op)) for op in np.flatnonzero(~waits)}
    training = compile_transfers("one", 2, [Transfer(0, 1, 1000)])
    both = combined([PlacedJob("train", training, (0, 1)), PlacedJob("serve", plan, (2, 3))])
    train, serve = both.jobs
    assert not arrival_ops(both)[train.first_op : train.end_op].any()
    assert np.array_equal(arrival_ops(both)[serve.first_op : serve.end_op], waits)


@pytest.mark.parametrize(("column", "value"), [(0, 10_000_000), (1, 0), (1, 9), (2, -1), (2, 10_000_000)])
def test_a_moment_of_what_is_not_there_is_refused(column: int, value: int) -> None:
    plan = plan_of()
    plan.moments[0, column] = value
    with pytest.raises(PlanError, match="does not exist"):
        check(plan)


@pytest.mark.parametrize("left_out", [Moment.ARRIVED, Moment.SENT, Moment.CACHED])
def test_a_request_without_one_of_its_moments_is_refused(left_out: Moment) -> None:
    plan = plan_of()
    moments = plan.moments[(plan.moments[:, 1] != left_out) | (plan.moments[:, 2] != 1)]
    with pytest.raises(PlanError, match="request 1 does not arrive once"):
        check(replace(plan, moments=moments))


def test_a_request_without_tokens_is_refused() -> None:
    plan = served(service(2), requests=2, output_tokens=1)
    moments = plan.moments[(plan.moments[:, 1] != Moment.TOKEN) | (plan.moments[:, 2] != 0)]
    with pytest.raises(PlanError, match="request 0"):
        check(replace(plan, moments=moments))


def test_moments_are_kept_in_the_plans_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.npz"
    plan = plan_of()
    plan.save(path)
    assert Plan.load(path).digest() == plan.digest()
    assert np.array_equal(Plan.load(path).moments, plan.moments)
