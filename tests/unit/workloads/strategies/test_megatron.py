"""Megatron's parallelism: how many messages of which size there are, the pipeline's bubble, and what the checker
refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.bounds import critical_path_s
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.parallel.division import WorkerGrid
from gradwire.workloads.engines.parallel.segments import cut, piece_blocks
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import ComputeTime, compute_time
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.models.transformer_layers import transformer_profile
from gradwire.workloads.models.transformer_shapes import Experts, Transformer
from tests.shared.parts import in_order
from tests.shared.simulation import replay
from tests.shared.small_allreduces import plan_of, sent_bytes
from tests.shared.small_jobs import dependencies, with_dependencies, without_op

LLAMA_WIDTH, LLAMA_TOKENS = 4096, 8192
VALUES = 12
"""Activations of a sample of `small_transformer`."""
FAST = Fabric(hosts=16, rate_bps=1e12, classes=1)


def llama(workers: int, *, batch: int = 1) -> Job:
    profile = model("llama3-8b")
    return Job(profile, compute_time(profile, "h100", batch=batch), Cluster(workers), batch)


def small_transformer(
    blocks: int, workers: int, *, batch: int = 1, per_host: int = 1, ends: bool = True, first: int = 0
) -> Job:
    """Halves of blocks that take 1 ms forward and 2 ms back, between an embedding and an output that take no time."""
    half = [(f"block{number}/{part}", 1e-3) for number in range(first, first + blocks) for part in ("attention", "ffn")]
    named = [("embeddings", 0.0), *half, ("lm_head", 0.0)] if ends else half
    layers: list[Layer] = []
    forward_s: list[float] = []
    for name, time_s in named:
        weights = (Tensor(f"{name}/weights", 24),)
        before = (len(layers) - 1,) if layers else ()
        if time_s:
            layers += [
                Layer(f"{name}/product", LayerKind.FC, weights, 1.0, before),
                Layer(f"{name}/add", LayerKind.OTHER, (), float(VALUES), (len(layers),)),
            ]
            forward_s += [time_s, 0.0]
        else:
            layers.append(Layer(name, LayerKind.FC, weights, 1.0, before))
            forward_s.append(0.0)
    compute = ComputeTime(tuple(forward_s), tuple(2 * time_s for time_s in forward_s), "made up")
    cluster = Cluster(workers, workers_per_host=per_host)
    return Job(Profile("small", tuple(layers), batch, "made up"), compute, cluster, batch)


def divided(job: Job, options: Mapping[str, Any]) -> Plan:
    """A plan whose replicas have the job's batch each, unless the options say otherwise."""
    return plan_of(job, "megatron", {"replica_batch": job.batch, **options})


def shared(plan: Plan) -> Counter[str]:
    """Messages by what they carry: outputs, gradients, activations and parameters."""
    ops = plan.ops
    sends = (ops.kind == OpKind.SEND) & (ops.chunk >= 0)
    names = [plan.tensors[tensor] for tensor in plan.chunk_tensor[ops.chunk[sends]].tolist()]
    kinds = ("outputs", "parameters", "activations from", "gradients from", "gradients")
    return Counter(next(kind for kind in kinds if kind in name) for name in names)


@pytest.mark.parametrize("tensor", [2, 4])
def test_a_tensor_group_sums_activations_four_times_a_block(tensor: int) -> None:
    """Shoeybi et al. 2019, Fig. 4: twice in a block's forward pass and twice in its backward pass, b s h values each;
    once more each for the embedding's outputs and for the gradients of the output's inputs."""
    job = llama(tensor)
    plan = divided(job, {"tensor": tensor})
    check(plan)
    per_tensor = tensor * 2 * (tensor - 1)
    assert shared(plan) == {"outputs": (2 * 32 + 1) * per_tensor, "gradients": (2 * 32 + 1) * per_tensor}
    allreduces, values = 4 * 32 + 2, LLAMA_TOKENS * LLAMA_WIDTH
    sent = 2 * (tensor - 1) * 2 * values // tensor * allreduces
    assert sent_bytes(plan).tolist() == [sent] * tensor


