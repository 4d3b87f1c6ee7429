"""Allreduces over real TCP in the virtual-time kernel: a toy model's iteration takes the time that one works out by hand.

Every rank holds every worker's contribution to every chunk, or the agents' ledger ends the replay with an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import EXACT_TIMER_BURST_S, Fabric
from gradwire.runs.replay import ReplayedPlan, replay_plans
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.strategy_registry import strategy

pytestmark = pytest.mark.kernel

ITERATIONS = 3
FABRIC = Fabric(hosts=8, rate_bps=10e9, classes=1)
GOODPUT_BYTES_PER_S = FABRIC.rate_bps * FABRIC.goodput_share() / 8
FORWARD_S, BACKWARD_S = 2e-3, 3e-3
LOCAL_BYTES_PER_S = 4e9
COPY_BYTES_PER_S = 20e9
LATENCY_S = 250e-6
STEP_S = LATENCY_S - EXACT_TIMER_BURST_S
"""A latency begins when the message before has left, and so much of every pause on a link does not show: a port's burst."""
SMALL, LARGE = 480_000, 7_680_000
"""Gradients of a tensor: both are whole in 2, 4, 6 and 8 parts. The large one is yielded first, as in VGG."""
TOTAL_BYTES = 4 * (3 * SMALL + LARGE)


def toy(workers: int, per_host: int = 1, costs: Costs | None = None) -> Job:
    """Four layers of a tensor each, the last one 16 times as large as the others."""
    sizes = [SMALL, SMALL, SMALL, LARGE]
    layers = tuple(
        Layer(f"layer{i}", LayerKind.FC, (Tensor(f"layer{i}/w", size),), 1.0, (i - 1,) if i else ())
        for i, size in enumerate(sizes)
    )
    compute = ComputeTime((FORWARD_S,) * 4, (BACKWARD_S,) * 4, "made up")
    return Job(
        Profile("toy", layers, 1, "made up"), compute, Cluster(workers, 0, True, per_host), 1, 1, costs or Costs()
    )


def wire_s(size_bytes: float) -> float:
    """Time that bytes take on a link."""
    return size_bytes / GOODPUT_BYTES_PER_S


COMPUTE_S = 4 * (FORWARD_S + BACKWARD_S)
FIRST_S = 4 * FORWARD_S + BACKWARD_S
"""From the start of an iteration until the large tensor's gradient is there; from then on the network is never idle."""
SLOW = Costs(message_latency_s=LATENCY_S, local_bytes_per_s=LOCAL_BYTES_PER_S, copy_bytes_per_s=COPY_BYTES_PER_S)
CSC_SELECTED = 20
CSC_BYTES = 4 * CSC_SELECTED * 96_000

