"""Several jobs in one plan: what each does is what it does alone, repeated as often as asked and begun when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.analysis.fluid.estimate import FluidTimes, estimate
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.job_times import fluid_edges_s, logged_edges_s, measured_jobs
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.plan_of_job import plan_of_job
from gradwire.faults import InternalFault
from gradwire.network.fabric import Fabric
from gradwire.network.wire.flows import connections_of
from gradwire.workloads.checker import check
from gradwire.workloads.combined_plans import PlacedJob, combined, held_back, relative_times, repeated
from gradwire.workloads.job import Job
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.examples import examples
from tests.shared.simulation import replay
from tests.shared.small_jobs import choices, compiled, jobs

RATE_BPS = 8e9
SIZE_BYTES = 1_000_000
FABRIC = Fabric(4, RATE_BPS, classes=3)
ALONE_S = SIZE_BYTES / (RATE_BPS / 8 * FABRIC.goodput_share())
BARRIER = 2e-3
"""What the messages of 64 bytes around a transfer may change, as a share of the time."""


def transfer(size_bytes: int = SIZE_BYTES, *, after_s: float = 0.0, messages: int = 1) -> Plan:
    """One host sends to another, again and again."""
    return compile_transfers("one", 2, [Transfer(0, 1, size_bytes, delay_s=after_s, messages=messages)])


def onto(name: str, plan: Plan, hosts: Sequence[int], **how: int) -> PlacedJob:
    return PlacedJob(name, plan, hosts, **how)


def times_of_jobs(plan: Plan, fabric: Fabric = FABRIC, warmup: int = 2, iterations: int = 12) -> list[float]:
    """Mean times of the jobs' iterations that the ideal network measures."""
    times: FluidTimes = estimate(plan, fabric, most_iterations=iterations, with_ops=True)
    edges_s = fluid_edges_s(plan, times, iterations)
    return [measured.mean_s for measured in measured_jobs(plan, edges_s, warmup)]


def to_one_host(**how: int) -> list[PlacedJob]:
    """Two jobs whose messages all go out of one port: of the switch, towards host 2."""
    return [onto("a", transfer(), (0, 2)), onto("b", transfer(), (1, 2), **how)]


@settings(max_examples=examples(40))
@given(jobs, choices, st.integers(1, 3), st.integers(0, 1))
def test_a_repeated_plan_passes_the_checker_and_takes_as_much_longer(
    job: Job, choice: tuple[str, dict[str, object]], times: int, pick: int
) -> None:
    plans = list(compiled(job, *choice).values())
    plan = plans[pick % len(plans)]
    many = repeated(plan, times)
    check(many, job.relative_times)
    assert many.compute_s == pytest.approx(times * plan.compute_s)
    log, one_by_one = replay(many, 2), replay(plan, 2 * times)
    assert log.end_ns.max() == one_by_one.end_ns.max()


@settings(max_examples=examples(30))
@given(jobs, jobs, choices, choices, st.integers(1, 3))
def test_two_jobs_side_by_side_pass_the_checker_and_do_what_each_does_alone(
    one: Job, other: Job, choice: tuple[str, dict[str, object]], other_choice: tuple[str, dict[str, object]], times: int
) -> None:
    first, second = next(iter(compiled(one, *choice).values())), next(iter(compiled(other, *other_choice).values()))
    behind = range(first.hosts, first.hosts + second.hosts)
    both = combined([onto("a", first, range(first.hosts)), onto("b", second, behind, iterations=times)])
    check(both, relative_times(both, [one.relative_times, other.relative_times]))
    # The simulated network has no links to share.
    edges_s = logged_edges_s(both, replay(both, 2), 2)
    assert edges_s[0][-1] * 1e9 == pytest.approx(
        replay(first, 2).end_ns[np.isin(replay(first, 2).op, first.end_op)].max()
    )
    assert len(edges_s[1]) == 2 * times + 1
    for job, plan in zip(both.jobs, (first, repeated(second, times)), strict=True):
        alone = plan_of_job(both, job)
        check(alone)
        assert len(alone.ops) == len(plan.ops)
        assert np.array_equal(alone.ops.size_bytes, plan.ops.size_bytes)
        assert replay(alone, 2).end_ns.max() == replay(plan, 2).end_ns.max()


def test_a_plan_keeps_its_jobs_in_its_file_and_one_without_keeps_its_digest(tmp_path: Path) -> None:
    both = combined(to_one_host())
    both.save(tmp_path / "plan.npz")
    assert Plan.load(tmp_path / "plan.npz").jobs == both.jobs
    assert Plan.load(tmp_path / "plan.npz").digest() == both.digest()
    assert replace(both, jobs=()).digest() != both.digest()


def test_two_jobs_that_share_a_link_get_halves() -> None:
    """By hand: both send all the time, so each gets half of the port."""
    both = times_of_jobs(combined(to_one_host()))
    assert both == pytest.approx([2 * ALONE_S, 2 * ALONE_S], rel=BARRIER)


def test_max_min_fairness_gives_what_one_job_cannot_use_to_the_other() -> None:
    """By hand: job a sends over the shared port alone; b sends from one host to two, so its own port gives each flow half.

    Into host 2 come a's flow and one of b's, each with half of that port, so that b takes two transfers' time; once neither waits, a has
    the same.
    """
    two = compile_transfers("two", 3, [Transfer(0, 1, SIZE_BYTES), Transfer(0, 2, SIZE_BYTES)])
    plan = combined([onto("a", transfer(), (0, 2)), onto("b", two, (1, 2, 3))])
    assert times_of_jobs(plan) == pytest.approx([2 * ALONE_S, 2 * ALONE_S], rel=BARRIER)


