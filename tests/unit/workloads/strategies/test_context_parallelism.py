"""Ring attention: bytes of keys, values and their gradients in closed form, what hides behind slices, and what the
checker refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.bounds import critical_path_s
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.parallel.ring_attention import key_value_values
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.transformer_layers import transformer_profile
from gradwire.workloads.models.transformer_shapes import Transformer
from tests.shared.simulation import replay
from tests.shared.small_jobs import dependencies, with_dependencies, without_op
from tests.unit.workloads.strategies.test_megatron import (
    FAST,
    LLAMA_TOKENS,
    LLAMA_WIDTH,
    divided,
    llama,
    mixture,
    of_kind,
)

SHAPE = Transformer(words=10, tokens=16, width=8, blocks=2, heads=2, ffn=12, key_value_heads=1, head_width=4)
CORE_S = 1e-3
LAYER_VALUES = 16 * 8
"""Values of a sample's keys and values: 16 tokens of 4 features each."""


def attention(workers: int, *, batch: int = 1) -> Job:
    """Two blocks in which attention alone takes time: 1 ms forward and 2 ms back."""
    profile = transformer_profile("small", SHAPE, batch, "made up")
    forward_s = tuple(CORE_S * layer.name.endswith("/attend") for layer in profile.layers)
    compute = ComputeTime(forward_s, tuple(2 * time_s for time_s in forward_s), "made up")
    return Job(profile, compute, Cluster(workers), batch)


def sent(plan: Plan, kind: str) -> list[int]:
    """Bytes that each worker sends of a kind."""
    sends = of_kind(plan, kind)
    sizes: list[int] = (
        np.bincount(plan.ops.rank[sends], plan.ops.size_bytes[sends], len(plan.workers)).astype(int).tolist()
    )
    return sizes


@pytest.mark.parametrize("context", [2, 4])
def test_keys_and_values_go_around_twice_and_their_gradients_once(context: int) -> None:
    """Of llama3-8b, 2 x 1024 features of a token, of which each worker has its share and sends it N - 1 times, in each
    of 32 blocks."""
    plan = divided(llama(context), {"context": context})
    check(plan)
    block = (context - 1) * LLAMA_TOKENS // context * 2 * 1024 * 2
    assert sent(plan, "keys") == [2 * 32 * block] * context
    assert sent(plan, "their gradients") == [32 * block] * context
    assert plan.samples == 1
    assert plan.compute_s == pytest.approx(llama(context).compute_s / context)


@pytest.mark.parametrize("tensor", [1, 2])
def test_microbatches_divide_what_goes_around_and_change_no_sum(tensor: int) -> None:
    job = attention(2 * tensor, batch=4)
    whole, plan = (divided(job, {"context": 2, "tensor": tensor, "microbatches": count}) for count in (1, 4))
    check(plan)
    samples = 4 * LAYER_VALUES // 2 // tensor * 2 * 2  # half of the tokens, two bytes per value, two blocks
    for kind, times in (("keys", 2), ("their gradients", 1)):
        assert sent(plan, kind) == sent(whole, kind) == [times * samples] * 2 * tensor
        assert len(of_kind(plan, kind)) == 4 * len(of_kind(whole, kind))


@pytest.mark.parametrize(
    ("name", "features"),
    [("llama3-8b", 2 * 1024), ("gpt3-175b", 2 * 12288), ("bert-large", 2 * 1024), ("gpt2-xl", 3200)],
)
def test_keys_and_values_are_as_wide_as_their_models_have_them(name: str, features: int) -> None:
    """Grouped heads, fused products, and products with biases."""
    profile = model(name)
    width = next(layer.tensors[0].rows for layer in profile.layers if layer.name.endswith("/qkv"))
    assert key_value_values(profile, 7 * width) == 7 * features
    assert next(layer.tensors[0].rows for layer in model("llama3-8b").layers if "/qkv" in layer.name) == LLAMA_WIDTH


def test_other_messages_are_of_a_workers_tokens() -> None:
    """Activations from stage to stage and of a tensor group are divided, too, and gradients are summed among all that
    have the same."""
    options = {"tensor": 2, "stages": 2}
    job = attention(8, batch=2)
    before, plan = (divided(job, {**options, "context": context}) for context in (1, 2))
    check(plan)
    for kind in ("activations from", "gradients from", "block0/attention outputs"):
        assert sent(plan, kind)[0] == sent(before, kind)[0] // 2
    assert sent(plan, "parameters") == sent(before, "parameters")
    assert plan.samples * 2 == before.samples


