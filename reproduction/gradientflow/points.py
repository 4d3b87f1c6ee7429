"""GradientFlow's points: which one a claim means, and what its plan and log say of where an iteration's time goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.points import PointResult
from gradwire.datatypes.plan import OpKind
from reproduction.scoring.evidence import ModelFacts, PointEvidence, Points
from reproduction.scoring.reference import Where

ALEXNET, RESNET = "alexnet-bn", "resnet50-gf"
IMAGES = 1_281_167
"""Training images of ImageNet-1K (Russakovsky et al. 2015)."""
FP32_BYTES = 4
WITHOUT_OVERLAP = "overlap=False"
FUSED = "wire=fp16, overlap=False, threshold_bytes=1073741824"
"""Lazy allreduce of everything at once, after the backward pass."""


def best_row(points: Points, where: Where) -> PointResult:
    """The claim's point; where it leaves the options open, the fastest of
    those that overlap, or of all if none does."""
    rows = points.rows(**where)
    if "options" not in where:
        rows = [row for row in rows if WITHOUT_OVERLAP not in row.parameters.get("options", "")] or rows
    return max(rows, key=lambda row: row.throughput_per_s)


def workers_of(row: PointResult) -> int:
    """Workers of the cluster that is meant."""
    return int(row.parameters.get("stands_for") or row.parameters["workers"])


def comm_s(row: PointResult) -> float:
    """Time of an iteration beyond its computation."""
    return row.iteration_time_s * (1 - row.scaling_efficiency)


def top_layers(facts: ModelFacts) -> list[int]:
    """The last layers that Fig. 13 speaks of.

    AlexNet's top 8 of 27 are its 3 fully connected layers, their activations and dropouts, and the loss. ResNet-50's
    top 20 of 188 are the convolutions, normalisations, shortcuts and the fully connected layer, counted without
    activations: only then do they hold the printed share of the gradients.
    """
    layers = range(len(facts.layer_kinds))
    if facts.layer_kinds.count("fc") > 1:
        return [layer for layer in layers if facts.layer_kinds[layer] == "fc"]
    return [layer for layer in layers if facts.layer_kinds[layer] != "pool"][-20:]


def top_share(of_layer: Sequence[float], facts: ModelFacts) -> float:
    """Share of a quantity that the top layers hold."""
    return sum(of_layer[layer] for layer in top_layers(facts)) / sum(of_layer)


STEPS = ("mpi", "nccl", "nccl+mp", "nccl+mp+overlap", "nccl+mp+la+overlap", "nccl+mp+la+csc+overlap")
"""Columns of Tables 1 and 2."""


def columns(points: Points, cluster: str, model: str) -> dict[str, PointResult]:
    """The columns of Table 1 or 2, by STEPS. In Table 2 the first three
    of Cluster-P have another batch, as printed."""
    fp32, mixed = f"gradientflow-tables-{cluster}-fp32", f"gradientflow-tables-{cluster}-mixed"
    half = "gradientflow-table2-p-b64" if (cluster, model) == ("p", "resnet50-gf") else mixed
    wheres: tuple[Where, ...] = (
        {"run": f"gradientflow-tables-{cluster}-mpi", "strategy": "halving-doubling"},
        {"run": fp32, "strategy": "layer-allreduce"},
        {"run": half, "strategy": "layer-allreduce", "options": "wire=fp16, overlap=False"},
        {"run": mixed, "strategy": "layer-allreduce", "options": "wire=fp16"},
        {"run": mixed, "strategy": "lazy-allreduce"},
        {"run": mixed, "strategy": "csc"},
    )
    return {step: best_row(points, {**where, "model": model}) for step, where in zip(STEPS, wheres, strict=True)}


NAMES = {"layer-allreduce": "nccl", "hierarchical-ring": "nccl-h", "halving-doubling": "openmpi"}
"""Libraries of Fig. 8."""
SMALL = "gradientflow-fig8-small"
"""NCCL's run with the sizes below 1 MiB."""
OPENMPI = "gradientflow-fig8-mpi"
"""OpenMPI's run with all sizes."""


