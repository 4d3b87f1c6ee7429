"""What NetOps' claims have in common: its models and mechanisms, gains over
one parameter server, and when workers compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradwire.analysis.parameters import Value
from gradwire.datatypes.plan import Combine, OpKind, Plan, Role
from gradwire.datatypes.records import Int64, OpLog
from gradwire.faults import InternalFault
from reproduction.scoring.evidence import ModelFacts, NoEvidence, Points
from reproduction.scoring.reference import Where
from reproduction.scoring.shapes import Series

INCEPTION, VGG, RESNET_101, RESNET_200 = "inception-v3-netops", "vgg16-299", "resnet101-netops", "resnet200"
MODELS = (INCEPTION, VGG, RESNET_101, RESNET_200)
PRINTED_AS = {INCEPTION: "inception-v3", VGG: "vgg-16", RESNET_101: "resnet-101", RESNET_200: "resnet-200"}
"""How claims name the models."""
NAMES = {INCEPTION: "Inception-v3", VGG: "VGG-16", RESNET_101: "ResNet-101", RESNET_200: "ResNet-200"}
BASELINE, AGGREGATION, MULTICAST, BOTH = "netops-ps", "aggregation-ps", "multicast-ps", "multicast-aggregation-ps"
RING, RING_MULTICAST, BUTTERFLY = "ring", "ring-multicast", "butterfly-mixing"
MECHANISMS = "netops-mechanisms"
"""The scenario file with all mechanisms at 32 workers and 25 Gbit/s, which many figures share."""
BANDWIDTH = ("netops-bandwidth", "netops-bandwidth-butterfly", MECHANISMS)
BITS = 32
"""Bits of a parameter."""
MOVING_AVERAGES = 2
"""Moving averages of a normalisation, each as large as its beta: TensorFlow places them like trained variables."""
WORKERS = ("netops-workers", "netops-workers-multicast", MECHANISMS)


def time_s(points: Points, model: str, strategy: str, run: str = MECHANISMS, **where: Value) -> float:
    """Iteration time of one point."""
    return points.row(run=run, model=model, strategy=strategy, **where).iteration_time_s


def gain(points: Points, model: str, strategy: str, run: str = MECHANISMS, **where: Value) -> float:
    """Speed-up over one parameter server under the same conditions."""
    return time_s(points, model, BASELINE, run, **where) / time_s(points, model, strategy, run, **where)


def gains(points: Points, strategy: str) -> dict[str, float]:
    """Speed-up of a mechanism at 32 workers and 25 Gbit/s, by model."""
    return {model: gain(points, model, strategy) for model in MODELS}


def times(points: Points, runs: tuple[str, ...], key: str, model: str, strategy: str) -> Series:
    """Iteration time over the number that `key` is, from several scenario files; each number once."""
    time_of: dict[float, float] = {}
    for run in runs:
        known = [point for point in points.stored(model=model) if point.parameters["run"] == run]
        if any(point.parameters["strategy"] == strategy for point in known):
            series = points.series(key, run=run, model=model, strategy=strategy)
            time_of |= {number: row.iteration_time_s for number, row in series}
    return sorted(time_of.items())


MODULES = (0, 25, 60, 125)
MODULE_RUNS = {
    "network": ("netops-fig9", "netops-fig9-single", "netops-fig9-butterfly"),
    "compute": ("netops-fig10", "netops-fig10-butterfly"),
}
"""Scenario files by the kind of module; the first has the one parameter server."""


def with_modules(points: Points, kind: str, strategy: str) -> Series:
    """Speed-up over the number of modules of a kind, "network" or "compute", that are added to Inception-v3."""
    runs = MODULE_RUNS[kind]
    series = []
    for count in MODULES:
        model = f"{INCEPTION}+{count}{kind}" if count else INCEPTION
        for run in (MECHANISMS,) if not count else runs:
            try:
                took_s = time_s(points, model, strategy, run)
            except NoEvidence:
                continue
            base_run = MECHANISMS if not count else runs[0]
            series.append((float(count), time_s(points, model, BASELINE, base_run) / took_s))
    return series


FASTER = {INCEPTION: ("netops-fig11", (3,)), RESNET_200: ("netops-fig12", (2, 3))}


def faster(points: Points, model: str, strategy: str) -> Series:
    """Speed-up of a mechanism over how much faster convolutions are."""
    run, factors = FASTER[model]
    sped_up = [(float(conv), gain(points, model, strategy, run, conv=conv)) for conv in factors]
    return [(1.0, gain(points, model, strategy)), *sped_up]


def ratios(above: Series, below: Series) -> Series:
    """y of `above` over y of `below`, at the x that both have."""
    other = dict(below)
    return [(x, y / other[x]) for x, y in above if x in other]


def list_values(series: Series, unit: str = "x", scale: float = 1.0) -> str:
    """A series in words: 1.02x at 10, 1.00x at 25."""
    return ", ".join(f"{y:.2f}{unit} at {x / scale:g}" for x, y in series)


@dataclass(frozen=True)
class Phases:
    """Times of the workers' passes in iteration 0, in nanoseconds, shape (workers,)."""

    forward_end: Int64
    backward_start: Int64
    backward_end: Int64


