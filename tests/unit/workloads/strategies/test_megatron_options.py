"""Sequence parallelism, recomputation, interleaved pipelines, uneven experts and divided optimizers: what each
changes, in closed form."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.bounds import critical_path_s
from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import Combine, Int64, OpKind, Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Job
from gradwire.workloads.models.compute_times import ComputeTime
from tests.shared.parts import in_order
from tests.shared.simulation import replay
from tests.shared.small_allreduces import sent_bytes
from tests.shared.small_jobs import without_op
from tests.unit.workloads.strategies.test_megatron import (
    FAST,
    LLAMA_TOKENS,
    LLAMA_WIDTH,
    VALUES,
    divided,
    llama,
    mixture,
    of_kind,
    small_transformer,
)


def sent_by(plan: Plan, sends: list[int]) -> list[int]:
    """Bytes that each worker sends in these messages."""
    ops = plan.ops
    sent: list[int] = np.bincount(ops.rank[sends], ops.size_bytes[sends], len(plan.workers)).astype(int).tolist()
    return sent


def halves(plan: Plan) -> Counter[Combine]:
    """Messages by what the receiver does."""
    ops = plan.ops
    return Counter(Combine(how) for how in ops.combine[(ops.kind == OpKind.RECV) & (ops.chunk >= 0)].tolist())


@pytest.mark.parametrize("tensor", [2, 4])
def test_sequence_parallelism_sends_the_bytes_of_tensor_parallelism(tensor: int) -> None:
    """Korthikanti et al. 2022, section 4.2.2: a reduce-scatter and an allgather in place of each of the 4 x 32 + 2
    allreduces."""
    plan, before = (divided(llama(tensor), {"tensor": tensor, "sequence_parallel": on}) for on in (True, False))
    check(plan)
    assert sent_bytes(plan).tolist() == sent_bytes(before).tolist()
    per_half = (4 * 32 + 2) * tensor * (tensor - 1)
    assert halves(plan) == halves(before) == {Combine.ADD: per_half, Combine.COPY: per_half}


def test_with_sequence_parallelism_no_more_than_ones_tokens_are_handed_on() -> None:
    job = llama(4, batch=2)
    options = {"tensor": 2, "stages": 2, "microbatches": 2}
    plan, before = (divided(job, {**options, "sequence_parallel": on}) for on in (True, False))
    check(plan)
    whole = 2 * LLAMA_TOKENS * LLAMA_WIDTH * 2  # samples, and bytes
    for kind in ("activations", "gradients from"):
        assert sum(sent_by(before, of_kind(before, kind))) == 2 * whole
        assert sum(sent_by(plan, of_kind(plan, kind))) == whole


def test_a_tensor_groups_parts_have_one_receiver_or_one_contributor() -> None:
    plan = divided(small_transformer(1, 2, ends=False), {"tensor": 2, "sequence_parallel": True})
    check(plan)
    ops = plan.ops
    for combine, many, one in (
        (Combine.ADD, plan.chunk_contributors, plan.chunk_receivers),
        (Combine.COPY, plan.chunk_receivers, plan.chunk_contributors),
    ):
        chunks = np.unique(ops.chunk[ops.combine == combine])
        assert len(chunks) == 4 * 2
        assert {tuple(plan.set_ranks(number).tolist()) for number in many[chunks]} == {(0, 1)}
        assert Counter(tuple(plan.set_ranks(number).tolist()) for number in one[chunks]) == {(0,): 4, (1,): 4}


@pytest.mark.parametrize(("stages", "microbatches", "chunks"), [(2, 2, 2), (2, 8, 2), (4, 4, 2), (4, 8, 4), (2, 4, 4)])
def test_interleaving_divides_the_bubble(stages: int, microbatches: int, chunks: int) -> None:
    """Narayanan et al., section 2.2.2: (p - 1) / (m v) of the time that computation takes, where messages take none."""
    job = small_transformer(16, stages, batch=microbatches)
    plan = divided(job, {"stages": stages, "microbatches": microbatches, "chunks": chunks})
    bubble = critical_path_s(plan, FAST) / (job.compute_s / stages) - 1
    assert bubble == pytest.approx((stages - 1) / (microbatches * chunks), rel=0.01)


@pytest.mark.parametrize("chunks", [2, 4])
def test_interleaving_multiplies_what_stages_exchange(chunks: int) -> None:
    """Through p v pieces of the model, p v - 1 times each way instead of p - 1 times."""
    plan = divided(small_transformer(8, 2, batch=4), {"stages": 2, "microbatches": 4, "chunks": chunks})
    check(plan)
    for kind in ("activations", "gradients from"):
        assert len(of_kind(plan, kind)) == 4 * (2 * chunks - 1)
    assert sent_bytes(plan).sum() == 2 * 4 * (2 * chunks - 1) * VALUES * 2


def test_stages_have_every_other_piece_and_sum_all_of_them() -> None:
    job = small_transformer(8, 4, batch=4)
    whole, pieces = (divided(job, {"stages": 2, "microbatches": 4, "chunks": chunks}) for chunks in (1, 2))
    assert sent_by(pieces, of_kind(pieces, "parameters")) == sent_by(whole, of_kind(whole, "parameters"))
    assert pieces.compute_s == pytest.approx(whole.compute_s)


def test_a_block_is_passed_forward_again_before_its_backward_pass() -> None:
    """Full recomputation: a third more of the blocks' time, and half as much again of their collectives; ends are
    passed once."""
    job = small_transformer(2, 2)
    plan, before = (divided(job, {"tensor": 2, "recompute": how}) for how in ("full", "none"))
    check(plan)
    assert plan.compute_s == pytest.approx(before.compute_s * 4 / 3)
    assert critical_path_s(plan, FAST) == pytest.approx(critical_path_s(before, FAST) * 4 / 3, rel=1e-3)
    per_call = 2 * 2 * (2 - 1)
    assert len(of_kind(before, "")) == (4 * 2 + 2) * per_call
    assert len(of_kind(plan, "")) == (6 * 2 + 2) * per_call


def test_experts_get_their_tokens_again_too() -> None:
    plan, before = (divided(mixture(2), {"experts": 2, "recompute": how}) for how in ("full", "none"))
    check(plan)
    assert len(of_kind(plan, "tokens")) == len(of_kind(before, "tokens")) * 6 / 4


def test_the_core_of_attention_alone_has_no_collectives() -> None:
    """Korthikanti et al. 2022, section 5: scores and weighted sums, whose operations are 4 s^2 h of a sample and
    block."""
    job = llama(2)
    plan, before = (divided(job, {"tensor": 2, "recompute": how}) for how in ("selective", "none"))
    check(plan)
    assert sent_bytes(plan).tolist() == sent_bytes(before).tolist()
    core = 32 * 4 * LLAMA_TOKENS**2 * LLAMA_WIDTH
    assert core == sum(layer.flops for layer in job.profile.layers if layer.name.endswith("/attend"))
    forward_s = sum(job.compute.forward_s)
    assert plan.compute_s - before.compute_s == pytest.approx(forward_s * core / job.profile.flops / 2, rel=1e-6)


@pytest.mark.parametrize(("workers", "experts", "tensor"), [(2, 2, 1), (4, 4, 1), (4, 2, 2), (8, 4, 2)])
def test_the_hottest_expert_gets_its_share_and_the_others_the_rest(workers: int, experts: int, tensor: int) -> None:
    """8 experts, of which the first gets 3 / 10 and each other one 1 / 10 of what 16 tokens of 8 values have for 2
    experts each."""
    job = mixture(workers, experts=8)
    second_s = tuple(1.0 for _ in job.profile.layers)
    plan = divided(
        replace(job, compute=ComputeTime(second_s, second_s, "made up")),
        {"experts": experts, "tensor": tensor, "token_skew": 0.3},
    )
    check(plan)
    per_worker, rest = 8 // experts, 16 * 8 * 2 // tensor
    hot, cold = 0.3 + (per_worker - 1) / 10, per_worker / 10
    ops, tokens = plan.ops, of_kind(plan, "tokens to forward")
    into = np.bincount(ops.peer[tokens], ops.size_bytes[tokens], workers)
    replica = np.arange(workers) // tensor % experts
    expected = np.where(replica == 0, round(rest * hot), round(rest * cold)) * 2 * (experts - 1) * 2  # bytes, blocks
    assert into.tolist() == expected.tolist()
    back = of_kind(plan, "tokens from forward")
    assert sent_by(plan, back) == expected.tolist()
    spent_ns = np.bincount(ops.rank, ops.duration_ns * (ops.kind == OpKind.COMPUTE), workers)
    others_s = 2 * (len(second_s) - 2)  # all layers but two of experts, both ways
    assert spent_ns[0] == pytest.approx((others_s + 4 * hot * experts) * 1e9 / tensor)
    assert spent_ns[-1] == pytest.approx((others_s + 4 * cold * experts) * 1e9 / tensor)
    assert plan.compute_s == pytest.approx(spent_ns[-1] / 1e9)


def test_an_even_skew_is_no_skew() -> None:
    even, unset = (divided(mixture(4), {"experts": 4, **more}) for more in ({"token_skew": 0.25}, {}))
    assert sent_bytes(even).tolist() == sent_bytes(unset).tolist()
    assert even.compute_s == pytest.approx(unset.compute_s)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_divided_optimizer_scatters_gradients_and_gathers_parameters(overlap: bool) -> None:
    """4 replicas: (N - 1) / N of the parameters in fp32 and once more in bf16, where an allreduce has twice that in
    fp32."""
    job = small_transformer(4, 4)
    before = divided(job, {})
    plan = divided(job, {"sharded_optimizer": True, "overlap_gradients": overlap, "parameters": "bf16"})
    check(plan)
    values = job.profile.parameters
    assert sent_by(before, of_kind(before, "parameters")) == [2 * 3 * values // 4 * 4] * 4
    assert sent_by(plan, of_kind(plan, "parameters")) == [3 * values // 4 * 4] * 4
    assert sent_by(plan, of_kind(plan, "updated")) == [3 * values // 4 * 2] * 4


def test_buckets_of_gradients_close_when_they_are_full() -> None:
    """Halves of 24 parameters between ends of 24, in buckets of 40: two halves each, and in the same order back."""
    options = {"overlap_gradients": True, "bucket_parameters": 40, "sharded_optimizer": True}
    plan = divided(small_transformer(2, 2), options)
    check(plan)
    named = [name for name in plan.tensors if "parameters" in name]
    sums = ["block1/ffn to lm_head", "block0/ffn to block1/attention", "embeddings to block0/attention"]
    assert named == [f"parameters of {values}" for values in sums] + [
        f"updated parameters of {values}" for values in sums[::-1]
    ]


def test_sums_hide_behind_the_backward_pass_if_they_may() -> None:
    """Blocks of 2 and 4 ms, with buckets of a half: all but the last sum, of 96 bytes at 1 MB/s, go beside it."""
    job = small_transformer(2, 2, ends=False)
    slow = replace(FAST, rate_bps=8e5 / FAST.goodput_share())
    late, early = (
        critical_path_s(divided(job, {"overlap_gradients": on, **({"bucket_parameters": 1} if on else {})}), slow)
        for on in (False, True)
    )
    compute_s = job.compute_s
    assert late == pytest.approx(compute_s + 4 * 96e-5, rel=1e-3)
    assert early == pytest.approx(compute_s + 96e-5, rel=1e-3)


CASES: list[dict[str, Any]] = [
    {"tensor": 2, "stages": 2, "microbatches": 2, "sequence_parallel": True},
    {"tensor": 2, "stages": 2, "microbatches": 2, "chunks": 2, "sequence_parallel": True, "recompute": "full"},
    {"stages": 2, "microbatches": 2, "sharded_optimizer": True, "overlap_gradients": True, "bucket_parameters": 30},
    {"tensor": 2, "recompute": "full", "sharded_optimizer": True},
    {"tensor": 2, "stages": 2, "microbatches": 4, "chunks": 2, "overlap_gradients": True},
]


@pytest.mark.parametrize("options", CASES)
def test_products_are_accepted_replay_to_their_end_and_need_every_message(options: dict[str, Any]) -> None:
    plan = divided(small_transformer(4, 8, batch=4, per_host=2), options)
    check(plan)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND).tolist()
    for op in sends[:: max(1, len(sends) // 25)]:
        with pytest.raises(PlanError):
            check(without_op(plan, op))


@pytest.mark.parametrize("sharded", [False, True])
def test_experts_and_what_all_share_have_divided_optimizers_of_their_own(sharded: bool) -> None:
    options = {"experts": 2, "token_skew": 0.4, "recompute": "full", "sharded_optimizer": sharded}
    plan = divided(mixture(4), {**options, "overlap_gradients": sharded})
    check(plan)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)
    sends = of_kind(plan, "parameters")
    assert {tuple(plan.set_ranks(plan.chunk_contributors[plan.ops.chunk[op]]).tolist()) for op in sends} == {
        (0, 1, 2, 3),
        (0, 2),
        (1, 3),
    }


@pytest.mark.parametrize(
    ("job", "options", "complaint"),
    [
        (small_transformer(4, 2), {"sequence_parallel": True}, r"sequence_parallel = true: .* needs tensor > 1"),
        (small_transformer(4, 2), {"token_skew": 0.5}, r"token_skew = 0\.5: .* needs experts > 1"),
        (mixture(2), {"experts": 2, "token_skew": 0.2}, r"token_skew = 0\.2: must be from 1/4 .* to 1/2"),
        (mixture(2), {"experts": 2, "token_skew": 0.6}, r"token_skew = 0\.6: must be from 1/4 .* to 1/2"),
        (small_transformer(4, 2), {"chunks": 2}, r"chunks = 2: interleaves .* needs stages > 1"),
        (small_transformer(4, 2), {"chunks": 2, "stages": 2, "schedule": "gpipe"}, 'needs stages > 1 and schedule = '
        '"1f1b"'),
        (small_transformer(4, 2, batch=3), {"chunks": 2, "stages": 2, "microbatches": 3}, r"microbatches = 3: must be "
        r"a multiple of"),
        (small_transformer(6, 4, batch=4), {"chunks": 2, "stages": 4, "microbatches": 4}, r"chunks = 2: must divide "
        r"the 6 blocks"),
        (small_transformer(4, 2), {"bucket_parameters": 9}, r"bucket_parameters = 9: buckets are for "
        r"overlap_gradients = true"),
        (small_transformer(4, 2), {"recompute": "selective"}, r"recompute = 'selective': 'small' has no layers of "
        r"attention's scores"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_told(job: Job, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputFault, match=complaint):
        divided(job, options)


@pytest.mark.parametrize("options", [{}, {"overlap_gradients": True}, {"sharded_optimizer": True}])
@pytest.mark.parametrize("algorithm", ["double-tree", "halving-doubling", "two-level", "direct", "auto"])
def test_replicas_sum_by_other_algorithms_as_many_bytes(algorithm: str, options: dict[str, Any]) -> None:
    """Each of these is optimal in bytes, all replicas together; and the plan tells what was taken."""
    job = small_transformer(1, 8, ends=False)
    chosen = {"tensor": 2, **options}
    if algorithm == "double-tree" and "sharded_optimizer" in options:
        with pytest.raises(InputFault, match=in_order("'double-tree':", "reduce-scatter", "ring")):
            divided(job, {**chosen, "algorithm": algorithm})
        return
    plan, ring = (divided(job, {**chosen, "algorithm": named}) for named in (algorithm, "ring"))
    check(plan)
    if algorithm != "auto":  # which doubles where so little is sent
        assert sent_bytes(plan).sum() == sent_bytes(ring).sum()
    assert ring.notes == ()
    assert all("among 4" in note for note in plan.notes)
    assert len(plan.notes) == (2 if "sharded_optimizer" in options else 1)


@pytest.mark.parametrize("sharded", [False, True])
def test_with_priorities_gradients_give_way_to_activations(sharded: bool) -> None:
    """The messages are the same; those of gradients and gathered parameters are of class 1."""
    options = {"stages": 2, "microbatches": 2, "overlap_gradients": True, "sharded_optimizer": sharded}
    plan, before = (divided(llama(4, batch=2), {**options, "priorities": on}) for on in (True, False))
    check(plan)
    assert plan.ops.size_bytes.tolist() == before.ops.size_bytes.tolist()
    assert not (before.ops.traffic_class > 0).any()
    sends = plan.ops.kind == OpKind.SEND
    of_gradients = np.array([len(plan.set_ranks(one)) > 1 for one in _sets(plan, plan.ops.chunk[sends])])
    assert of_gradients.any()
    assert not of_gradients.all()
    assert (plan.ops.traffic_class[sends] == of_gradients).all()


def _sets(plan: Plan, chunks: Int64) -> list[int]:
    """Of each chunk's contributors and receivers, the larger set: activations go from one rank to one."""
    sets = zip(plan.chunk_contributors[chunks].tolist(), plan.chunk_receivers[chunks].tolist(), strict=True)
    return [max(pair, key=lambda one: len(plan.set_ranks(one))) for pair in sets]


def test_priorities_shorten_an_iteration_whose_stages_wait_for_activations() -> None:
    """Gradients of the last passes are in the way of those that the stages before still wait for."""
    options = {
        "stages": 4,
        "microbatches": 8,
        "replica_batch": 32,
        "overlap_gradients": True,
        "bucket_parameters": 10**6,
    }
    fabric = Fabric(hosts=8, rate_bps=25e9, classes=2)
    alike, first = (
        estimate(divided(llama(8), {**options, "priorities": on}), fabric).iteration_s for on in (False, True)
    )
    assert first < 0.99 * alike
