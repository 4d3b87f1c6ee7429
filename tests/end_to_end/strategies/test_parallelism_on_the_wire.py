"""Sharded, tensor, pipeline and expert parallelism over real TCP: iterations take the time that one works out by hand.

Every worker finds what it needs, of the right group and iteration, or the agents' ledger ends the replay with an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.iterations import iteration_times_s
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import ReplayedPlan, replay_plans
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.strategy_registry import strategy

pytestmark = pytest.mark.kernel

ITERATIONS = 3
FABRIC = Fabric(hosts=8, rate_bps=10e9, classes=1)
GOODPUT_BYTES_PER_S = FABRIC.rate_bps * FABRIC.goodput_share() / 8
HALF_S = 5e-3
"""Forward pass of half a block; its backward pass takes twice as long."""
BLOCK_S = 2 * 3 * HALF_S
WEIGHTS, VALUES = 800_000, 1_600_000
"""Parameters of half a block, and activations of a sample between halves: both divide by 8."""


def transformer(
    workers: int, *, blocks: int = 2, values: int = VALUES, experts: int = 0, batch: int = 1, attends: bool = False
) -> Job:
    """Blocks of two halves; with experts, the second has a router of 1000 wide tokens and as many experts, two for each token. If one
    attends, its half has products of 1000 features before and behind what takes the time."""
    layers: list[Layer] = []
    times_s: list[float] = []

    def add(name: str, sizes: Mapping[str, int], time_s: float, flops: float = 1.0, rows: int = 0) -> None:
        tensors = tuple(Tensor(f"{name}/{short}", size, rows) for short, size in sizes.items())
        layers.append(Layer(name, LayerKind.FC, tensors, flops, (len(layers) - 1,) if layers else ()))
        times_s.append(time_s)

    for block in range(blocks):
        for half in ("attention", "ffn"):
            at = f"block{block}/{half}"
            if half == "ffn" and experts:
                width, each = 1000, WEIGHTS // experts
                add(f"{at}/router", {"weights": width * experts}, 0.0, rows=width)
                sizes = {f"expert{number}": each for number in range(experts)}
                add(f"{at}/experts", sizes, HALF_S, flops=2 * 2 * (values / width) * each)
            elif half == "attention" and attends:
                width = 1000
                add(f"{at}/qkv", dict.fromkeys(("query", "key", "value"), width * width), 0.0, rows=width)
                add(f"{at}/attend", {}, HALF_S)
                add(f"{at}/proj", {"weights": width * width}, 0.0, rows=width)
            else:
                add(f"{at}/product", {"weights": WEIGHTS}, HALF_S)
            add(f"{at}/add", {}, 0.0, flops=values)
    compute = ComputeTime(tuple(times_s), tuple(2 * time_s for time_s in times_s), "made up")
    return Job(Profile("toy", tuple(layers), batch, "made up"), compute, Cluster(workers), batch)


def wire_s(size_bytes: float) -> float:
    """Time that bytes take on a link."""
    return size_bytes / GOODPUT_BYTES_PER_S


GATHER_S = wire_s(7 / 8 * 2 * WEIGHTS * 2)
"""An allgather of a block among 8, in 16 bits; a reduce-scatter in 32 bits takes twice as long."""
TOKENS_BYTES = 2 * VALUES * 2
"""What the tokens of a sample are to two experts each, in 16 bits."""

KEYS_S = wire_s(2 * VALUES * 2)
"""Time of a sample's keys and values, in 16 bits."""
HOT = 1 / 3 + 2 / 3 / 7
"""Share of the tokens that go to the worker with the hottest of 8 experts, which gets a third, and one of the others."""