def test_where_the_network_is_fast_workers_compute_as_long_as_alone() -> None:
    for context in (2, 4):
        job = attention(context)
        plan = divided(job, {"context": context, "replica_batch": None})
        assert plan.samples == context
        assert critical_path_s(plan, FAST) == pytest.approx(job.compute_s, rel=1e-3)


def test_a_slice_waits_for_its_block_and_the_backward_pass_for_its_gradients() -> None:
    """Two workers, a block of 128 x 2 bytes at 100 kB/s: 2.56 ms. Forward, it hides behind a slice of 0.25 ms,
    backward behind one of 0.5 ms; the gradients, which come of the last slice, hide behind nothing. What a pass has to
    wait for is on the path."""
    rate = replace(FAST, rate_bps=8e5 / FAST.goodput_share())
    job = attention(2, batch=2)
    plan = divided(job, {"context": 2, "replica_batch": 2})
    move_s = LAYER_VALUES * 2 / 1e5
    slices_s = (CORE_S / 4, CORE_S / 2)
    shown = sum(max(0.0, move_s - one) for one in slices_s) + move_s
    summed = sum(plan.ops.size_bytes[op] for op in of_kind(plan, "parameters")) / 2 / 1e5
    assert critical_path_s(plan, rate) == pytest.approx(job.compute_s / 2 + 2 * shown + summed, rel=0.01)


CASES: list[Mapping[str, Any]] = [
    {"context": 8},
    {"context": 2, "tensor": 2, "stages": 2, "microbatches": 2, "recompute": "full", "sequence_parallel": True},
    {"context": 4, "recompute": "selective", "sharded_optimizer": True, "overlap_gradients": True},
]


@pytest.mark.parametrize("options", CASES)
def test_plans_are_accepted_replay_to_their_end_and_need_every_message(options: Mapping[str, Any]) -> None:
    plan = divided(attention(8, batch=2), options)
    check(plan)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)
    around = [*of_kind(plan, "keys"), *of_kind(plan, "their gradients")]
    for op in around[:: max(1, len(around) // 20)]:
        with pytest.raises(PlanError):
            check(without_op(plan, op))


def test_a_slice_that_does_not_wait_for_its_block_is_refused() -> None:
    plan = divided(attention(3), {"context": 3})
    needing = set(np.unique(plan.needs[:, 0]).tolist())
    waits = [dep for dep in dependencies(plan) if dep[0] in needing and plan.ops.kind[dep[1]] == OpKind.RECV]
    assert len(waits) == 2 * 3 * (2 + 2 + 1)  # blocks, workers; blocks that come, forward and back, and gradients
    for dep in waits:
        with pytest.raises(PlanError, match="needs chunk"):
            check(with_dependencies(plan, [kept for kept in dependencies(plan) if kept != dep]))


@pytest.mark.parametrize(
    ("job", "options", "complaint"),
    [
        (attention(4), {"context": 3}, r"strategy\.options\.context = 3: must divide the 4 workers"),
        (mixture(4), {"context": 2, "experts": 2}, r"strategy\.options\.context = 2: .* one of them has to be 1"),
        (replace(attention(2), profile=model("deepseek-v3")), {"context": 2}, "has no layers of queries, keys and "
        "values"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_told(job: Job, options: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(InputFault, match=complaint):
        divided(job, options)


def test_inside_a_host_messages_have_the_rate_and_the_latency_of_its_own_link() -> None:
    job = replace(attention(2), cluster=Cluster(2, workers_per_host=2))
    costs = Costs(message_latency_s=1.0, local_bytes_per_s=1e6, local_latency_s=1e-3)
    plan = divided(replace(job, costs=costs), {"context": 2})
    sends = (plan.ops.kind == OpKind.SEND) & (plan.ops.chunk >= 0)
    size, took = plan.ops.size_bytes[sends], plan.ops.duration_ns[sends]
    assert sends.any()
    assert not plan.is_remote().any()
    assert took.tolist() == (1_000_000 + size * 1000).tolist()
