"""Why some of GradientFlow's claims differ: what plans and logs say, and what the paper prints for other cells.

Each bound function reads the numbers that the function named after its argument argues from
(reproduction/scoring/explanations.py). OpenMPI and Gloo: mpi.py. Printed milliseconds are what printed throughputs
mean for an iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from gradwire.analysis.points import PointResult
from gradwire.datatypes.plan import Plan
from reproduction.gradientflow.points import (
    ALEXNET,
    FP32_BYTES,
    FUSED,
    IMAGES,
    RESNET,
    Account,
    account,
    best_row,
    columns,
    ring_steps,
    top_share,
    workers_of,
)
from reproduction.scoring.evidence import Points
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, printed_fact, printed_number
from reproduction.scoring.shapes import close

V_MIXED = "gradientflow-tables-v-mixed"
AGREES = 0.05
"""Share of a printed time within which a measured one confirms it: half of the tolerance of a claim."""

_printed = partial(printed_number, "gradientflow")


def _ms(row: PointResult) -> float:
    return row.iteration_time_s * 1e3


def _printed_ms(row: PointResult, scenario: str, claim: str) -> float:
    """What a printed throughput means for an iteration with as many images as the row's."""
    return row.throughput_per_s * row.iteration_time_s / _printed(scenario, claim) * 1e3


@explains("gradientflow-abstract", "resnet50-512", "resnet50-minutes", "vs-akiba")
@explains("gradientflow-fig16", "resnet50-v-noov", "resnet50-v-noov-ratio", "resnet50-v-ov", "resnet50-v-ov-ratio")
@explains("gradientflow-table2", "v-nccl+mp+la+overlap-throughput", "v-nccl+mp+la+overlap-iter")
@explains("gradientflow-table2", "v-nccl+mp+la+csc+overlap-throughput", "v-nccl+mp+la+csc+overlap-iter")
@explains("gradientflow-table4", "dense")
def _resnet_on_volta(points: Points, claim: Claim) -> Explanation:
    models = (ALEXNET, RESNET)
    fused = {m: points.row(run=V_MIXED, model=m, strategy="lazy-allreduce", options=FUSED) for m in models}
    claims = {ALEXNET: "alexnet-v-noov", RESNET: "resnet50-v-noov"}
    facts = {m: points.model(run=V_MIXED, model=m) for m in models}
    argument = not_the_networks(
        fused_ms={m: _ms(fused[m]) for m in models},
        printed_fused_ms={m: _printed_ms(fused[m], "gradientflow-fig16", claims[m]) for m in models},
        bytes_ratio=facts[ALEXNET].parameters / facts[RESNET].parameters,
        tensors=len(facts[RESNET].tensor_names),
    )
    seen = str(account(points, best_row(points, claim.where)))
    return Explanation("ResNet-50 on 512 GPUs takes time that one GPU alone does not show", argument, seen)


def not_the_networks(
    fused_ms: Mapping[str, float], printed_fused_ms: Mapping[str, float], bytes_ratio: float, tensors: int
) -> str:
    """One allreduce after the backward pass, by model: AlexNet's is right though
    it moves more bytes, and ResNet-50's is too fast."""
    missing_ms = {model: printed_fused_ms[model] - fused_ms[model] for model in fused_ms}
    seen = ", ".join(f"{printed_fused_ms[m]:.1f} and {fused_ms[m]:.1f} ms for {m}" for m in fused_ms)
    premise(
        close(fused_ms[ALEXNET], printed_fused_ms[ALEXNET], AGREES) and bytes_ratio > 1,
        "AlexNet, which moves more bytes, to take the printed time with a single allreduce",
        seen,
    )
    premise(
        missing_ms[RESNET] > AGREES * printed_fused_ms[RESNET],
        "ResNet-50 to be visibly faster than printed with a single allreduce",
        seen,
    )
    return (
        "With one allreduce of everything after the backward pass, printed and measured are "
        f"{printed_fused_ms[RESNET]:.1f} and {fused_ms[RESNET]:.1f} ms for ResNet-50, but "
        f"{printed_fused_ms[ALEXNET]:.1f} and {fused_ms[ALEXNET]:.1f} ms for AlexNet, whose allreduce moves "
        f"{bytes_ratio:.1f} times the bytes. So what is missing is not the network's: {missing_ms[RESNET]:.0f} ms of "
        "an iteration of ResNet-50 on 512 GPUs that one GPU alone does not show, such as waiting for the slowest GPU "
        f"or updating {tensors} tensors."
    )


@explains("gradientflow-fig9", "horovod-resnet50")
@explains("gradientflow-fig16", "horovod-copy")
def _horovod(points: Points, _: Claim) -> Explanation:
    names = ("layer-allreduce", "horovod")
    rows = {name: points.row(run="gradientflow-fig9-pytorch", model=RESNET, strategy=name) for name in names}
    return Explanation(
        "Horovod's first rank hears of every tensor from every rank",
        fusion_waits_for_reports(*(account(points, rows[name]) for name in names)),
    )


