"""TicTac: parameter servers that send each worker its parameters in the order in which its computation can use them.

Source: TicTac, sections 3 to 6. The iteration, and how an order is enforced: workloads/engines/ordered_transfers.py.

Where the paper is silent: tensors are placed whole, round robin over the servers (TensorFlow's default); the time
oracle gives a transfer its time alone at line rate, without headers, and takes every server to be remote.

The orders of the baseline
==========================

Without scheduling, TensorFlow's executor hands the recv ops of a step, which wait for nothing, to a pool of threads one
after the other, in the order of its graph (ScheduleReady in tensorflow/core/common_runtime/executor.cc). Threads that
are slow let others pass. How often, the paper tells by a count: in 1000 iterations, ResNet-50 v2 and Inception v3 had
1000 orders, and VGG-16 had 493 (section 2.2). Order "random" has 1000 for each of them. Order "almost-layer" has one
parameter, which is fitted to the 493; the other two counts, and all of the paper's times, are predictions.

The counts alone do not tell how far a late tensor falls back. If only neighbours changed places, 493 orders would need
one of 20 neighbours to do so, and no order would cost time, while the paper gains up to 37.7 % (section 6.1) and sees
steps of Inception v2 vary widely (section 6.2). So a late tensor may fall back to any later place. Nor does the paper
say what the order of the graph is: here it is that of the layers. With any other fixed order, few late tensors change
little: gains are those over "random", and the time of a step hardly varies.

The orders TIC and TAC
======================

They are derived from the graph of a worker's operations, by the rules of sections 3.1 (partitioned graph, time
oracle), 4.1 (op properties, Algorithm 1), 4.2 (TIC) and 4.3 (TAC). The graph has a recv op for each parameter tensor
and a compute op for each layer and pass. Recv ops are its roots. Times are whole nanoseconds, so that equal times
compare equal.

Where the paper is silent or errs:

- Algorithm 3 prints the comparison reversed; this module follows Equation 6, which the text derives.
- Ties are broken by the order in which tensors were created. TIC gives all tensors of a layer the same priority, and
  also the first two layers of a chain, since an op with a single outstanding recv does not enter M+.
- A recv that no op with several recvs needs keeps M+ = infinity: it comes last in TIC, and loses ties in TAC.
- The paper calls the comparator transitive. It is not where Equation 6 ties: recvs with (M, P) = (3, 2), (2, 2), (2,
  3) and rising M+ precede one another in a circle. "The minimum" is therefore the recv that one pass over the
  outstanding recvs in creation order ends with.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from gradwire.datatypes.plan import Int64, Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.ordered_transfers import Enforcement, compile_ordered
from gradwire.workloads.engines.placement import whole_tensors
from gradwire.workloads.job import Job
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.strategy import GRPC, Options, Strategy

Bool = npt.NDArray[np.bool_]

INFINITE = int(np.iinfo(np.int64).max)
"""M+ of a recv that no op with several outstanding recvs needs."""


@dataclass(frozen=True)
class ComputeOp:
    """A computation."""

    time_ns: int
    #: Recv ops that it reads itself.
    recvs: tuple[int, ...]
    #: Compute ops, all earlier ones, whose results it reads.
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class OperationGraph:
    """A worker's partition of the graph."""

    #: Time of each recv op.
    recv_ns: tuple[int, ...]
    #: Compute ops in topological order.
    compute: tuple[ComputeOp, ...]


@dataclass(frozen=True)
class Properties:
    """Results of Algorithm 1 in ns, arrays of shape (recvs,).

    For recvs that are not outstanding, P is 0 and M+ is INFINITE.
    """

    #: M: the recv's communication time.
    transfer_ns: Int64
    #: P: computation that waits for this recv alone.
    load_ns: Int64
    #: M+: the least communication, the recv's own included, that lets an op with several outstanding recvs start.
    impending_ns: Int64


def model_graph(
    profile: Profile, recv_ns: Sequence[int], forward_s: Sequence[float], backward_s: Sequence[float] = ()
) -> OperationGraph:
    """Builds the graph of a model: a recv for each tensor, a forward op for each layer and, in training, a backward op
    as well.

    `recv_ns` has the time of each tensor in creation order; `forward_s` and `backward_s` have the seconds of each
    layer. Without `backward_s`, the graph is that of inference. A backward op reads the gradients of the layers that
    read its layer. Those of output layers read the loss, which all outputs feed.
    """
    layers = profile.layers
    tensors_of: list[list[int]] = [[] for _ in layers]
    for tensor, layer in enumerate(profile.tensor_layer):
        tensors_of[layer].append(tensor)
    compute = [
        ComputeOp(round(seconds * 1e9), tuple(tensors_of[number]), layer.inputs)
        for number, (layer, seconds) in enumerate(zip(layers, forward_s, strict=True))
    ]
    if backward_s:
        readers = readers_of(profile)
        outputs = tuple(number for number, read_by in enumerate(readers) if not read_by)
        for number in reversed(range(len(layers))):
            inputs = tuple(2 * len(layers) - 1 - reader for reader in readers[number]) or outputs
            compute.append(ComputeOp(round(backward_s[number] * 1e9), (), inputs))
    return OperationGraph(tuple(recv_ns), tuple(compute))