def test_a_share_of_the_work_takes_its_share_of_the_time() -> None:
    job = llama(4)
    plan = divided(job, {"tensor": 4})
    assert plan.compute_s == pytest.approx(job.compute_s / 4)
    assert plan.samples == 1


def test_a_replica_has_the_samples_that_its_workers_would_have_alone() -> None:
    """So that an iteration is of as many samples as with data parallelism, and computes for as long where stages are
    alike."""
    job = small_transformer(4, 8, batch=3)
    plan = divided(job, {"tensor": 2, "stages": 2, "replica_batch": None})
    check(plan)
    assert plan.samples == job.samples == plan_of(job, "ddp").samples
    assert plan.compute_s == pytest.approx(job.compute_s)
    half = divided(job, {"tensor": 2, "stages": 2, "replica_batch": 6})
    assert half.samples == job.samples / 2
    assert half.compute_s == pytest.approx(job.compute_s / 2)


@pytest.mark.parametrize("microbatches", [1, 2, 4])
def test_stages_hand_on_the_activations_of_each_microbatch_and_their_gradients(microbatches: int) -> None:
    """b s h values of 2 bytes in all, one way forward and the other way back; the stages in the middle send both."""
    plan = divided(llama(4, batch=4), {"stages": 4, "microbatches": microbatches})
    check(plan)
    assert shared(plan) == {"activations from": 3 * microbatches, "gradients from": 3 * microbatches}
    one_way = 4 * LLAMA_TOKENS * LLAMA_WIDTH * 2
    assert sent_bytes(plan).tolist() == [one_way, 2 * one_way, 2 * one_way, one_way]


def test_replicas_sum_the_gradients_of_their_share() -> None:
    """2 replicas of 2 stages of 2 shares: each worker sends its quarter of the parameters twice in halves, in fp32."""
    job = small_transformer(4, 8)
    plan = divided(job, {"tensor": 2, "stages": 2})
    check(plan)
    assert plan.samples == 2 * job.batch
    ops, summed = plan.ops, of_kind(plan, "parameters")
    sent = np.bincount(ops.rank[summed], ops.size_bytes[summed], 8)
    per_stage = job.profile.parameters // 2  # the embedding and the output are as large
    assert sent.tolist() == [per_stage // 2 * 4] * 8


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "microbatches"), [(2, 1), (2, 8), (4, 4), (4, 16), (8, 8)])
def test_the_bubble_is_that_of_the_formula(schedule: str, stages: int, microbatches: int) -> None:
    """Narayanan et al., section 2.2.1: (p - 1) / m of the time that computation takes, where messages take none."""
    job = small_transformer(8, stages, batch=microbatches)
    plan = divided(job, {"stages": stages, "microbatches": microbatches, "schedule": schedule})
    ideal_s = job.compute_s / stages
    bubble = critical_path_s(plan, FAST) / ideal_s - 1
    assert bubble == pytest.approx((stages - 1) / microbatches, rel=0.01)


def test_a_transformer_is_cut_at_its_halves() -> None:
    profile = model("llama3-8b")
    stages = cut(profile, 4).stages
    assert [len(stage) for stage in stages] == [17, 16, 16, 17]
    assert [layer for stage in stages for segment in stage for layer in segment.layers] == [*range(len(profile.layers))]
    assert sum(segment.values for stage in stages for segment in stage) == profile.parameters
    assert cut(profile, 1).activation_values == LLAMA_TOKENS * LLAMA_WIDTH


def test_neighbours_share_layers_and_groups_are_the_grid() -> None:
    grid = WorkerGrid.of(12, tensor=2, stages=3)
    assert grid.data == 2
    assert [grid.tensor_groups(stage) for stage in range(3)] == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
        [[8, 9], [10, 11]],
    ]
    assert grid.data_groups(1) == [[4, 6], [5, 7]]
    assert WorkerGrid(tensor=1, data=4, stages=1).neighbours(0, 2) == [[0, 1], [2, 3]]
    assert WorkerGrid(tensor=1, data=4, stages=1).same_experts(0, 2) == [[0, 2], [1, 3]]
    assert [grid.worker(*grid.place(worker)) for worker in range(12)] == [*range(12)]


