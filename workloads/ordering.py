"""TicTac's orders: which parameters a worker should receive first, from the graph of its operations.

Source: TicTac, sections 3.1 (partitioned graph, time oracle), 4.1 (op properties, Algorithm 1), 4.2 (TIC) and 4.3 (TAC).
The graph has a recv op for each parameter tensor and a compute op for each layer and pass; recv ops are its roots. Times are
whole nanoseconds, so that equal times compare equal.

Where the paper is silent or errs:

- Algorithm 3 prints the comparison reversed; Equation 6, which the text derives, is followed.
- Ties are broken by the order in which tensors were created. TIC gives all tensors of a layer the same priority, and so the first
  two layers of a chain, since an op with a single outstanding recv does not enter M+.
- A recv that no op with several recvs needs keeps M+ = infinity: it comes last in TIC, and loses a tie in TAC.
- The paper calls the comparator transitive. It is not where Equation 6 ties (recvs with (M, P) = (3, 2), (2, 2), (2, 3) and rising M+
  precede one another in a circle), so "the minimum" is what one pass over the outstanding recvs in creation order ends with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gradwire.workloads.models.profile import Profile
from gradwire.workloads.plan import Int64

Bool = npt.NDArray[np.bool_]

INFINITE = int(np.iinfo(np.int64).max)
"""M+ of a recv that no op with several outstanding recvs needs."""


@dataclass(frozen=True)
class ComputeOp:
    """A computation: its time, the recv ops that it reads itself, and the compute ops, all earlier ones, whose results it reads."""

    time_ns: int
    recvs: tuple[int, ...]
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class OperationGraph:
    """A worker's partition: the time of each recv op, and the compute ops in topological order."""

    recv_ns: tuple[int, ...]
    compute: tuple[ComputeOp, ...]


@dataclass(frozen=True)
class Properties:
    """What Algorithm 1 computes for each recv op, shape (recvs,), in ns; of those not outstanding, P is 0 and M+ is INFINITE.

    transfer_ns: M, its communication time. load_ns: P, computation that waits for it alone. impending_ns: M+, the least communication
    (its own included) that lets an op with several outstanding recvs start.
    """

    transfer_ns: Int64
    load_ns: Int64
    impending_ns: Int64


def model_graph(
    profile: Profile, recv_ns: Sequence[int], forward_s: Sequence[float], backward_s: Sequence[float] = ()
) -> OperationGraph:
    """The graph of a model: a recv for each tensor, a forward op for each layer and, in training, a backward op as well.

    recv_ns: time of each tensor in creation order. forward_s, backward_s: seconds of each layer; no backward_s: inference.
    A backward op reads the gradients of the layers that read its layer; the last ones read the loss, which all outputs feed.
    """
    layers = profile.layers
    own: list[list[int]] = [[] for _ in layers]
    for tensor, layer in enumerate(profile.tensor_layer):
        own[layer].append(tensor)
    compute = [
        ComputeOp(round(seconds * 1e9), tuple(own[number]), layer.inputs)
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
    """Of each layer: the layers that read it."""
    readers: list[list[int]] = [[] for _ in profile.layers]
    for number, layer in enumerate(profile.layers):
        for read in layer.inputs:
            readers[read].append(number)
    return readers


def tic(graph: OperationGraph) -> list[int]:
    """Timing-independent order (Algorithm 2): the recv ops by rising M+, each transfer taken to last 1 and computation 0."""
    untimed = OperationGraph((1,) * len(graph.recv_ns), tuple(replace(op, time_ns=0) for op in graph.compute))
    outstanding = np.ones(len(graph.recv_ns), dtype=np.bool_)
    order: list[int] = np.argsort(properties(untimed, outstanding).impending_ns, kind="stable").tolist()
    return order


def tac(graph: OperationGraph) -> list[int]:
    """Timing-aware order (Algorithm 3 with Equation 6): repeatedly takes the recv op that precedes all other outstanding ones."""
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


def precedes(given: Properties, a: int, b: int) -> bool:
    """Whether recv a should come before recv b: Equation 6, and the smaller M+ where that ties."""
    a_first = min(given.load_ns[b], given.transfer_ns[a])
    b_first = min(given.load_ns[a], given.transfer_ns[b])
    if a_first != b_first:
        return bool(a_first < b_first)
    return bool(given.impending_ns[a] < given.impending_ns[b])


def properties(graph: OperationGraph, outstanding: Bool) -> Properties:
    """Algorithm 1: properties of the recv ops, given those whose transfers are outstanding, shape (recvs,)."""
    return _properties(_needs(graph), graph, outstanding)


@dataclass(frozen=True)
class _Needs:
    """Sets of recv ops that compute ops depend on, directly or not, each set once.

    recvs: shape (sets, recvs). time_ns: of all compute ops with that set together; P and M+ need no more than that, and deep models
    have a few sets for thousands of ops.
    """

    recvs: Bool
    time_ns: Int64


def _needs(graph: OperationGraph) -> _Needs:
    """Communication dependencies (op.dep), as bit sets from inputs to readers."""
    of_op: list[int] = []
    time_ns: dict[int, int] = {}
    for op in graph.compute:
        needed = 0
        for recv in op.recvs:
            needed |= 1 << recv
        for earlier in op.inputs:
            needed |= of_op[earlier]
        of_op.append(needed)
        time_ns[needed] = time_ns.get(needed, 0) + op.time_ns
    count = len(graph.recv_ns)
    rows = [[bool(needed >> recv & 1) for recv in range(count)] for needed in time_ns]
    return _Needs(np.array(rows, dtype=np.bool_).reshape(-1, count), np.array(list(time_ns.values()), dtype=np.int64))


def _properties(needs: _Needs, graph: OperationGraph, outstanding: Bool) -> Properties:
    transfer_ns = np.array(graph.recv_ns, dtype=np.int64)
    awaited = needs.recvs & outstanding
    how_many = awaited.sum(axis=1)
    alone = how_many == 1
    load_ns = (awaited[alone] * needs.time_ns[alone, np.newaxis]).sum(axis=0, dtype=np.int64)
    several = awaited[how_many > 1]
    total_ns = (several * transfer_ns).sum(axis=1, dtype=np.int64)
    impending_ns = np.where(several, total_ns[:, np.newaxis], INFINITE).min(axis=0, initial=INFINITE)
    return Properties(transfer_ns, load_ns, impending_ns.astype(np.int64))
