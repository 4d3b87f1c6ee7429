"""What holds for every plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.analysis.bounds import bounds
from gradwire.analysis.fluid.estimate import Buffered, Departure, SendEnds, estimate
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.job import Job
from gradwire.workloads.patterns import Transfer, compile_transfers
from tests.shared.fabric_links import supported_jobs, with_groups
from tests.shared.simulation import replay, times
from tests.shared.small_allreduces import allreduces, plan_of, quick
from tests.shared.small_jobs import choices, compiled, jobs

RATE_BPS = 1e6
"""So slow that messages of a few hundred bytes take about as long as layers, a few ms."""


def scaled(plan: Plan, factor: int) -> Plan:
    return replace(plan, ops=replace(plan.ops, size_bytes=plan.ops.size_bytes * factor))


def fabric_of(plan: Plan, rate_bps: float = RATE_BPS, classes: int = 4) -> Fabric:
    return Fabric(plan.hosts, rate_bps, classes=classes)


@quick
@given(jobs, choices)
def test_no_parameter_server_is_faster_than_its_bounds(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    for plan in compiled(job, *choice).values():
        fabric = fabric_of(plan)
        assert estimate(plan, fabric).iteration_s >= bounds(plan, fabric).lower_bound_s * (1 - 1e-9)


@quick
@given(allreduces())
def test_no_allreduce_is_faster_than_its_bounds(case: tuple[Job, tuple[str, Mapping[str, Any]]]) -> None:
    plan = plan_of(case[0], *case[1])
    fabric = fabric_of(plan)
    assert estimate(plan, fabric).iteration_s >= bounds(plan, fabric).lower_bound_s * (1 - 1e-9)


@quick
@given(supported_jobs(), st.sampled_from(["aggregation-ps", "multicast-ps", "multicast-aggregation-ps"]))
def test_what_switches_do_is_not_faster_than_its_bounds(job: Job, name: str) -> None:
    assert job.fabric is not None
    for plan in compiled(job, name, {}).values():
        fabric = with_groups(replace(job.fabric, rate_bps=RATE_BPS), plan)
        times_s = estimate(plan, fabric, Spines(fabric).spine_of)
        assert times_s.iteration_s >= bounds(plan, fabric).lower_bound_s * (1 - 1e-9)


@quick
@given(jobs, choices, st.sampled_from([Departure(), Buffered(200)]))
def test_bytes_and_rates_times_the_same_number_take_the_same_time(
    job: Job, choice: tuple[str, Mapping[str, Any]], send_ends: SendEnds
) -> None:
    larger = Buffered(send_ends.unsent_bytes * 1024) if isinstance(send_ends, Buffered) else send_ends
    for plan in compiled(job, *choice).values():
        small = estimate(plan, fabric_of(plan), send_ends=send_ends)
        large = estimate(scaled(plan, 1024), fabric_of(plan, RATE_BPS * 1024), send_ends=larger)
        assert large.iterations_s == pytest.approx(small.iterations_s, rel=1e-9)


transfers = st.lists(
    st.builds(Transfer, st.integers(0, 4), st.integers(0, 4), st.integers(1, 10**6)).filter(lambda t: t.src != t.dst),
    min_size=1,
    max_size=12,
)


@quick
@given(transfers, st.floats(1.0, 10.0))
def test_flows_of_one_band_that_begin_together_are_as_much_faster_as_their_ports(
    moved: list[Transfer], factor: float
) -> None:
    """Where orders depend on times this need not hold: a faster network may let a message go first that others then wait for."""
    plan = compile_transfers("some", 5, moved)
    slow, fast = (estimate(plan, fabric_of(plan, rate)) for rate in (1e9, factor * 1e9))
    assert fast.iteration_s * factor == pytest.approx(slow.iteration_s, rel=1e-9)


@quick
@given(transfers)
def test_no_port_stands_idle_while_all_that_is_left_wants_it(moved: list[Transfer]) -> None:
    """Flows to one host alone: the port into it is busy from the first byte to the last."""
    into_first = [replace(transfer, dst=0) for transfer in moved if transfer.src] or [Transfer(1, 0, 1000)]
    plan = compile_transfers("some", 5, into_first)
    fabric = fabric_of(plan)
    ideal_s = sum(transfer.size_bytes for transfer in into_first) * 8 / (RATE_BPS * fabric.goodput_share())
    longest_s = max(
        sum(t.size_bytes for t in into_first if t.src == src) * 8 / (RATE_BPS * fabric.goodput_share())
        for src in range(1, 5)
    )
    with_barrier_s = 5 * 2 * 64 * 8 / (RATE_BPS * fabric.goodput_share())
    assert max(ideal_s, longest_s) <= estimate(plan, fabric).iteration_s <= ideal_s + with_barrier_s


every_discipline = choices | st.sampled_from(
    [
        ("p3", {}),
        ("p3-slicing", {}),
        ("kvstore", {}),
        ("tictac", {"order": "tic"}),
        ("tictac-slicing", {}),
        ("netops-ps", {}),
    ]
)


@quick
@given(jobs, every_discipline)
def test_without_bytes_every_op_ends_when_the_agents_interpreter_ends_it(
    job: Job, choice: tuple[str, Mapping[str, Any]]
) -> None:
    """The simulated network of the interpreter's tests delivers an empty message after 1 ns."""
    for plan in compiled(job, *choice).values():
        empty = scaled(plan, 0)
        ours = estimate(empty, fabric_of(plan), latency_s=1e-9, most_iterations=2, with_ops=True)
        assert ours.op_end_s is not None
        theirs = times(replay(empty, 2))
        ends_ns = np.array([theirs[0, op][2] for op in range(len(plan.ops))])
        assert np.abs(ours.op_end_s[0] * 1e9 - ends_ns).max() < 0.5