@pytest.mark.parametrize(
    ("job", "options", "complaint"),
    [
        (
            small_transformer(4, 6),
            {"tensor": 4},
            "cluster.workers = 6: must be a multiple of strategy.options.tensor = 4",
        ),
        (small_transformer(3, 2), {"stages": 2}, "strategy.options.stages = 2: must divide the 3 blocks of 'small'"),
        (
            small_transformer(4, 3),
            {"stages": 3, "first_blocks": 1},
            "strategy.options.stages = 3: the 4 blocks of 'small' without strategy.options.first_blocks",
        ),
        (small_transformer(4, 2), {"first_blocks": 1}, "strategy.options.first_blocks, last_blocks: are of"),
        (small_transformer(4, 4), {"experts": 3}, "strategy.options.experts = 3: must divide the 4 replicas"),
        (small_transformer(4, 2), {"experts": 2}, "strategy.options.experts = 2: 'small' has no experts"),
        (
            replace(small_transformer(4, 3), profile=model("mixtral-8x7b")),
            {"experts": 3},
            "strategy.options.experts = 3: must divide the 8 experts of 'mixtral-8x7b'",
        ),
        (
            small_transformer(4, 2, batch=3),
            {"microbatches": 2},
            "microbatches = 2: must divide the 3 samples of a replica",
        ),
        (
            replace(small_transformer(4, 2), profile=model("alexnet")),
            {"tensor": 2},
            "model.name = 'alexnet': has no blocks of attention and feed-forward",
        ),
    ],
)
def test_what_does_not_divide_is_told(job: Job, options: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(InputFault, match=complaint):
        divided(job, options)


def mixture(workers: int, *, experts: int = 4, per_token: int = 2, batch: int = 1) -> Job:
    shape = Transformer(
        words=10,
        tokens=16,
        width=8,
        blocks=2,
        heads=2,
        ffn=12,
        key_value_heads=2,
        head_width=4,
        experts=Experts(experts, per_token, 12),
    )
    profile = transformer_profile("small-mixture", shape, batch, "made up")
    return Job(profile, compute_time(profile, "h100"), Cluster(workers), batch)


def of_kind(plan: Plan, kind: str) -> list[int]:
    """SENDs whose tensors' names begin so."""
    ops = plan.ops
    sends = np.flatnonzero((ops.kind == OpKind.SEND) & (ops.chunk >= 0)).tolist()
    return [op for op in sends if plan.tensors[plan.chunk_tensor[ops.chunk[op]]].startswith(kind)]


@pytest.mark.parametrize(("workers", "experts", "tensor"), [(2, 2, 1), (4, 4, 1), (8, 4, 1), (4, 2, 2), (8, 2, 2)])
def test_tokens_go_to_their_experts_and_back_in_both_passes(workers: int, experts: int, tensor: int) -> None:
    """Lepikhin et al. 2020, section 3.2: two all-to-alls each way in each of 2 blocks. 16 tokens of 8 values go to 2
    experts each; a tensor group's workers send their share. Each keeps what is for its own experts."""
    plan = divided(mixture(workers), {"experts": experts, "tensor": tensor})
    check(plan)
    ops, tokens = plan.ops, of_kind(plan, "tokens")
    assert len(tokens) == 2 * 4 * workers * (experts - 1)
    brought = 2 * 16 * 8 // tensor * 2  # two experts a token, two bytes per value
    sent = np.bincount(ops.rank[tokens], ops.size_bytes[tokens], workers)
    assert sent.tolist() == [2 * 4 * brought * (experts - 1) // experts] * workers


def test_replicas_with_other_experts_sum_all_but_their_experts() -> None:
    """4 replicas, 2 of which have the same half of the experts: a ring of 4 for what all have, and one of 2 for the
    experts."""
    job = mixture(4)
    plan = divided(job, {"experts": 2})
    check(plan)
    of_experts = 2 * 4 * 3 * 8 * 12  # blocks, experts, matrices
    rest = job.profile.parameters - of_experts
    ops, summed = plan.ops, of_kind(plan, "parameters")
    sent = np.bincount(ops.rank[summed], ops.size_bytes[summed], 4)
    assert sent.tolist() == [2 * 3 * -(-rest // 4) * 4 + 2 * 1 * (of_experts // 2 // 2) * 4] * 4


def test_the_experts_of_public_mixtures_are_found_as_they_are_printed() -> None:
    """Mixtral sends a token of 4096 values to 2 experts, and DeepSeek-V3 one of 7168 to 8, in all blocks but the first
    three."""
    for name, experts, mixtures, routed in (
        ("mixtral-8x7b", 8, 32, 2 * 8192 * 4096),
        ("deepseek-v3", 64, 58, 8 * 4096 * 7168),
    ):
        (segments,) = cut(model(name), 1, experts).stages
        mixtures_of = [segment for segment in segments if segment.routed_values]
        assert (len(mixtures_of), {segment.routed_values for segment in mixtures_of}) == (mixtures, {routed})
        assert sum(segment.values for segment in segments) == model(name).parameters


def test_an_expert_that_does_not_wait_for_its_tokens_is_refused() -> None:
    plan = divided(mixture(2), {"experts": 2})
    ops = plan.ops
    needing = set(np.unique(plan.needs[:, 0]).tolist())
    received = [dep for dep in dependencies(plan) if dep[0] in needing and ops.kind[dep[1]] == OpKind.RECV]
    assert len(received) == 2 * 4 * 2
    for dep in received:
        with pytest.raises(PlanError, match="needs chunk"):
            check(with_dependencies(plan, [kept for kept in dependencies(plan) if kept != dep]))


def three_ways(schedule: str = "1f1b") -> Plan:
    options = {"tensor": 2, "stages": 2, "microbatches": 2, "schedule": schedule}
    return divided(small_transformer(2, 8, batch=2, per_host=2), options)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_plans_of_all_three_are_accepted_and_replay_to_their_end(schedule: str) -> None:
    plan = three_ways(schedule)
    check(plan)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)


def test_every_message_is_needed() -> None:
    plan = three_ways()
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND).tolist()
    for op in sends[:: max(1, len(sends) // 40)]:
        with pytest.raises(PlanError):
            check(without_op(plan, op))


def test_a_pass_that_does_not_wait_for_its_activations_is_refused() -> None:
    """Those that another stage sends, and those that a tensor group sums."""
    plan = three_ways()
    ops = plan.ops
    needing = set(np.unique(plan.needs[:, 0]).tolist())
    received = [dep for dep in dependencies(plan) if dep[0] in needing and ops.kind[dep[1]] == OpKind.RECV]
    summed = [dep for dep in dependencies(plan) if dep[0] in needing and ops.kind[dep[1]] == OpKind.COMPUTE]
    assert len(received) == 4 * 2 * 2  # each pair of counterparts, each microbatch, both ways
    for dep in [*received, *(dep for dep in summed if ops.lane[dep[1]] != 0)]:
        with pytest.raises(PlanError):
            check(with_dependencies(plan, [kept for kept in dependencies(plan) if kept != dep]))


def test_inside_a_host_activations_take_the_machines_own_link() -> None:
    """Two shares on one host: nothing crosses the network, and an allreduce of 24 bytes at 1 kB/s takes 12 ms in each
    of two steps."""
    job = replace(small_transformer(1, 2, per_host=2, ends=False), costs=Costs(local_bytes_per_s=1e3))
    plan = divided(job, {"tensor": 2})
    assert sent_bytes(plan).sum() == 0
    assert critical_path_s(plan, FAST) == pytest.approx(job.compute_s / 2 + 4 * 2 * 12e-3, rel=1e-6)


def test_messages_inside_a_host_have_a_latency_of_their_own() -> None:
    job = small_transformer(1, 2, per_host=2, ends=False)
    slow = divided(replace(job, costs=Costs(message_latency_s=1e-3)), {"tensor": 2})
    quick = divided(replace(job, costs=Costs(message_latency_s=1e-3, local_latency_s=1e-6)), {"tensor": 2})
    assert critical_path_s(slow, FAST) == pytest.approx(job.compute_s / 2 + 4 * 2 * 1e-3, rel=1e-6)
    assert critical_path_s(quick, FAST) == pytest.approx(job.compute_s / 2 + 4 * 2 * 1e-6, rel=1e-6)


@pytest.mark.parametrize(("per_host", "latency_s"), [(1, 1e-3), (2, 1e-6 + 24 / 1e5)])
def test_stages_of_one_machine_hand_on_by_its_own_link_and_others_by_the_network(
    per_host: int, latency_s: float
) -> None:
    """24 bytes of activations one way and of gradients back, at 100 kB/s inside the machine; on the network they take
    no time."""
    costs = Costs(message_latency_s=1e-3, local_latency_s=1e-6, local_bytes_per_s=1e5)
    job = replace(small_transformer(2, 2, per_host=per_host), costs=costs)
    plan = divided(job, {"stages": 2})
    assert len(of_kind(plan, "")) == 2
    assert critical_path_s(plan, FAST) == pytest.approx(job.compute_s + 2 * latency_s, rel=1e-6)


def test_replicas_of_one_worker_each_take_any_model_whole() -> None:
    """One sum of all gradients behind the backward pass, as of a model without blocks."""
    for name in ("alexnet", "llama3-8b"):
        plan = divided(
            replace(small_transformer(4, 2), profile=model(name), compute=compute_time(model(name), "h100")), {}
        )
        summed = {plan.tensors[tensor] for tensor in plan.chunk_tensor[plan.ops.chunk[of_kind(plan, "")]].tolist()}
        assert summed == {f"parameters of {name} to {name}"}


@pytest.mark.parametrize(
    "options", [{"recompute": "full"}, {"overlap_gradients": True}, {"context": 2}, {"tensor": 2}, {"stages": 2}]
)
def test_whatever_works_block_by_block_needs_blocks(options: Mapping[str, Any]) -> None:
    with pytest.raises(InputFault, match=in_order("'alexnet':", "no blocks")):
        divided(replace(small_transformer(4, 2), profile=model("alexnet")), options)


def test_blocks_may_be_counted_from_one() -> None:
    """As in the model file that docs/adding-a-model.md begins with."""
    from_zero, from_one = (cut(small_transformer(4, 1, first=first).profile, stages=2) for first in (0, 1))
    assert [[segment.layers for segment in piece] for piece in from_one.stages] == [
        [segment.layers for segment in piece] for piece in from_zero.stages
    ]


@pytest.mark.parametrize(
    ("ends", "stages", "blocks"),
    [
        ((None, None), 2, [2, 2]),
        ((1, 1), 3, [1, 2, 1]),
        ((0, None), 3, [0, 2, 2]),
        ((None, 1), 2, [3, 1]),
        ((1, 0), 4, None),
        ((4, 0), 3, None),
    ],
)
def test_the_ends_of_a_pipeline_may_have_fewer_blocks(
    ends: tuple[int | None, int | None], stages: int, blocks: list[int] | None
) -> None:
    assert piece_blocks(4, stages, *ends) == blocks
    if blocks is not None:
        pieces = cut(small_transformer(4, stages).profile, stages, ends=ends).stages
        assert [len({segment.block for segment in piece} - {-1}) for piece in pieces] == blocks


def test_a_plan_with_uneven_stages_is_whole() -> None:
    options = {"stages": 3, "microbatches": 3, "replica_batch": 3, "first_blocks": 1, "last_blocks": 1}
    plan = divided(small_transformer(4, 3), options)
    check(plan)
    # A stage with one block, of two halves, computes half of what the middle one does.
    assert plan.compute_s == pytest.approx(3 * 2 * 3e-3)