def readers_of(profile: Profile) -> list[list[int]]:
    """Lists, for each layer, the layers that read it."""
    readers: list[list[int]] = [[] for _ in profile.layers]
    for number, layer in enumerate(profile.layers):
        for read in layer.inputs:
            readers[read].append(number)
    return readers


def tic(graph: OperationGraph) -> list[int]:
    """Timing-independent order (Algorithm 2): recv ops by rising M+, where each transfer lasts 1 and computation lasts
    0."""
    untimed = OperationGraph((1,) * len(graph.recv_ns), tuple(replace(op, time_ns=0) for op in graph.compute))
    outstanding = np.ones(len(graph.recv_ns), dtype=np.bool_)
    order: list[int] = np.argsort(properties(untimed, outstanding).impending_ns, kind="stable").tolist()
    return order


def tac(graph: OperationGraph) -> list[int]:
    """Timing-aware order (Algorithm 3 with Equation 6): repeatedly picks the recv op that precedes all other
    outstanding ones."""
    needs = _needs(graph)
    outstanding = np.ones(len(graph.recv_ns), dtype=np.bool_)
    order: list[int] = []
    while outstanding.any():
        now = _properties(needs, graph, outstanding)
        first, *others = np.flatnonzero(outstanding).tolist()
        for other in others:
            if precedes(now, other, first):
                first = other
        outstanding[first] = False
        order.append(first)
    return order


def precedes(recvs: Properties, a: int, b: int) -> bool:
    """Returns whether recv a should come before recv b: by Equation 6, and by the smaller M+ if that ties."""
    a_first = min(recvs.load_ns[b], recvs.transfer_ns[a])
    b_first = min(recvs.load_ns[a], recvs.transfer_ns[b])
    if a_first != b_first:
        return bool(a_first < b_first)
    return bool(recvs.impending_ns[a] < recvs.impending_ns[b])


def properties(graph: OperationGraph, outstanding: Bool) -> Properties:
    """Computes the properties of the recv ops (Algorithm 1).

    `outstanding`, of shape (recvs,), marks those not yet transferred.
    """
    return _properties(_needs(graph), graph, outstanding)


@dataclass(frozen=True)
class _Needs:
    """Sets of recv ops that compute ops depend on, directly or indirectly, each set once.

    P and M+ need no more than this, and deep models have a few sets for thousands of ops.
    """

    #: Members of each set, shape (sets, recvs).
    recvs: Bool
    #: Time of all compute ops that depend on the set, together.
    time_ns: Int64


def _needs(graph: OperationGraph) -> _Needs:
    """Collects the communication dependencies (op.dep), passing bit sets on from inputs to readers."""
    needed_by_op: list[int] = []
    time_ns: dict[int, int] = {}
    for op in graph.compute:
        needed = 0
        for recv in op.recvs:
            needed |= 1 << recv
        for earlier in op.inputs:
            needed |= needed_by_op[earlier]
        needed_by_op.append(needed)
        time_ns[needed] = time_ns.get(needed, 0) + op.time_ns
    count = len(graph.recv_ns)
    rows = [[bool(needed >> recv & 1) for recv in range(count)] for needed in time_ns]
    return _Needs(np.array(rows, dtype=np.bool_).reshape(-1, count), np.array(list(time_ns.values()), dtype=np.int64))


def _properties(needs: _Needs, graph: OperationGraph, outstanding: Bool) -> Properties:
    transfer_ns = np.array(graph.recv_ns, dtype=np.int64)
    awaited = needs.recvs & outstanding
    awaited_count = awaited.sum(axis=1)
    alone = awaited_count == 1
    load_ns = (awaited[alone] * needs.time_ns[alone, np.newaxis]).sum(axis=0, dtype=np.int64)
    several = awaited[awaited_count > 1]
    total_ns = (several * transfer_ns).sum(axis=1, dtype=np.int64)
    impending_ns = np.where(several, total_ns[:, np.newaxis], INFINITE).min(axis=0, initial=INFINITE)
    return Properties(transfer_ns, load_ns, impending_ns.astype(np.int64))


Order = Literal["tic", "tac", "layer", "reverse", "random", "almost-layer", "shared-random"]
UNENFORCED: tuple[Order, ...] = ("random", "almost-layer")
"""Baselines: transfers become ready in this order, which nobody keeps."""
LATE_SHARE = 0.034
"""Share of a worker's requests that come late, fitted to the one count of orders that differs from the number of
iterations: 493 orders of VGG-16's 32 parameters in 1000 iterations (section 2.2). The fit, with what other shares and
models give: `python -m benchmarks.fitting.fit_late_share`."""