def fusion_waits_for_reports(nccl: Account, horovod: Account) -> str:
    """Fusion saves messages, and what follows the backward pass is more than what the messages ask for."""
    asked_s = horovod.latency_s + horovod.network_s + horovod.local_s
    premise(
        horovod.messages < nccl.messages,
        "fewer messages with fusion",
        f"{horovod.messages} and {nccl.messages}",
    )
    premise(
        horovod.tail_s > horovod.latency_s,
        "more after the backward pass than the latencies of the messages",
        f"{horovod.tail_s * 1e3:.1f} and {horovod.latency_s * 1e3:.1f} ms",
    )
    return (
        f"ResNet-50 with NCCL: {nccl} With Horovod: {horovod} Fusion leaves {horovod.messages} messages of "
        f"{nccl.messages}, which ask for {asked_s * 1e3:.1f} ms in all. The rest after the backward pass is the first "
        "rank, which reads from every rank that each tensor is ready; what a report takes is fitted on AlexNet."
    )


@explains("gradientflow-fig13", "alexnet-time", "resnet50-time")
def _flops(points: Points, claim: Claim) -> Explanation:
    facts = points.model(**claim.where)
    assert isinstance(claim.printed, float)
    share = top_share(facts.backward_s, facts)
    return Explanation(
        "Operations overestimate the time of the layers at the top",
        top_layers_are_overestimated(share, claim.printed),
        f"{share:.1%} of {sum(facts.backward_s) * 1e3:.0f} ms of backward pass.",
    )


def top_layers_are_overestimated(share: float, printed: float) -> str:
    """Share of the backward pass in the layers at the top."""
    premise(
        share > printed,
        "a larger share of the backward pass in the layers at the top than printed",
        f"{share:.1%} and {printed:.1%}",
    )
    return (
        "The profile divides the backward pass over layers by their FLOPs. GPUs need less time per FLOP in the wide, "
        "small layers at the top, so their share is overestimated, and with it how late the large gradients come."
    )


@explains("gradientflow-fig9", "systemi-nccl-resnet50", "systemi-nccl-resnet50-ratio")
@explains("gradientflow-table2", "p-nccl-throughput", "p-nccl-iter")
def _resnet_on_pascal(points: Points, claim: Claim) -> Explanation:
    row = best_row(points, claim.where)
    measured = account(points, row)
    steps = len(points.model(**claim.where).tensor_names) * ring_steps(workers_of(row))
    argument = one_cell_has_cheap_steps(measured.latency_s / steps * 1e6, printed_step_us(steps, measured.local_s))
    return Explanation("One printed cell has far cheaper steps of the ring than the others", argument, str(measured))


def printed_step_us(steps: int, local_s: float) -> dict[str, float]:
    """What printed iterations of ResNet-50 leave a step of a ring, beyond computation and the link inside a machine.

    steps: of Cluster-P's iteration. local_s: what the link inside a machine takes in single precision.
    """
    volta_steps = steps // ring_steps(128) * ring_steps(512)
    cells = {
        "p": ("p-nccl-iter", "p", "resnet50-p-fp32-1gpu", local_s, steps),
        "p, mixed precision": ("p-nccl+mp-iter", "p", "resnet50-p-mp-1gpu", local_s / 2, steps),
        "v": ("v-nccl-iter", "v", "resnet50-v-fp32-1gpu", local_s, volta_steps),
    }
    left_us = {}
    for name, (claim, cluster, alone, inside_s, count) in cells.items():
        compute_s = printed_fact("gradientflow", f"resnet50-{cluster}-batch") / _printed("gradientflow-fig11", alone)
        left_us[name] = (_printed("gradientflow-table2", claim) - compute_s - inside_s) / count * 1e6
    return left_us


def one_cell_has_cheap_steps(step_us: float, printed_us: Mapping[str, float]) -> str:
    """A step of the ring as it is fitted, and as printed cells imply it."""
    cell, *others = printed_us.values()
    seen = ", ".join(f"{name} {us:.1f} us" for name, us in printed_us.items())
    premise(
        all(cell < 0.8 * other for other in (step_us, *others)),
        f"steps in this cell that are much cheaper than in the others and than the fitted {step_us:.2f} us",
        seen,
    )
    return (
        f"A step of the ring costs {step_us:.2f} us, fitted on AlexNet. The printed time leaves {cell:.1f} us per "
        f"step, in mixed precision {others[0]:.1f} us, and on 512 GPUs {others[1]:.1f} us: Cluster-P's ResNet-50 with "
        "single precision is the one cell whose steps are so much cheaper."
    )


@explains("gradientflow-abstract", "alexnet-minutes", "vs-jia")
@explains("gradientflow-table3", "sparse")
def _minutes(points: Points, claim: Claim) -> Explanation:
    return Explanation(
        "A training is more than its iterations",
        training_is_more_than_iterations(
            images_per_s=best_row(points, claim.where).throughput_per_s,
            printed_per_s=_printed("gradientflow-fig19", "alexnet-v"),
            epochs=printed_fact("gradientflow", "alexnet-bn-epochs"),
            printed_min=_printed("gradientflow-abstract", "alexnet-minutes"),
        ),
    )


