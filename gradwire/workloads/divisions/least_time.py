"""The least time of an iteration of a divided model: the longest chain through its pipeline's schedule.

A stage runs its passes in the order of 1F1B, each as long as it computes and as its tensor group's collectives take,
with a message's time between stages; what exchanges of tokens and of keys and values add at least is added; then
gradients are scattered and parameters gathered at the line's rate. Nothing else shares a line. The result is a lower
bound of what an estimate or a run takes, and not an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.workloads.divisions.choices import DivisionChoice
from gradwire.workloads.divisions.memory import ACTIVATION_BYTES, GRADIENT_BYTES, PARAMETER_BYTES
from gradwire.workloads.engines.parallel.division import Pass, passes_of_stage
from gradwire.workloads.engines.parallel.ring_attention import CORE, key_value_values
from gradwire.workloads.engines.parallel.segments import Cut, LayerSegment
from gradwire.workloads.job import Job


@dataclass(frozen=True)
class PieceTimes:
    """The times that passes of a microbatch through a piece of the model take, with collectives and for computation
    alone, and the piece's parameters."""

    forward_s: float
    backward_s: float
    forward_compute_s: float
    backward_compute_s: float
    #: Parameters of a worker, without experts', and those of its experts.
    values: float
    expert_values: float = 0.0


@dataclass(frozen=True)
class LeastTime:
    """Lower bounds of the time of an iteration."""

    iteration_s: float
    #: The bound on a network that costs nothing: computation, and waiting for other stages.
    compute_and_bubble_s: float
    #: Computation of the busiest stage.
    compute_s: float


def busiest_s(job: Job, choice: DivisionChoice, cut: Cut, rate_bytes_per_s: float) -> float:
    """Returns the time that the busiest stage computes and exchanges in its tensor groups: a weaker bound, which is
    found at once."""
    pieces = [_piece_times(job, choice, cut, piece, rate_bytes_per_s) for piece in cut.stages]
    return choice.microbatches * max(
        sum(piece.forward_s + piece.backward_s for piece in pieces[stage :: choice.pipeline])
        for stage in range(choice.pipeline)
    )


