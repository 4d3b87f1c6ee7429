"""ZeRO's stages 1 and 2: bytes in closed form, what overlaps, whose contributions are where, and what the checker
refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from gradwire.analysis.bounds import critical_path_s
from gradwire.datatypes.plan import Combine, OpKind, Plan
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster, Job
from tests.shared.simulation import replay
from tests.shared.small_allreduces import FABRIC, GOODPUT_BYTES_PER_S, plan_of, sent_bytes
from tests.shared.small_jobs import dependencies, job_of, with_dependencies, without_op
from tests.unit.workloads.strategies.test_fsdp import BLOCK_VALUES, FORWARD_S, blocks

FP32 = {"parameters": "fp32", "gradients": "fp32"}
each_stage = pytest.mark.parametrize("stage", ["zero1", "zero2"])


@each_stage
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_the_volume_is_that_of_data_parallelism(stage: str, workers: int) -> None:
    """Rajbhandari et al. 2020, section 7.2.1: a reduce-scatter and an allgather of the model, as an allreduce has
    it."""
    job = blocks(3, workers, values=12_000)
    assert sent_bytes(plan_of(job, stage, FP32)).tolist() == sent_bytes(plan_of(job, "ddp")).tolist()


@each_stage
def test_an_allreduce_and_an_allgather_are_half_as_much_again(stage: str) -> None:
    job = blocks(3, 4, values=12_000)
    summed_by_allreduce = plan_of(job, stage, {**FP32, "sum_by": "all-reduce"})
    check(summed_by_allreduce)
    assert sent_bytes(summed_by_allreduce).tolist() == [1.5 * size for size in sent_bytes(plan_of(job, "ddp")).tolist()]


WIDTHS = [("bf16", "bf16", 4), ("bf16", "fp32", 6), ("fp32", "fp16", 6)]
"""Formats of parameters and gradients, and bytes of both together."""


@pytest.mark.parametrize(("parameters", "gradients", "width"), WIDTHS)
def test_parameters_and_gradients_have_formats_of_their_own(parameters: str, gradients: str, width: int) -> None:
    """A worker sends 3 of 4 parts of 12,000 values once in either format."""
    plan = plan_of(blocks(1, 4, values=12_000), "zero2", {"parameters": parameters, "gradients": gradients})
    assert sent_bytes(plan).tolist() == [3 * 3000 * width] * 4


def test_buckets_fill_as_deepspeed_fills_them() -> None:
    """Blocks of 100, 100 and 100 values and a root of 250 with room for 220: two blocks, one, and the root alone.
    Parts are padded."""
    plan = plan_of(blocks(3, 2, root_values=250, values=100), "zero2", {"bucket_parameters": 220})
    check(plan)
    assert list(plan.tensors) == [
        "block2/ffn/weights to block1/ffn/weights",
        "block0/ffn/weights",
        "embeddings/weights",
    ]
    assert plan.chunk_bytes.tolist() == [2 * size for part in (100, 50, 125, 125, 50, 100) for size in (part, part)]


def expected_s(stage: str, workers: int) -> float:
    """4 blocks of 10 and 20 ms, and buckets of a block. In stage 1, all sums follow the backward pass; in stage 2, all
    but the last hide behind it. Gathers follow."""
    transfer_s = BLOCK_VALUES / workers / GOODPUT_BYTES_PER_S * (workers - 1) * 2
    assert transfer_s < FORWARD_S
    sums = 4 if stage == "zero1" else 1
    return 4 * 3 * FORWARD_S + (sums + 4) * transfer_s


@each_stage
@pytest.mark.parametrize("workers", [2, 4])
def test_an_iteration_takes_the_time_worked_out_by_hand(stage: str, workers: int) -> None:
    plan = plan_of(blocks(4, workers), stage, {"bucket_parameters": BLOCK_VALUES})
    assert critical_path_s(plan, FABRIC) == pytest.approx(expected_s(stage, workers), rel=1e-6)


def test_overlap_decides_and_not_the_stage() -> None:
    options = {"bucket_parameters": BLOCK_VALUES}
    for stage, overlap, like in (("zero1", True, "zero2"), ("zero2", False, "zero1")):
        plan = plan_of(blocks(4, 2), stage, {**options, "overlap": overlap})
        assert critical_path_s(plan, FABRIC) == pytest.approx(expected_s(like, 2), rel=1e-6)


def iteration_ns(plan: Plan) -> int:
    """From the begin of the second iteration to that of the third."""
    log = replay(plan, 3)
    begins = log.start_ns[log.op == plan.begin_op[0]]
    return int(begins[2] - begins[1])


def test_gathers_hide_behind_the_forward_pass_if_they_may() -> None:
    """3 of 4 do: all but that of the first layer's bucket, for which the whole forward pass waits."""
    late, early = (
        plan_of(blocks(4, 2), "zero2", {"bucket_parameters": BLOCK_VALUES, "overlap_gather": overlap})
        for overlap in (False, True)
    )
    shown = iteration_ns(late) - round(4 * 3 * FORWARD_S * 1e9)
    assert iteration_ns(late) - iteration_ns(early) == pytest.approx(shown * 3 / 5, rel=0.01)