def phases(plan: Plan, log: OpLog) -> Phases:
    """Passes of all workers: each is a chain over all layers, the forward pass first (workloads/engines/worker.py)."""
    ops = plan.ops
    row_of = np.full(len(ops), -1, np.int64)
    now = np.flatnonzero(log.iteration == 0)
    row_of[log.op[now]] = now
    ends = []
    for rank in plan.workers:
        chain = row_of[np.flatnonzero((ops.kind == OpKind.COMPUTE) & (ops.rank == rank) & (ops.layer >= 0))]
        forward, backward = chain[: len(chain) // 2], chain[len(chain) // 2 :]
        ends.append((log.end_ns[forward].max(), log.start_ns[backward].min(), log.end_ns[backward].max()))
    columns = np.array(ends, np.int64)
    return Phases(columns[:, 0], columns[:, 1], columns[:, 2])


def arrivals_ns(plan: Plan, log: OpLog, role: Role, combine: Combine) -> tuple[Int64, Int64]:
    """First and last byte of every data message that reached the ranks of a role in iteration 0."""
    ops = plan.ops
    wanted = (
        (ops.kind == OpKind.RECV) & (ops.chunk >= 0) & (ops.combine == combine) & (plan.rank_role[ops.rank] == role)
    )
    rows = np.flatnonzero((log.iteration == 0) & wanted[log.op])
    return log.start_ns[rows], log.end_ns[rows]


def begin_ns(plan: Plan, log: OpLog) -> int:
    """When the first worker began iteration 0."""
    first = np.isin(log.op, plan.begin_op) & (log.iteration == 0)
    return int(log.start_ns[first].min())


def shares(model: ModelFacts, plan: Plan) -> list[float]:
    """Share of all variables' bytes on each server, the fullest first: those of the plan, and moving averages by the
    same rule.

    Raises InternalFault if the rule does not put the plan's own tensors where the plan has them.
    """
    servers = np.flatnonzero(plan.rank_role == Role.SERVER)
    trained, held = np.zeros(len(servers)), np.zeros(len(servers))
    turn = tensor = 0
    for layer, kind in enumerate(model.layer_kinds):
        first = tensor
        while tensor < len(model.tensor_layer) and model.tensor_layer[tensor] == layer:
            trained[turn % len(servers)] += model.tensor_parameters[tensor]
            turn, tensor = turn + 1, tensor + 1
        for _ in range(MOVING_AVERAGES if kind == "norm" else 0):
            held[turn % len(servers)] += model.tensor_parameters[first]
            turn += 1
    ops = plan.ops
    pushed = (ops.kind == OpKind.RECV) & (ops.combine == Combine.ADD) & (ops.peer == plan.workers[0])
    placed = np.bincount(ops.rank[pushed], ops.size_bytes[pushed] * 8 / BITS, len(plan.rank_role))[servers]
    if not np.array_equal(placed, trained):
        raise InternalFault(f"{model.name}: placed {placed.tolist()} parameters, expected {trained.tolist()}")
    return sorted(((trained + held) / (trained + held).sum()).tolist(), reverse=True)


COUNTED_KINDS = ("conv", "fc", "pool")
"""Table 2 counts weight and pooling layers."""


def layer_count(model: ModelFacts) -> int:
    """Layers as Table 2 counts them: an Inception module is one,
    projections on shortcuts and subsampling there are none."""
    kinds = zip(model.layer_names, model.layer_kinds, strict=True)
    units = {n.partition("/")[0] if n.startswith("mixed_") else n for n, kind in kinds if kind in COUNTED_KINDS}
    return sum(not name.endswith(("/shortcut", "/subsample")) for name in units)


def size_s(points: Points, where: Where) -> float:
    """S / B: what a port takes for the model at line rate."""
    return points.model(**where).parameters * BITS / points.point(**where).fabric.rate_bps