def test_the_job_of_a_higher_class_takes_its_time_alone_and_the_other_what_is_left() -> None:
    """By hand: a computes as long as it sends, so it leaves half of the time, and b needs two of a's iterations."""
    high = onto("a", transfer(after_s=ALONE_S), (0, 2), iterations=1)
    low = onto("b", transfer(), (1, 2), class_offset=1)
    first, second = times_of_jobs(combined([high, low]), iterations=30)
    assert first == pytest.approx(2 * ALONE_S, rel=BARRIER)
    assert second == pytest.approx(2 * ALONE_S, rel=2 * BARRIER)


def test_phases_that_interleave_by_a_shifted_start_recover_the_time_alone() -> None:
    """CASSINI, NSDI 2024: each job computes as long as it sends. Begun together, they send at the same time, for twice as long."""
    plan = transfer(after_s=ALONE_S)
    together = [onto("a", plan, (0, 2)), onto("b", plan, (1, 2))]
    apart = [onto("a", plan, (0, 2)), onto("b", plan, (1, 2), start_ns=round(ALONE_S * 1e9))]
    assert times_of_jobs(combined(together)) == pytest.approx([3 * ALONE_S, 3 * ALONE_S], rel=BARRIER)
    assert times_of_jobs(combined(apart)) == pytest.approx([2 * ALONE_S, 2 * ALONE_S], rel=BARRIER)


def test_a_start_delays_the_first_iteration_and_no_other() -> None:
    plan, start_ns = transfer(after_s=ALONE_S), round(0.5 * ALONE_S * 1e9)
    late = held_back(plan, start_ns)
    check(late)
    ends_ns = {
        one: np.sort(log.end_ns[np.isin(log.op, plan.end_op)])
        for one, log in (("late", replay(late, 3)), ("on time", replay(plan, 3)))
    }
    assert np.array_equal(ends_ns["late"], ends_ns["on time"] + start_ns)
    assert held_back(plan, 0) is plan


def test_jobs_of_other_speeds_are_measured_only_while_all_run() -> None:
    """By hand: b sends a third as much on the same port. While both send, each gets half, so b takes 2/3 and a 2 transfers' time."""
    plan = combined([onto("a", transfer(), (0, 2)), onto("b", transfer(SIZE_BYTES // 3), (1, 2), iterations=3)])
    assert times_of_jobs(plan) == pytest.approx([2 * ALONE_S, 2 * ALONE_S / 3], rel=4 * BARRIER)


def test_jobs_are_measured_over_whole_iterations_of_the_slowest_while_all_run() -> None:
    plan = combined([onto("a", transfer(), (0, 2)), onto("b", transfer(), (1, 2))])
    slow, fast = (np.arange(5) * step_s for step_s in (np.float64(2.0), np.float64(1.5)))
    measured = measured_jobs(plan, [slow, fast], 1)
    assert [each.interval_s for each in measured] == [(2.0, 6.0)] * 2
    assert [each.window for each in measured] == [MeasuredIterations(1, 2), MeasuredIterations(1, 3)]
    assert measured[1].shares == pytest.approx([2 / 3, 1, 1])
    assert [each.mean_s for each in measured] == pytest.approx([2.0, 1.5])
    # An iteration that is out by less than a hundredth counts as a whole.
    windows = [each.window for each in measured_jobs(plan, [slow, slow + 0.001], 1)]
    assert windows == [MeasuredIterations(1, 3)] * 2


def test_a_job_that_is_held_up_once_in_each_iteration_of_the_other_is_measured_by_its_work() -> None:
    """By hand: b does five iterations in 10 s, of which one takes 6 s; wherever the warm-up ends, it takes 2 s in the mean."""
    plan = combined([onto("a", transfer(), (0, 2)), onto("b", transfer(), (1, 2), iterations=5)])
    for first_s in np.arange(0.5, 8.0):
        slow = first_s + 10.0 * np.arange(4)
        fast = np.cumsum([0.0, *[1.0, 1.0, 6.0, 1.0, 1.0] * 3])
        assert measured_jobs(plan, [slow, fast], 1)[1].mean_s == pytest.approx(2.0)


def test_a_job_without_a_whole_iteration_is_not_measured() -> None:
    plan = combined([onto("a", transfer(), (0, 2)), onto("b", transfer(), (1, 2))])
    slow, fast = np.array([0.0, 1.0, 9.0]), np.array([0.0, 0.9, 1.8])
    assert [each.whole for each in measured_jobs(plan, [slow, fast], 1)] == [0, 0]


def test_a_job_alone_has_the_connections_that_it_has_beside_the_others() -> None:
    plan = combined([onto("a", transfer(), (0, 2)), onto("b", transfer(messages=2), (1, 2))])
    alone = [each for job in plan.jobs for each in connections_of(plan_of_job(plan, job))]
    together = connections_of(plan)
    assert [(each.ports, each.src_host, each.dst_host) for each in alone] == [
        (each.ports, each.src_host, each.dst_host) for each in together
    ]


def test_aggregators_and_plans_of_several_jobs_are_not_combined() -> None:
    with pytest.raises(InternalFault, match="job 'a'"):
        combined([onto("a", combined(to_one_host()), range(4))])