class TictacOptions(Options):
    """Options for how TicTac orders transfers, and for where it enforces that order."""

    order: Order = "tic"
    """Order of the transfers to a worker. "random" and "almost-layer" are baselines: nothing is enforced, and each
    worker has another order. "random": all orders are as likely. "almost-layer": tensors as created, of which a few
    come late (`late_share`). "layer": tensors as created. "reverse": from last to first, the worst case (Geryon, Fig.
    4b). "shared-random": a random order that is enforced at all workers alike (section 6.3)."""
    late_share: float = Field(LATE_SHARE, ge=0, le=1)
    """Probability that a tensor is late, with order "almost-layer". It then comes at a place that is drawn evenly from
    its own to the last. The default is fitted to section 2.2: 493 different orders in 1000 iterations of VGG-16. Orders
    are drawn anew for each seed and worker, and stay the same in all iterations of a run."""
    workload: Literal["training", "inference"] = "training"
    """"inference": agents only pull parameters and compute the forward pass."""
    enforcement: Enforcement = "sender"
    """Where the order is kept (section 5.1). "sender", by the server's counters, is TicTac's own choice."""


def compile_tictac(job: Job, options: TictacOptions) -> Mapping[str, Plan]:
    """TicTac with whole tensors.

    Raises InputFault for order "tac" if the job has no link rate, and for options that contradict.
    """
    if options.enforcement != "sender" and options.order in UNENFORCED:
        raise InputFault(
            f"enforcement = '{options.enforcement}': order '{options.order}' is enforced nowhere; leave out one of them"
        )
    if "late_share" in options.model_fields_set and options.order != "almost-layer":
        raise InputFault(
            f"late_share = {options.late_share:g}: only order 'almost-layer' has late tensors, not '{options.order}'; "
            "leave it out"
        )
    if options.enforcement == "activation" and math.isinf(job.costs.copy_bytes_per_s):
        raise InputFault(
            "enforcement = 'activation': without costs.copy_rate every transfer is copied at once, in order"
        )
    inference = options.workload == "inference"
    label = f"{options.order}, {options.workload}"
    if options.enforcement != "sender":
        label += f", {options.enforcement}"
    plan = compile_ordered(
        job,
        whole_tensors(job.profile, job.cluster.servers),
        transfer_orders(job, options.order, inference=inference, late_share=options.late_share),
        f"tictac, {label}",
        inference=inference,
        enforcement=None if options.order in UNENFORCED else options.enforcement,
    )
    return {label: plan}


def transfer_orders(
    job: Job, order: Order, *, inference: bool = False, late_share: float = LATE_SHARE
) -> list[list[int]]:
    """Tensor numbers for each worker, first to last."""
    count, workers = len(job.profile.tensors), job.cluster.workers
    if order == "almost-layer":
        return [almost_ordered(count, late_share, f"{job.seed}/pull/{worker}") for worker in range(workers)]
    if order == "random":
        return [_shuffle(count, f"{job.seed}/pull/{worker}") for worker in range(workers)]
    if order == "shared-random":
        common = _shuffle(count, f"{job.seed}/pull")
    elif order in ("layer", "reverse"):
        common = list(range(count))[:: 1 if order == "layer" else -1]
    else:
        graph = operation_graph(job, timed=order == "tac", inference=inference)
        common = tac(graph) if order == "tac" else tic(graph)
    return [common] * workers


def _shuffle(count: int, seed: str) -> list[int]:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


def almost_ordered(count: int, late_share: float, seed: str) -> list[int]:
    """Numbers from 0 to count - 1 in order, but each is late with probability `late_share`, and then comes at a place
    that is drawn evenly from its own to the last."""
    draw = random.Random(seed)
    place = [draw.uniform(number, count) if draw.random() < late_share else number for number in range(count)]
    return sorted(range(count), key=place.__getitem__)


def operation_graph(job: Job, *, timed: bool, inference: bool) -> OperationGraph:
    """The reference worker's partition of the model's graph; `timed`: with the time oracle's transfer times, otherwise
    without."""
    if timed and job.rate_bps is None:
        raise InputFault("order 'tac' weighs transfers against computation: the job needs a link rate (fabric.rate)")
    latency_s, bits_per_s = job.costs.message_latency_s, job.rate_bps or float("inf")
    bits = [piece.size_bytes * 8 for piece in whole_tensors(job.profile, 1)]
    recv_ns = [round((latency_s + size / bits_per_s) * 1e9) for size in bits]
    return model_graph(job.profile, recv_ns, job.compute.forward_s, () if inference else job.compute.backward_s)


STRATEGIES = (
    Strategy(
        name="tictac",
        summary="TensorFlow's parameter server with transfers in TIC, TAC, layer or random order",
        source="TicTac, sections 3 to 6",
        options=TictacOptions,
        compile=compile_tictac,
        senders=GRPC,
    ),
)