CASES: dict[str, tuple[str, Mapping[str, Any], Job, float]] = {
    # The first bucket is the last half's 3.2 MB; the other three follow at the end of the backward pass.
    "ddp": (
        "ddp",
        {},
        transformer(8),
        2 * BLOCK_S + wire_s(2 * 7 / 8 * 4 * 3 * WEIGHTS),
    ),
    # The first gather and the last reduction show; the others hide.
    "fsdp": ("fsdp", {}, transformer(8, blocks=4), 4 * BLOCK_S + GATHER_S + 2 * GATHER_S),
    # All of 8 gathers show; three of them share the links with a reduction, and take twice as long.
    "fsdp, no prefetch": (
        "fsdp",
        {"prefetch": 0},
        transformer(8, blocks=4),
        4 * BLOCK_S + (5 + 3 * 2) * GATHER_S + 2 * GATHER_S,
    ),
    # Buckets of half a block, in 16 bits: all reduce-scatters but the last hide, and no gather does.
    "zero2": (
        "zero2",
        {"bucket_parameters": WEIGHTS},
        transformer(8),
        2 * BLOCK_S + (1 + 4) * GATHER_S / 2,
    ),
    "zero1": (
        "zero1",
        {"bucket_parameters": WEIGHTS},
        transformer(8),
        2 * BLOCK_S + (4 + 4) * GATHER_S / 2,
    ),
    # Groups of 4: the first gather and the last reduction show, and the allreduce of the last shard among the 2 groups.
    "fsdp in groups": (
        "fsdp",
        {"shard": 4},
        transformer(8, blocks=4),
        4 * BLOCK_S + wire_s(3 / 4 * 2 * WEIGHTS * (2 + 4)) + wire_s(2 * WEIGHTS / 4 * 4),
    ),
    # Half of the computation, and in each block four allreduces of the activations of two samples, in 16 bits.
    "tensor": (
        "megatron",
        {"tensor": 2},
        transformer(2),
        2 * BLOCK_S + 2 * 4 * wire_s(2 * VALUES * 2),
    ),
    # The same in reduce-scatters and allgathers.
    "sequence": (
        "megatron",
        {"tensor": 2, "sequence_parallel": True},
        transformer(2),
        2 * BLOCK_S + 2 * 4 * wire_s(2 * VALUES * 2),
    ),
    # 8 microbatches of a quarter of a block's time in each pass, through 4 stages with messages of 1 KB between them.
    "pipeline": (
        "megatron",
        {"stages": 4, "microbatches": 8, "replica_batch": 8},
        transformer(4, blocks=4, values=512, batch=8),
        (8 + 4 - 1) * BLOCK_S / 8,
    ),
    # The same in two rounds through stages of two blocks each: twice as much to do, and half of the bubble for it.
    "interleaved": (
        "megatron",
        {"stages": 4, "microbatches": 8, "chunks": 2, "replica_batch": 8},
        transformer(4, blocks=8, values=512, batch=8),
        (8 * 2 + 4 - 1) * BLOCK_S / 8,
    ),
    # A block is passed forward once more, with its two allreduces.
    "recomputed": (
        "megatron",
        {"tensor": 2, "recompute": "full"},
        transformer(2),
        2 * BLOCK_S * 4 / 3 + 2 * 6 * wire_s(2 * VALUES * 2),
    ),
    # A quarter of what all 4 have is summed for each of them, and gathered in half as many bytes; all but the first half's in buckets.
    "divided optimizer": (
        "megatron",
        {"sharded_optimizer": True, "overlap_gradients": True, "bucket_parameters": WEIGHTS},
        transformer(4),
        2 * BLOCK_S + wire_s(3 / 4 * WEIGHTS * 4) + 4 * wire_s(3 / 4 * WEIGHTS * 2),
    ),
    # Two workers have half of each of two samples' tokens, as much to compute as of one. Keys and values take longer than a slice of
    # attention, which is half of it, forward and backward; their gradients follow the last slice. At the end, all is summed.
    "context": (
        "megatron",
        {"context": 2},
        transformer(2, attends=True),
        2 * (BLOCK_S + (KEYS_S - HALF_S / 2) + (KEYS_S - 2 * HALF_S / 2) + KEYS_S)
        + wire_s(2 * (4 * 1000 * 1000 + WEIGHTS) * 4),
    ),
    # Four all-to-alls in each block, and at the end what all share (the attention and the router) around a ring.
    "experts": (
        "megatron",
        {"experts": 4},
        transformer(4, experts=8),
        2 * BLOCK_S + 2 * 4 * wire_s(3 / 4 * TOKENS_BYTES) + wire_s(2 * 3 / 4 * 2 * (WEIGHTS + 8000) * 4),
    ),
    # Of 8 experts, the hottest gets a third, and so its worker, which has another as well, gets 3 / 7 of all tokens, and computes as long.
    "hot expert": (
        "megatron",
        {"experts": 4, "token_skew": 1 / 3},
        transformer(4, experts=8),
        2 * BLOCK_S / 2 * (1 + HOT * 4)
        + 2 * 4 * wire_s(3 * HOT * TOKENS_BYTES)
        + wire_s(2 * 3 / 4 * 2 * (WEIGHTS + 8000) * 4),
    ),
}


@pytest.fixture(scope="module")
def replayed(virtual_kernel: Path) -> dict[str, ReplayedPlan]:
    """All cases, replayed one after the other in one kernel."""
    plans = {}
    for case, (name, options, job, _) in CASES.items():
        chosen = strategy(name)
        (plans[case],) = chosen.compile(job, chosen.options.model_validate(options)).values()
    return replay_plans(plans, FABRIC, ITERATIONS)


@pytest.mark.parametrize("case", CASES)
def test_an_iteration_takes_the_time_worked_out_by_hand(replayed: dict[str, ReplayedPlan], case: str) -> None:
    run = replayed[case]
    times_s = iteration_times_s(run.plan, run.log, ITERATIONS)[1:]
    assert float(np.mean(times_s)) == pytest.approx(CASES[case][3], rel=0.01)


@pytest.mark.parametrize("case", CASES)
def test_every_op_of_every_iteration_was_carried_out(replayed: dict[str, ReplayedPlan], case: str) -> None:
    run = replayed[case]
    carried_out = set(zip(run.log.iteration.tolist(), run.log.op.tolist(), strict=True))
    assert len(carried_out) == len(run.log.op) == ITERATIONS * len(run.plan.ops)
