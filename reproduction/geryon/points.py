"""What Geryon's claims and explanations have in common: its models, its slices, and what a forward pass waits for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwire.datatypes.plan import OpKind, Plan
from reproduction.measuring import forward_wait_s
from reproduction.scoring.evidence import ModelFacts, PointEvidence

MODELS = ("alexnet", "vgg19", "resnet50", "yolo-v1")
SKEWED = ("alexnet", "vgg19", "yolo-v1")
"""All but ResNet-50, as the paper has it."""
FC = "fc"
SERVERS = 8
SLICES = (1048576, 524288, 262144)
"""Slicing thresholds of Table IV, in parameters."""


def share_of_kind(model: ModelFacts, of_layer: Sequence[float], kind: str) -> float:
    """Share of a quantity that layers of a kind hold."""
    return sum(v for v, k in zip(of_layer, model.layer_kinds, strict=True) if k == kind) / sum(of_layer)


def has_slices(point: PointEvidence, size: int) -> bool:
    """Whether a point has this slicing threshold."""
    return f"slice_parameters={size}" in point.parameters["options"]


def forward_s(point: PointEvidence) -> float:
    """A worker's forward pass, merging of slices included."""
    plan = point.plan()
    ops, worker = plan.ops, plan.workers[0]
    passes = (ops.kind == OpKind.COMPUTE) & (ops.rank == worker) & (ops.layer >= 0)
    return float(ops.duration_ns[passes].sum()) / 1e9 - sum(point.model.backward_s)


def wait_ms(point: PointEvidence) -> float:
    """How long the slowest worker of iteration 1 waits for parameters before its forward pass is done."""
    plan, log, pass_s = point.plan(), point.log(), forward_s(point)
    return max(forward_wait_s(plan, log, worker, 1, pass_s) for worker in plan.workers.tolist()) * 1e3


def scheduling_ms(plan: Plan) -> float:
    """Scheduling time of an iteration on each channel from a server to a worker; 0 where slices cost none."""
    ops = plan.ops
    pulls = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (ops.duration_ns > 0)
    channels = len(np.unique(ops.lane[pulls]))
    return float(ops.duration_ns[pulls].sum()) / channels / 1e6 if channels else 0.0
