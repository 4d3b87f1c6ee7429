"""Buckets: the gradients that one allreduce reduces, which are a tensor, several fused ones, or selected gradients; and
the earliest time at which it may start.

Sources: GradientFlow, sections 2.6 (a tensor as soon as backward yields it), 3.1 (lazy allreduce, and Horovod's fusion,
which it compares with); PyTorch's reducer.cpp (the buckets of DistributedDataParallel).

For small clusters that stand for large ones (workloads/stand_in.py), `allreduce_load` says in closed form what an
allreduce asks of messages and links. Sources: GradientFlow, section 2.4 (ring: 2 (N - 1) messages, 2 (N - 1) / N K
bytes per GPU); NetOps, section 8.2.2 (butterfly); Rabenseifner (halving-doubling). Workers fill one machine after the
other and share its port.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gradwire.faults import InputFault
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.stand_in import AllreduceLoad


@dataclass(frozen=True)
class Hold:
    """A delay after a layer's backward op: Horovod looks for ready tensors only once per cycle."""

    layer: int
    delay_s: float
    #: Time that the first rank then spends on reports, one hold after the other.
    reading_s: float = 0.0


@dataclass(frozen=True)
class Bucket:
    """The gradients that one allreduce reduces."""

    name: str
    #: Number of gradients.
    values: int
    #: Layer whose backward op yields the last of them.
    ready_layer: int
    #: First layer whose forward op needs them.
    first_layer: int
    #: Time to bring them into a fused buffer or the wire's format.
    copy_in_s: float = 0.0
    #: Time to bring them back.
    copy_out_s: float = 0.0
    #: Latency of the call that reduces it.
    call_s: float = 0.0
    #: A delay that it waits for as well.
    hold: Hold | None = None
    #: Whether it is reduced after all others, for the next backward pass (CSC's norms).
    selection: bool = False


@dataclass(frozen=True)
class Gradient:
    """A tensor's gradient as the backward pass yields it."""

    name: str
    #: Number of elements.
    values: int
    layer: int


def backward_order(job: Job) -> list[Gradient]:
    """All gradients in the order in which the backward pass yields them: from tensor m to tensor 1 (GradientFlow,
    section 3.1)."""
    pairs = zip(job.profile.tensors, job.profile.tensor_layer, strict=True)
    return [Gradient(tensor.name, tensor.parameters, layer) for tensor, layer in pairs][::-1]


def fused(gradients: Sequence[Gradient]) -> Bucket:
    """One bucket of gradients that follow one another in backward order: it is ready with the last one, in the lowest
    layer."""
    first, last = gradients[0], gradients[-1]
    name = first.name if len(gradients) == 1 else f"{first.name} to {last.name}"
    return Bucket(name, sum(gradient.values for gradient in gradients), last.layer, last.layer)


def lazily_fused(gradients: Iterable[Gradient], threshold_values: int) -> list[list[Gradient]]:
    """Lazy allreduce: gradients wait until together they are more than `threshold_values`; what is left goes at the
    end."""
    groups: list[list[Gradient]] = [[]]
    waiting = 0
    for gradient in gradients:
        groups[-1].append(gradient)
        waiting += gradient.values
        if waiting > threshold_values:
            groups.append([])
            waiting = 0
    return [group for group in groups if group]


def buffer_fused(gradients: Iterable[Gradient], buffer_values: int) -> list[list[Gradient]]:
    """Horovod: gradients, in order, as long as they fit into the fusion buffer; one that is larger goes alone, in
    place."""
    groups: list[list[Gradient]] = []
    filled = 0
    for gradient in gradients:
        if not groups or filled + gradient.values > buffer_values:
            groups.append([])
            filled = 0
        groups[-1].append(gradient)
        filled += gradient.values
    return groups