CASES: dict[str, tuple[str, Mapping[str, Any], Job, float]] = {
    # NetOps: f + 2 (W - 1) / W S / B, from the moment that the first gradient is there.
    "ring": ("ring", {}, toy(8), FIRST_S + wire_s(2 * 7 / 8 * TOTAL_BYTES)),
    "ring of six in segments": ("ring", {"segments": 2}, toy(6), FIRST_S + wire_s(2 * 5 / 6 * TOTAL_BYTES)),
    # NetOps, section 8.2.1: 2 (W - 1) times the largest parameter; the small ones go on beside it.
    "ring, whole parameters": ("ring", {"messaging": False}, toy(4), FIRST_S + wire_s(2 * 3 * 4 * LARGE)),
    "butterfly mixing": ("butterfly-mixing", {}, toy(8), FIRST_S + wire_s(3 * TOTAL_BYTES)),
    # GradientFlow's closed form with its latency, a tensor after the other: compute + n 2 (N - 1) alpha + 2 (N - 1) / N K / B.
    "layer by layer, no overlap": (
        "layer-allreduce",
        {"overlap": False},
        toy(8, costs=SLOW),
        COMPUTE_S + 4 * 14 * STEP_S + wire_s(2 * 7 / 8 * TOTAL_BYTES),
    ),
    "butterfly after backward": (
        "butterfly",
        {},
        toy(4, costs=SLOW),
        COMPUTE_S + 4 * 2 * STEP_S + wire_s(2 * TOTAL_BYTES),
    ),
    "halving-doubling": (
        "halving-doubling",
        {},
        toy(8, costs=SLOW),
        FIRST_S + 4 * 6 * STEP_S + wire_s(2 * 7 / 8 * TOTAL_BYTES),
    ),
    # One phase after the other: all of a bucket up inside, 2 (M - 1) / M of it between the machines, all of it down.
    "hierarchical": (
        "hierarchical-ring",
        {},
        toy(4, 2, SLOW),
        FIRST_S + 4 * 2 * (STEP_S + LATENCY_S) + 2 * TOTAL_BYTES / LOCAL_BYTES_PER_S + wire_s(TOTAL_BYTES),
    ),
    "hierarchical, scattered": (
        "hierarchical-ring",
        {"inside": "scatter-gather"},
        toy(4, 2, SLOW),
        FIRST_S + 4 * 2 * (STEP_S + LATENCY_S) + TOTAL_BYTES / LOCAL_BYTES_PER_S + wire_s(TOTAL_BYTES),
    ),
    # A threshold that only all four exceed together: one allreduce at the end.
    "lazy, all fused": (
        "lazy-allreduce",
        {"threshold_bytes": TOTAL_BYTES - 4},
        toy(8, costs=SLOW),
        COMPUTE_S + 14 * STEP_S + wire_s(2 * 7 / 8 * TOTAL_BYTES),
    ),
    # The large tensor exceeds the threshold by itself, the three small ones go at the end.
    "lazy, fp16": (
        "lazy-allreduce",
        {"threshold_bytes": 2 * LARGE - 2, "wire": "fp16"},
        toy(8, costs=SLOW),
        FIRST_S + 2 * 14 * STEP_S + wire_s(2 * 7 / 8 * TOTAL_BYTES / 2),
    ),
    "horovod": (
        "horovod",
        {"cycle_s": 20e-3},
        toy(8, costs=SLOW),
        COMPUTE_S + 14 * STEP_S + wire_s(2 * 7 / 8 * TOTAL_BYTES) + 2 * TOTAL_BYTES / COPY_BYTES_PER_S,
    ),
    # 95 chunks, 20 of them selected; after them, the norms of all: a message of 48 bytes costs hardly more than its latency.
    "csc, no overlap": (
        "csc",
        {"chunk_values": 96_000, "share": 0.21, "threshold_bytes": 1 << 30, "overlap": False},
        toy(8, costs=SLOW),
        COMPUTE_S + 14 * (STEP_S + LATENCY_S) + wire_s(2 * 7 / 8 * CSC_BYTES) + 2 * CSC_BYTES / COPY_BYTES_PER_S,
    ),
}


def plan_of(name: str, options: Mapping[str, Any], job: Job) -> Plan:
    chosen = strategy(name)
    (plan,) = chosen.compile(job, chosen.options.model_validate(options)).values()
    return plan


@pytest.fixture(scope="module")
def replayed(virtual_kernel: Path) -> dict[str, ReplayedPlan]:
    """All cases, replayed one after the other in one kernel."""
    plans = {case: plan_of(name, options, job) for case, (name, options, job, _) in CASES.items()}
    return replay_plans(plans, FABRIC, ITERATIONS)


@pytest.mark.parametrize("case", CASES)
def test_an_iteration_takes_the_time_worked_out_by_hand(replayed: dict[str, ReplayedPlan], case: str) -> None:
    run = replayed[case]
    times_s = iteration_times_s(run.plan, run.log, ITERATIONS)[1:]
    assert float(np.mean(times_s)) == pytest.approx(CASES[case][3], rel=0.03)


@pytest.mark.parametrize("case", CASES)
def test_every_op_of_every_iteration_was_carried_out(replayed: dict[str, ReplayedPlan], case: str) -> None:
    """So every RECV passed the ledger, and every forward pass found every contribution to what it needs."""
    run = replayed[case]
    carried_out = set(zip(run.log.iteration.tolist(), run.log.op.tolist(), strict=True))
    assert len(carried_out) == len(run.log.op) == ITERATIONS * len(run.plan.ops)