def by_size(points: Points, *runs: str) -> dict[float, dict[str, PointResult]]:
    """The fastest point of each library in these runs, by tensor size in MiB. Only sizes of the first run."""
    sizes: dict[float, dict[str, PointResult]] = {size_mib(row): {} for row in points.rows(run=runs[0])}
    for row in (row for run in runs for row in points.rows(run=run) if size_mib(row) in sizes):
        name = NAMES[row.parameters["strategy"]]
        at = sizes[size_mib(row)]
        if name not in at or row.iteration_time_s < at[name].iteration_time_s:
            at[name] = row
    return dict(sorted(sizes.items()))


def size_mib(row: PointResult) -> float:
    """Size of the tensor that a point reduces, in MiB."""
    number = row.parameters["model"].removeprefix("tensor-")
    return float(number[:-3]) / 1024 if number.endswith("KiB") else float(number[:-3])


@dataclass(frozen=True)
class Account:
    """Where the time of an iteration goes: all but the iteration and its tail are what the plan asks for."""

    iteration_s: float
    #: Forward and backward pass.
    compute_s: float
    #: From the end of the last backward pass to the end of the iteration, as logged.
    tail_s: float
    #: Messages of the busiest worker, each of which pays the latency.
    messages: int
    #: Latencies of these messages together.
    latency_s: float
    #: Bytes of the busiest port at its rate.
    network_s: float
    #: Bytes of the busiest worker on the link inside its machine.
    local_s: float
    #: Additions of the busiest worker.
    adding_s: float

    def __str__(self) -> str:
        """The account in two sentences."""
        inside = f", {self.local_s * 1e3:.1f} ms on the link inside a machine" if self.local_s else ""
        adding = f", {self.adding_s * 1e3:.1f} ms of additions" if self.adding_s else ""
        return (
            f"Of {self.iteration_s * 1e3:.1f} ms, {self.compute_s * 1e3:.1f} ms are computation, and the log shows "
            f"{self.tail_s * 1e3:.1f} ms after the last backward pass. The plan's allreduces ask for "
            f"{self.latency_s * 1e3:.1f} ms of latencies ({self.messages} messages of a worker here, one after the "
            f"other), {self.network_s * 1e3:.1f} ms on the busiest port{inside}{adding}."
        )


def account(points: Points, row: PointResult) -> Account:
    """Where the last iteration of a point went. Raises NoEvidence where its log is missing."""
    point: PointEvidence = points.point(**row.parameters)
    plan, log = point.plan(), point.log()
    ops = plan.ops
    now = log.iteration == log.iteration.max()
    passes = now & (ops.kind[log.op] == OpKind.COMPUTE) & (ops.layer[log.op] >= 0)
    ends = now & np.isin(log.op, plan.end_op)
    sends, remote = (ops.kind == OpKind.SEND) & (ops.chunk >= 0), plan.is_remote()
    line = ops.size_bytes[sends & remote] / point.fabric.goodput_share()
    ports = np.bincount(plan.rank_host[ops.rank[sends & remote]], weights=line)
    # A message inside a machine lasts its latency and its bytes; one to another machine, its latency alone.
    paying = sends & remote & (ops.duration_ns > 0)
    latency_ns = int(ops.duration_ns[paying].max(initial=0))
    counts = np.bincount(ops.rank[sends & (ops.duration_ns >= latency_ns)], minlength=len(plan.rank_role))
    inside = sends & ~remote
    local_ns = ops.duration_ns[inside] - np.where(ops.duration_ns[inside] >= latency_ns, latency_ns, 0)
    local = np.bincount(ops.rank[inside], weights=local_ns, minlength=1)
    reduces = ops.kind == OpKind.REDUCE
    adding = np.bincount(ops.rank[reduces], weights=ops.duration_ns[reduces], minlength=1)
    return Account(
        iteration_s=row.iteration_time_s,
        compute_s=plan.compute_s,
        tail_s=float(log.end_ns[ends].max() - log.end_ns[passes].max()) / 1e9,
        messages=int(counts.max()),
        latency_s=int(counts.max()) * latency_ns / 1e9,
        network_s=float(ports.max()) * 8 / point.fabric.rate_bps,
        local_s=float(local.max()) / 1e9,
        adding_s=float(adding.max()) / 1e9,
    )


def ring_steps(workers: int) -> int:
    """Messages of one allreduce in a ring that follow one another."""
    return 2 * (workers - 1)