@each_stage
@pytest.mark.parametrize("options", [{}, {"sum_by": "all-reduce"}, {"overlap_gather": True}])
@pytest.mark.parametrize(("workers", "per_host"), [(1, 1), (2, 1), (3, 1), (4, 2)])
def test_plans_are_accepted_and_replay_to_their_end(
    stage: str, options: dict[str, Any], workers: int, per_host: int
) -> None:
    job = job_of(blocks(3, 1, root_values=50, values=77).profile, Cluster(workers, workers_per_host=per_host))
    plan = plan_of(job, stage, {"bucket_parameters": 80, **options})
    check(plan)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)


def small(stage: str, **options: Any) -> Plan:
    return plan_of(blocks(2, 3, values=9), stage, {"bucket_parameters": 9, **options})


@each_stage
def test_a_part_of_gradients_has_one_receiver_and_a_part_of_parameters_one_contributor(stage: str) -> None:
    plan = small(stage)
    gradients, parameters = np.split(np.arange(len(plan.chunk_bytes)), 2)
    everyone = [0, 1, 2]
    for chunks, many, one in (
        (gradients, plan.chunk_contributors, plan.chunk_receivers),
        (parameters, plan.chunk_receivers, plan.chunk_contributors),
    ):
        assert {tuple(plan.set_ranks(number).tolist()) for number in many[chunks]} == {tuple(everyone)}
        assert [plan.set_ranks(number).tolist() for number in one[chunks]] == [[2], [0], [1]] * 2


@each_stage
@pytest.mark.parametrize("sum_by", ["reduce-scatter", "all-reduce"])
def test_every_message_is_needed(stage: str, sum_by: str) -> None:
    plan = small(stage, sum_by=sum_by)
    for op in np.flatnonzero(plan.ops.kind == OpKind.SEND).tolist():
        with pytest.raises(PlanError):
            check(without_op(plan, op))


@each_stage
def test_an_update_that_does_not_wait_for_the_last_sum_is_refused(stage: str) -> None:
    plan = small(stage)
    updates = set(plan.needs[:, 0].tolist())
    summed = [dep for dep in dependencies(plan) if dep[0] in updates and plan.ops.lane[dep[1]] != 0]
    assert len(summed) == 3
    for dep in summed:
        with pytest.raises(PlanError, match="needs chunk"):
            check(with_dependencies(plan, [kept for kept in dependencies(plan) if kept != dep]))


@each_stage
@pytest.mark.parametrize("overlap_gather", [False, True])
def test_a_forward_pass_that_does_not_wait_for_what_was_updated_is_refused(stage: str, overlap_gather: bool) -> None:
    """The end of the iteration waits for the last gather, or each layer for its own."""
    plan = small(stage, overlap_gather=overlap_gather)
    copies = np.unique(plan.ops.chunk[plan.ops.combine == Combine.COPY])
    consuming = {op for op, chunk in plan.consumes.tolist() if chunk in copies}
    waiting = consuming if overlap_gather else set(plan.end_op.tolist())
    gathered = [dep for dep in dependencies(plan) if dep[0] in waiting and plan.ops.lane[dep[1]] == 3]
    updates = set(plan.needs[:, 0].tolist())
    gathered = [dep for dep in gathered if dep[1] not in updates]
    assert len(gathered) == 2 * 3
    for rank in range(3):
        of_rank = [dep for dep in gathered if plan.ops.rank[dep[0]] == rank]
        with pytest.raises(PlanError, match="needs chunk"):
            check(with_dependencies(plan, [kept for kept in dependencies(plan) if kept not in of_rank]))


def test_wrong_options_are_refused_by_name() -> None:
    job: Job = blocks(1, 2)
    for options, named in (
        ({"sum_by": "broadcast"}, "sum_by"),
        ({"bucket_parameters": 0}, "bucket_parameters"),
        ({"parameters": "fp8"}, "parameters"),
        ({"bucket": "1MB"}, "bucket"),
    ):
        with pytest.raises(ValidationError, match=named):
            plan_of(job, "zero1", options)
