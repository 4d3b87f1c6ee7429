"""DiLoCo: bytes and times of an outer round in closed form, fragments and their turns, and what a worker waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.runs.compiling.ideal_times import fluid_times
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.strategies.diloco import DilocoOptions, fragments_of
from tests.shared.parts import in_order
from tests.shared.simulation import replay, times
from tests.shared.small_allreduces import one_tensor, plan_of, quick, sent_bytes
from tests.shared.small_jobs import dependencies, job_of, profile_of, with_dependencies

FABRIC = Fabric(hosts=4, rate_bps=1e9, classes=1)
GOODPUT_BYTES_PER_S = FABRIC.rate_bps * FABRIC.goodput_share() / 8


def layered(values: list[int], workers: int = 4) -> Job:
    return job_of(profile_of([(LayerKind.FC, [value]) for value in values]), Cluster(workers))


def diloco(job: Job, **options: Any) -> Plan:
    plan = plan_of(job, "diloco", options)
    check(plan)
    return plan


def iteration_s(plan: Plan) -> float:
    return fluid_times(plan, FABRIC).iteration_s


@pytest.mark.parametrize(("bits", "width"), [(32, 4.0), (16, 2.0), (8, 1.0), (4, 0.5)])
def test_a_round_sends_what_one_step_of_a_ring_sends(bits: int, width: float) -> None:
    """2 (N - 1) / N of the model from every worker, however many steps it is for."""
    job = one_tensor(8_000, 4)
    for steps in (1, 10):
        plan = diloco(job, inner_steps=steps, outer_bits=bits)
        assert sent_bytes(plan).tolist() == [2 * 3 * 2_000 * width] * 4
    assert sent_bytes(plan_of(job, "ring")).tolist() == [2 * 3 * 2_000 * 4] * 4


def test_odd_numbers_of_values_take_whole_bytes() -> None:
    """Three workers divide 10 values into 4, 3 and 3, of 2 bytes each at 4 bits."""
    assert sent_bytes(diloco(one_tensor(10, 3), inner_steps=2, outer_bits=4)).tolist() == [8, 8, 8]


def test_samples_and_computation_are_those_of_all_steps() -> None:
    job = layered([100, 200])
    plan = diloco(job, inner_steps=7)
    assert plan.samples == 7 * job.samples
    assert plan.compute_s == pytest.approx(7 * job.compute_s)
    computes = (plan.ops.kind == OpKind.COMPUTE) & (plan.ops.rank == 0)
    assert plan.ops.duration_ns[computes].sum() == round(7 * job.compute_s * 1e9)


def test_a_round_takes_its_steps_and_then_the_sum() -> None:
    job = one_tensor(10_000_000, 4)
    sum_s = 2 * 3 / 4 * 40e6 / GOODPUT_BYTES_PER_S
    for steps in (1, 20):
        measured = iteration_s(diloco(job, inner_steps=steps))
        assert measured == pytest.approx(steps * job.compute_s + sum_s, rel=0.01)


def test_a_sum_that_fits_behind_the_overlap_costs_nothing() -> None:
    """The last fragment's reaches into the next round, which would otherwise wait for it."""
    job = layered([1_000_000] * 4)
    options = {"inner_steps": 8, "fragments": 4}
    computing_s, sum_s = 8 * job.compute_s, 2 * 3 / 4 * 16e6 / GOODPUT_BYTES_PER_S
    assert sum_s / 4 < 2 * job.compute_s
    blocking = iteration_s(diloco(job, **options))
    assert blocking == pytest.approx(computing_s + sum_s, rel=0.01)
    assert iteration_s(diloco(job, **options, overlap_steps=2)) == pytest.approx(computing_s, rel=1e-6)


def test_a_sum_that_does_not_fit_costs_the_rest() -> None:
    """One fragment, one step of overlap: what is left after that step is waited for."""
    job = one_tensor(10_000_000, 4)
    sum_s = 2 * 3 / 4 * 40e6 / GOODPUT_BYTES_PER_S
    assert sum_s > job.compute_s
    measured = iteration_s(diloco(job, inner_steps=5, overlap_steps=1))
    assert measured == pytest.approx(4 * job.compute_s + sum_s, rel=0.01)