def least_time(job: Job, choice: DivisionChoice, cut: Cut, rate_bytes_per_s: float) -> LeastTime:
    """The bound of a choice. job: of all workers, with times of `job.batch` samples; rate: of a NIC, for payload."""
    pieces = [_piece_times(job, choice, cut, piece, rate_bytes_per_s) for piece in cut.stages]
    values = -(-cut.activation_values * choice.samples // (choice.tensor * choice.context)) * ACTIVATION_BYTES
    order = [
        passes_of_stage("1f1b", choice.pipeline, stage, choice.microbatches, choice.chunks)
        for stage in range(choice.pipeline)
    ]
    timed = stage_times(
        order,
        [piece.forward_s for piece in pieces],
        [piece.backward_s for piece in pieces],
        values / rate_bytes_per_s,
    )
    alone = stage_times(
        order,
        [piece.forward_compute_s for piece in pieces],
        [piece.backward_compute_s for piece in pieces],
        0.0,
    )
    ends: list[float] = []
    compute: list[float] = []
    for stage, times in enumerate(timed):
        of_stage = pieces[stage :: choice.pipeline]
        busy_s = choice.microbatches * sum(piece.forward_s + piece.backward_s for piece in of_stage)
        compute.append(
            choice.microbatches * sum(piece.forward_compute_s + piece.backward_compute_s for piece in of_stage)
        )
        values_sent = sum(
            values * (holders - 1) / holders
            for piece in of_stage
            for values, holders in ((piece.values, choice.holders), (piece.expert_values, choice.expert_holders))
        )
        scatter_s = values_sent * GRADIENT_BYTES / rate_bytes_per_s
        gather_s = values_sent * PARAMETER_BYTES / rate_bytes_per_s
        last_s = times.end_s - times.yields_s
        # A stage's next iteration waits for its own end alone; the first stage waits for all others in an iteration.
        begins_s = 0.0 if stage == 0 else times.end_s - busy_s
        ends.append(times.end_s - begins_s + max(0.0, scatter_s - last_s) + gather_s)
    return LeastTime(max(ends), max(times.end_s for times in alone), max(compute))


def _piece_times(job: Job, choice: DivisionChoice, cut: Cut, piece: Sequence[LayerSegment], rate: float) -> PieceTimes:
    share = choice.samples / job.batch / choice.tensor / choice.context
    part_bytes = -(-cut.activation_values * choice.samples // (choice.tensor * choice.context)) * ACTIVATION_BYTES
    inside = choice.tensor <= job.cluster.workers_per_host
    step_s = job.costs.message_s(part_bytes, inside=True) if inside else part_bytes / rate
    half_s = (choice.tensor - 1) * step_s
    forward_s = backward_s = wait_s = wait_back_s = 0.0
    for segment in piece:
        pass_s, back_s = (
            sum(times_s[layer] for layer in segment.layers) * share
            for times_s in (job.compute.forward_s, job.compute.backward_s)
        )
        exchanges_s = half_s * (segment.sums_gradients + segment.sums_outputs)
        exchanges_s += 2 * _to_experts_s(job, choice, segment, rate)
        extra_s, extra_back_s = _attending_s(job, choice, cut, segment, rate)
        forward_s, wait_s = forward_s + pass_s, wait_s + exchanges_s + extra_s
        backward_s += back_s
        wait_back_s += exchanges_s + extra_back_s
        if choice.recompute == "full" and segment.block >= 0:
            backward_s, wait_back_s = backward_s + pass_s, wait_back_s + exchanges_s + extra_s
    experts = sum(segment.values for segment in piece if segment.routed_values)
    values = (sum(segment.values for segment in piece) - experts) / choice.tensor
    times = forward_s + wait_s, backward_s + wait_back_s, forward_s, backward_s
    return PieceTimes(*times, values, experts / choice.tensor / choice.experts)


def _to_experts_s(job: Job, choice: DivisionChoice, segment: LayerSegment, rate: float) -> float:
    """Returns the least time of an all-to-all: the bytes that leave the machine at the NIC's rate, or one message
    inside it."""
    if not segment.routed_values:
        return 0.0
    each_bytes = -(-segment.routed_values * choice.samples // (choice.tensor * choice.experts)) * ACTIVATION_BYTES
    groups = max(1, job.cluster.workers_per_host // choice.tensor)
    if choice.experts <= groups:
        return job.costs.message_s(each_bytes, inside=True)
    return (choice.experts - groups) * each_bytes / rate


def _attending_s(job: Job, choice: DivisionChoice, cut: Cut, segment: LayerSegment, rate: float) -> tuple[float, float]:
    """Returns the least time by which handing on keys and values outlasts the core of attention, in a forward and a
    backward pass.

    It is 0 if only some members of a group send to other machines: the others run ahead, and keys and values come
    during other computation.

    Nothing is taken for sure where only some members of a group send to other machines: the others run ahead, and keys
    and values come during other computation.
    """
    core = next((layer for layer in segment.layers if job.profile.layers[layer].name.endswith(CORE)), None)
    groups = max(1, job.cluster.workers_per_host // choice.tensor)
    if choice.context == 1 or core is None or 1 < groups < choice.context:
        return 0.0, 0.0
    share = choice.samples / job.batch / choice.tensor / choice.context
    values = key_value_values(job.profile, cut.activation_values) * choice.samples
    hop_bytes = -(-values // (choice.context * choice.tensor)) * ACTIVATION_BYTES
    inside = choice.context <= groups
    around_s = (choice.context - 1) * (job.costs.message_s(hop_bytes, inside=True) if inside else hop_bytes / rate)
    # Behind a machine's own links, gradients do not wait for keys and values.
    around_back_s = around_s if inside else 2 * around_s
    return (
        max(0.0, around_s - job.compute.forward_s[core] * share),
        max(0.0, around_back_s - job.compute.backward_s[core] * share),
    )


@dataclass(frozen=True)
class StageTimes:
    """The times at which a stage begins the first pass that yields gradients, and ends its last one."""

    yields_s: float
    end_s: float


def stage_times(
    order: Sequence[Sequence[Pass]], forward_s: Sequence[float], backward_s: Sequence[float], hop_s: float
) -> list[StageTimes]:
    """The schedule of all stages, which begins at 0. order: passes of each stage; times: by piece of the model."""
    stages, pieces = len(order), len(forward_s)
    ended: dict[tuple[int, bool, int], float] = {}
    at, free_s = [0] * stages, [0.0] * stages
    last_microbatch = max(one.microbatch for one in order[0])
    yields_s: list[float | None] = [None] * stages
    waiting = list(range(stages))
    while waiting:
        waiting = [stage for stage in waiting if at[stage] < len(order[stage])]
        for stage in waiting:
            while at[stage] < len(order[stage]):
                one = order[stage][at[stage]]
                piece = one.chunk * stages + stage
                ready_s = _ready_s(ended, piece, one, pieces, hop_s)
                if ready_s is None:
                    break
                begin_s = max(free_s[stage], ready_s)
                if not one.forward and one.microbatch == last_microbatch and yields_s[stage] is None:
                    yields_s[stage] = begin_s
                free_s[stage] = begin_s + (forward_s if one.forward else backward_s)[piece]
                ended[piece, one.forward, one.microbatch] = free_s[stage]
                at[stage] += 1
    return [
        StageTimes(end_s if first_s is None else first_s, end_s)
        for first_s, end_s in zip(yields_s, free_s, strict=True)
    ]


def _ready_s(
    ended: dict[tuple[int, bool, int], float], piece: int, one: Pass, pieces: int, hop_s: float
) -> float | None:
    """Returns the time at which a pass's inputs have arrived; None while that is not known."""
    before = piece - 1 if one.forward else piece + 1
    if before < 0:
        return 0.0
    if before == pieces:
        return ended.get((piece, True, one.microbatch))
    end_s = ended.get((before, one.forward, one.microbatch))
    return None if end_s is None else end_s + hop_s
