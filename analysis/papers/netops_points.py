"""What NetOps' claims have in common: its models and mechanisms, gains over one parameter server, and when workers compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agents.records import Int64, OpLog
from analysis.papers.evidence import Points, Value
from analysis.papers.shapes import Series
from workloads.plan import Combine, OpKind, Plan, Role

INCEPTION, VGG, RESNET_101, RESNET_200 = "inception-v3-netops", "vgg16-299", "resnet101-netops", "resnet200"
MODELS = (INCEPTION, VGG, RESNET_101, RESNET_200)
NAMES = {INCEPTION: "Inception-v3", VGG: "VGG-16", RESNET_101: "ResNet-101", RESNET_200: "ResNet-200"}
BASELINE, AGGREGATION, MULTICAST, BOTH = "netops-ps", "aggregation-ps", "multicast-ps", "multicast-aggregation-ps"
RING, RING_MULTICAST, BUTTERFLY = "ring", "ring-multicast", "butterfly-mixing"
MECHANISMS = "netops-mechanisms"
"""The scenario file with all mechanisms at 32 workers and 25 Gbit/s, which many figures share."""
BANDWIDTH = ("netops-bandwidth", "netops-bandwidth-butterfly", MECHANISMS)
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
    found: dict[float, float] = {}
    for run in runs:
        known = [point for point in points.stored(model=model) if point.parameters["run"] == run]
        if any(point.parameters["strategy"] == strategy for point in known):
            series = points.series(key, run=run, model=model, strategy=strategy)
            found |= {number: row.iteration_time_s for number, row in series}
    return sorted(found.items())


def ratios(above: Series, below: Series) -> Series:
    """y of `above` over y of `below`, at the x that both have."""
    other = dict(below)
    return [(x, y / other[x]) for x, y in above if x in other]


def listed(series: Series, unit: str = "x", scale: float = 1.0) -> str:
    """A series in words: 1.02x at 10, 1.00x at 25."""
    return ", ".join(f"{y:.2f}{unit} at {x / scale:g}" for x, y in series)


@dataclass(frozen=True)
class Phases:
    """When each worker's passes ran in iteration 0, nanoseconds, shape (workers,)."""

    forward_end: Int64
    backward_start: Int64
    backward_end: Int64


def phases(plan: Plan, log: OpLog) -> Phases:
    """Of every worker: a pass is a chain over all layers, the forward pass first (workloads/strategies/worker.py)."""
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