def test_turns_are_spread_over_the_round_and_the_last_is_at_its_end() -> None:
    found = fragments_of(layered([10, 10, 10, 10]), DilocoOptions(inner_steps=10, fragments=4))
    assert [each.turn for each in found] == [2, 4, 7, 9]
    assert [each.values for each in found] == [10] * 4


def test_messages_of_a_fragment_leave_after_its_turn() -> None:
    """Steps of 18 ms, and fragments that go after 2, 4 and 6 of them."""
    plan = diloco(layered([8, 8, 8]), inner_steps=6, fragments=3)
    when = times(replay(plan, 1))
    step_ns = round(plan.compute_s / 6 * 1e9)
    for fragment, tensor in enumerate(plan.tensors):
        of = plan.chunk_tensor[plan.ops.chunk] == plan.tensors.index(tensor)
        sends = np.flatnonzero((plan.ops.kind == OpKind.SEND) & (plan.ops.chunk >= 0) & of)
        first = min(when[0, op][1] for op in sends.tolist())
        assert first // step_ns == 2 * (fragment + 1)


@given(
    values=st.lists(st.integers(1, 300), min_size=1, max_size=6),
    fragments=st.integers(1, 6),
    workers=st.integers(1, 5),
    steps=st.integers(1, 9),
    overlap=st.integers(0, 8),
    bits=st.sampled_from([32, 16, 8, 4]),
)
@quick
def test_every_round_is_accepted_and_has_each_tensor_once(
    values: list[int], fragments: int, workers: int, steps: int, overlap: int, bits: int
) -> None:
    fragments = min(fragments, len(values), steps)
    options = {"inner_steps": steps, "fragments": fragments, "overlap_steps": min(overlap, steps - 1)}
    job = layered(values, workers)
    plan = diloco(job, **options, outer_bits=bits)
    found = fragments_of(job, DilocoOptions(**options))
    assert sum(each.values for each in found) == sum(values)
    assert len(found) == fragments
    assert all(each.values for each in found)
    assert len(times(replay(plan, 3))) == 3 * len(plan.ops)


@pytest.mark.parametrize("algorithm", ["ring", "double-tree", "halving-doubling", "two-level", "direct", "auto"])
def test_sums_go_by_any_algorithm(algorithm: str) -> None:
    plan = diloco(layered([4_000, 8_000]), inner_steps=4, fragments=2, overlap_steps=1, algorithm=algorithm)
    assert sent_bytes(plan).sum() >= 2 * 3 * 12_000 * 4


@pytest.mark.parametrize("options", [{}, {"fragments": 3}, {"fragments": 3, "overlap_steps": 2}])
def test_a_step_that_does_not_wait_for_its_sum_is_found(options: dict[str, int]) -> None:
    plan = diloco(layered([30, 30, 30]), inner_steps=6, **options)
    sums = set(np.flatnonzero((plan.ops.kind == OpKind.COMPUTE) & (plan.ops.lane == 2)).tolist())
    without = [(op, on, lag) for op, on, lag in dependencies(plan) if op in sums or on not in sums]
    with pytest.raises(PlanError, match="needs chunk"):
        check(with_dependencies(plan, without))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inner_steps": 4, "overlap_steps": 4}, "overlap_steps = 4: must be less than inner_steps = 4"),
        ({"inner_steps": 2, "fragments": 3}, "fragments = 3: must be at most inner_steps = 2"),
        ({"outer_bits": 5}, "outer_bits"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DilocoOptions.model_validate(options)


def test_more_fragments_than_tensors_are_refused() -> None:
    with pytest.raises(InputFault, match=in_order("strategy.options.fragments = 3:", "2 tensors")):
        plan_of(layered([10, 10]), "diloco", {"inner_steps": 4, "fragments": 3})