def cap_filled(gradients: Iterable[Gradient], first_cap_values: float, cap_values: float) -> list[list[Gradient]]:
    """PyTorch: a bucket is closed by the gradient that brings it to its cap or beyond; what is left goes at the end.

    So a bucket may be larger than its cap by all but one value of a tensor. `compute_bucket_assignment_by_size` in
    https://github.com/pytorch/pytorch/blob/v2.5.0/torch/csrc/distributed/c10d/reducer.cpp adds a tensor first and
    compares then.
    """
    groups: list[list[Gradient]] = [[]]
    filled = 0
    for gradient in gradients:
        groups[-1].append(gradient)
        filled += gradient.values
        if filled >= (first_cap_values if len(groups) == 1 else cap_values):
            groups.append([])
            filled = 0
    return [group for group in groups if group]


def by_cycle(job: Job, gradients: Iterable[Gradient], cycle_s: float) -> list[tuple[Hold, list[Gradient]]]:
    """Gradients that one cycle finds ready together, and how long after the last of them the cycle comes.

    Cycles are counted from the start of the iteration and gradients' times from computation alone, so the groups are
    the same in every iteration, as a plan needs; real cycles drift against iterations. A gradient that is ready just
    when a cycle comes is taken by it.
    """
    times_s = _yield_times_s(job)
    cycles: dict[int, list[Gradient]] = {}
    for gradient in gradients:
        # A thousandth of a nanosecond: sums of floats must not push a gradient into the next cycle.
        cycles.setdefault(int(-((-times_s[gradient.layer] + 1e-12) // cycle_s)), []).append(gradient)
    return [
        (Hold(group[-1].layer, max(0.0, number * cycle_s - times_s[group[-1].layer])), group)
        for number, group in cycles.items()
    ]


def negotiated(wait: Hold | None, gradients: Sequence[Gradient], tensor_s: float) -> Hold | None:
    """The wait for a cycle (None: for the last of the gradients), and then `tensor_s` for each tensor that the ranks
    agree on."""
    if not tensor_s:
        return wait
    since = wait or Hold(gradients[-1].layer, 0.0)
    return replace(since, reading_s=len(gradients) * tensor_s)


def _yield_times_s(job: Job) -> list[float]:
    """The end of each layer's backward op, counted from the start of the iteration."""
    now_s = sum(job.compute.forward_s)
    times_s = [0.0] * len(job.profile.layers)
    for layer in reversed(range(len(times_s))):
        now_s += job.compute.backward_s[layer]
        times_s[layer] = now_s
    return times_s


def after_backward(buckets: Iterable[Bucket]) -> list[Bucket]:
    """Returns these buckets without overlap: none is ready before the whole backward pass is (GradientFlow, Fig. 4)."""
    return [replace(bucket, ready_layer=0) for bucket in buckets]


def allreduce_load(algorithm: str, cluster: Cluster) -> AllreduceLoad:
    """The load of one allreduce.

    Raises InputFault for an algorithm without a closed form here, or a number it cannot pair.
    """
    workers, machines, per_machine = cluster.workers, cluster.worker_hosts, cluster.workers_per_host
    if workers < 2:
        return AllreduceLoad(0, 0, 0, 0)
    if algorithm == "ring":
        around = 2 * (workers - 1) / workers
        return AllreduceLoad(2 * (workers - 1), around * (machines > 1), around * (per_machine > 1), around / 2)
    if algorithm not in ("butterfly", "halving-doubling"):
        raise InputFault(
            f"cluster.stands_for: no closed form for '{algorithm}'; there is one for ring, butterfly and "
            "halving-doubling"
        )
    rounds_out, rounds_in = _rounds("machines", machines), _rounds("workers of one machine", per_machine)
    if algorithm == "butterfly":
        rounds = rounds_out + rounds_in
        return AllreduceLoad(rounds, per_machine * rounds_out, rounds_in, rounds)
    # Distances fall from N / 2 to 1 while what is exchanged is halved: K / 2 to K / M goes out, the rest stays inside;
    # and back.
    out, inside = 1 - 1 / machines, 1 / machines - 1 / workers
    return AllreduceLoad(2 * (rounds_out + rounds_in), per_machine * 2 * out, 2 * inside, out + inside)


def _rounds(what: str, count: int) -> int:
    if count & (count - 1):
        raise InputFault(f"cluster: {count} {what}: butterfly and halving-doubling pair them and need a power of two")
    return round(math.log2(count))