def training_is_more_than_iterations(
    images_per_s: float, printed_per_s: float, epochs: float, printed_min: float
) -> str:
    """The paper's own throughput leads to less time than the paper's own minutes."""
    implied_min = epochs * IMAGES / printed_per_s / 60
    premise(
        implied_min < (1 - AGREES) * printed_min,
        f"the printed throughput to mean visibly less than the printed {printed_min:g} minutes",
        f"{implied_min:.2f} minutes",
    )
    premise(
        close(images_per_s, printed_per_s, 2 * AGREES),
        "about the printed throughput",
        f"{images_per_s / 1e3:.0f}K and {printed_per_s / 1e3:.1f}K images/s",
    )
    return (
        f"{epochs:g} epochs at {images_per_s / 1e3:.0f}K images/s. The paper's own {printed_per_s / 1e3:.1f}K "
        f"images/s mean {implied_min:.2f} minutes, not the {printed_min:g} that it prints: the whole training has "
        "dense warm-up iterations, start-up and validation besides the steady iterations that are measured here."
    )


@explains("gradientflow-fig7", "hier-message")
def _group_size(points: Points, claim: Claim) -> Explanation:
    rings = []
    for point in points.stored(**claim.where):
        plan = point.plan()
        size_bytes = point.model.parameters * FP32_BYTES
        rings.append((int(point.parameters["workers"]), plan.hosts, size_bytes / _largest_remote_bytes(plan)))
    return Explanation(
        "M is the number of groups, and the printed formula takes it for their size",
        masters_send_by_number_of_groups(rings),
    )


def _largest_remote_bytes(plan: Plan) -> int:
    """Bytes of the largest message between machines."""
    return int(plan.ops.size_bytes[plan.is_remote() & (plan.ops.chunk >= 0)].max())


def masters_send_by_number_of_groups(rings: list[tuple[int, int, float]]) -> str:
    """Of each plan: workers N, groups M, and the part of the model K that a message between masters is."""
    seen = ", ".join(f"N = {workers}, M = {groups}: K/{part:g}" for workers, groups, part in rings)
    premise(all(np.isclose(part, groups) for _, groups, part in rings), "messages of K/M in every plan", seen)
    same = [workers for workers, groups, _ in rings if groups * groups == workers]
    premise(same, "a plan in which the number and the size of groups are the same, as in Fig. 7", seen)
    return (
        f"In the {len(rings)} compiled plans a ring over M masters sends K/M. The printed K M / N is that only if M "
        f"is the size of a group; the paper defines M as the number of groups. In Fig. 7, with N = {same[0]}, they "
        "are the same."
    )


@explains("gradientflow-table2", "p-order")
def _nothing_left_to_fuse(points: Points, claim: Claim) -> Explanation:
    rows = columns(points, "p", str(claim.where["model"]))
    steps = ("nccl+mp+overlap", "nccl+mp+la+overlap")
    alone, fused = (account(points, rows[step]) for step in steps)
    return Explanation(
        "Overlap alone leaves nothing to fuse",
        overlap_leaves_nothing_to_fuse(
            alone=alone,
            fused=fused,
            backward_s=sum(points.model(**rows[steps[0]].parameters).backward_s),
            printed_s=[_printed("gradientflow-table2", f"p-{step}-iter") for step in steps],
        ),
    )


def overlap_leaves_nothing_to_fuse(alone: Account, fused: Account, backward_s: float, printed_s: list[float]) -> str:
    """Overlap alone, and with fusion, which has to wait for its threshold."""
    asked_s = alone.latency_s + alone.network_s
    premise(
        alone.tail_s < fused.tail_s,
        "less left after the backward pass with overlap alone than with fusion",
        f"{alone.tail_s * 1e3:.1f} and {fused.tail_s * 1e3:.1f} ms",
    )
    premise(
        asked_s < backward_s,
        "the backward pass to outlast what the allreduces ask for",
        f"{backward_s * 1e3:.0f} and {asked_s * 1e3:.0f} ms",
    )
    beyond_ms = [(seconds - alone.compute_s) * 1e3 for seconds in printed_s]
    return (
        f"Overlap alone hides all but {alone.tail_s * 1e3:.1f} ms of the allreduces here, and "
        f"{fused.tail_s * 1e3:.1f} ms are left with fusion, which waits until its threshold is met: of "
        f"{alone.compute_s * 1e3:.0f} ms of computation, the backward pass outlasts the {asked_s * 1e3:.0f} ms that "
        f"they ask for. The printed iterations leave {beyond_ms[0]:.0f} and {beyond_ms[1]:.0f} ms beyond computation; "
        "the paper does not say what overlap costs."
    )
