"""Fully sharded data parallelism: number and size of its collectives in closed form, what overlaps, and what the
checker refuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwire.analysis.bounds import critical_path_s
from gradwire.datatypes.plan import Combine, OpKind, Plan
from gradwire.faults import InputFault
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.parallel.sharded import units_of
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import ComputeTime, compute_time
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from tests.shared.parts import in_order
from tests.shared.simulation import replay
from tests.shared.small_allreduces import FABRIC, GOODPUT_BYTES_PER_S, plan_of, sent_bytes
from tests.shared.small_jobs import dependencies, job_of, profile_of, with_dependencies, without_op

FORWARD_S = 10e-3
BLOCK_VALUES = 4 * 90_000


def job_of_model(name: str, workers: int) -> Job:
    profile = model(name)
    return Job(profile, compute_time(profile, "h100"), Cluster(workers), profile.batch)


def blocks(count: int, workers: int, *, root_values: int = 0, values: int = BLOCK_VALUES) -> Job:
    """Blocks that each take 10 ms forward and 20 ms back, behind a root layer that takes no time, if it has any
    parameters."""
    named = [(f"block{number}/ffn", values) for number in range(count)]
    if root_values:
        named.insert(0, ("embeddings", root_values))
    layers = tuple(
        Layer(name, LayerKind.FC, (Tensor(f"{name}/weights", size),), 1.0, (number - 1,) if number else ())
        for number, (name, size) in enumerate(named)
    )
    forward_s = tuple(0.0 if name == "embeddings" else FORWARD_S for name, _ in named)
    compute = ComputeTime(forward_s, tuple(2 * time_s for time_s in forward_s), "made up")
    return Job(Profile("blocks", layers, 1, "made up"), compute, Cluster(workers), 1)


def collectives(plan: Plan) -> Counter[Combine]:
    """How many there are of each kind: of their messages, those that one rank sends in one step."""
    ops = plan.ops
    recvs = np.flatnonzero(ops.kind == OpKind.RECV)
    workers = len(plan.workers)
    of_kind = Counter(Combine(combine) for combine in ops.combine[recvs].tolist())
    return Counter({combine: count // (workers * (workers - 1)) for combine, count in of_kind.items()})


def test_llama_70b_has_161_allgathers_and_81_reduce_scatters_of_these_sizes() -> None:
    """80 blocks are gathered twice and the root once; all are reduced once. Widths as The Llama 3 Herd of Models,
    Table 3, has them."""
    workers, width, ffn, words, keys = 8, 8192, 28672, 128256, 1024
    block = 2 * width * (width + keys) + 3 * width * ffn + 2 * width
    root = 2 * words * width + width
    assert 80 * block + root == 70_553_706_496
    plan = plan_of(job_of_model("llama3-70b", workers), "fsdp")
    check(plan)
    assert collectives(plan) == {Combine.COPY: 161, Combine.ADD: 81}
    gathered, reduced = 2 * (root + 2 * 80 * block), 4 * (root + 80 * block)
    sent = (workers - 1) * (gathered + reduced) // workers  # every unit divides by 8
    assert sent_bytes(plan).tolist() == [sent] * workers


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize(("reshard", "times"), [(True, 1.5), (False, 1.0)])
def test_the_volume_is_that_of_zeros_stages(workers: int, reshard: bool, times: float) -> None:
    """Rajbhandari et al. 2020, section 7: 3 times the model in stage 3 and twice in stage 2, as data parallelism
    has."""
    job = blocks(3, workers, values=12_000)
    options = {"parameters": "fp32", "gradients": "fp32", "reshard_after_forward": reshard}
    sharded, replicated = plan_of(job, "fsdp", options), plan_of(job, "ddp")
    assert sent_bytes(sharded).tolist() == [times * size for size in sent_bytes(replicated).tolist()]


def test_shards_are_padded_to_the_same_size() -> None:
    """10 values on 4 workers are shards of 3, of which a worker sends 3 to be gathered, in each pass, and 3 to be
    reduced."""
    plan = plan_of(blocks(1, 4, values=10), "fsdp")
    check(plan)
    assert sent_bytes(plan).tolist() == [3 * 3 * (2 + 2 + 4)] * 4


def test_units_are_blocks_and_the_root_has_the_rest() -> None:
    llama, resnet, vgg = (units_of(model(name)) for name in ("llama3-8b", "resnet50-torchvision", "vgg16"))
    assert [unit.name for unit in llama] == ["root", *(f"block{number}" for number in range(32))]
    names = {model("llama3-8b").layers[layer].name for layer in llama[0].layers}
    assert names == {"embeddings", "final_norm", "lm_head"}
    assert len(resnet) == 1 + 16
    assert [unit.name for unit in vgg] == ["root"]
    for units, name in ((llama, "llama3-8b"), (resnet, "resnet50-torchvision"), (vgg, "vgg16")):
        assert sum(unit.values for unit in units) == model(name).parameters


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_prefetching_hides_all_gathers_but_the_first(workers: int, prefetch: int) -> None:
    """4 blocks of 10 and 20 ms; shards of 720 and 1440 kB / N take less than a pass. Without prefetch, the forward
    pass waits for each gather, and so does the backward pass. The last reduction follows the last pass."""
    plan = plan_of(blocks(4, workers), "fsdp", {"prefetch": prefetch})
    step_s = BLOCK_VALUES / workers / GOODPUT_BYTES_PER_S * (workers - 1)
    gather_s, reduce_s = 2 * step_s, 4 * step_s
    assert gather_s < FORWARD_S / 2
    waits = 1 if prefetch else 8
    expected_s = 4 * 3 * FORWARD_S + waits * gather_s + reduce_s
    assert critical_path_s(plan, FABRIC) == pytest.approx(expected_s, rel=1e-6)


def test_at_the_turn_the_last_block_is_gathered_behind_its_own_forward_pass() -> None:
    """With one block and a prefetch, its second gather goes while its forward pass computes: it needs no other block
    to hide behind."""
    plan = plan_of(blocks(1, 2), "fsdp")
    step_s = BLOCK_VALUES / 2 / GOODPUT_BYTES_PER_S
    assert critical_path_s(plan, FABRIC) == pytest.approx(3 * FORWARD_S + 2 * step_s + 4 * step_s, rel=1e-6)


def test_a_worker_alone_sends_nothing() -> None:
    plan = plan_of(blocks(2, 1, root_values=7), "fsdp")
    check(plan)
    assert not (plan.ops.kind == OpKind.SEND).any()


@pytest.mark.parametrize("prefetch", [0, 1, 5])
@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize(("workers", "per_host"), [(2, 1), (3, 1), (4, 2)])
def test_plans_are_accepted_and_replay_to_their_end(prefetch: int, reshard: bool, workers: int, per_host: int) -> None:
    profile = blocks(3, 1, root_values=50, values=77).profile
    job = job_of(profile, Cluster(workers, workers_per_host=per_host))
    plan = plan_of(job, "fsdp", {"prefetch": prefetch, "reshard_after_forward": reshard})
    check(plan)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)


def test_a_pass_that_does_not_wait_for_its_parameters_is_refused() -> None:
    """Of the forward and of the backward pass: what was gathered for the one is gone in the other."""
    plan = plan_of(blocks(2, 3, root_values=9, values=9), "fsdp")
    ops = plan.ops
    computing = set(np.unique(plan.needs[:, 0]).tolist())
    waits = [dep for dep in dependencies(plan) if dep[0] in computing and ops.lane[dep[1]] != 0]
    assert len(waits) == 3 * (3 + 2)
    for dep in waits:
        with pytest.raises(PlanError, match="needs chunk"):
            check(with_dependencies(plan, [kept for kept in dependencies(plan) if kept != dep]))


def test_every_message_is_needed() -> None:
    plan = plan_of(blocks(2, 2, root_values=9, values=9), "fsdp")
    for op in np.flatnonzero(plan.ops.kind == OpKind.SEND).tolist():
        with pytest.raises(PlanError):
            check(without_op(plan, op))


def test_a_model_without_blocks_is_one_unit() -> None:
    job = job_of(profile_of([(LayerKind.FC, [8]), (LayerKind.FC, [4])]), Cluster(2))
    plan = plan_of(job, "fsdp")
    assert collectives(plan) == {Combine.COPY: 1, Combine.ADD: 1}


def hybrid(workers: int, shard: int, **options: Any) -> Plan:
    return plan_of(blocks(3, workers, values=12_000), "fsdp", {"shard": shard, **options})


@pytest.mark.parametrize(("workers", "shard"), [(4, 2), (8, 2), (8, 4), (6, 3), (6, 2), (4, 1), (4, 4)])
def test_groups_gather_their_own_and_sum_their_shards_with_the_others(workers: int, shard: int) -> None:
    """Zhao et al. 2023, section 3.2: of P values, S of W workers exchange (S - 1) / S in both passes' gathers and the
    reduce-scatter, and the W / S replicas sum P / S by an allreduce."""
    plan = hybrid(workers, shard)
    check(plan)
    values, replicas = 3 * 12_000, workers // shard
    inside = (shard - 1) * values // shard
    among = 2 * (replicas - 1) * values // shard // replicas
    assert sent_bytes(plan).tolist() == [2 * 2 * inside + 4 * inside + 4 * among] * workers


def test_a_group_of_all_workers_is_the_plan_without_groups() -> None:
    assert hybrid(4, 4).digest() == plan_of(blocks(3, 4, values=12_000), "fsdp").digest()


def test_neighbours_share_and_a_machine_may_hold_a_whole_model() -> None:
    """As with PyTorch's mesh (replicate, shard). Only the allreduces leave the machines then."""
    job = replace(blocks(3, 8, values=12_000), cluster=Cluster(8, workers_per_host=4))
    plan = plan_of(job, "fsdp", {"shard": 4})
    check(plan)
    among = 2 * 4 * 3 * 12_000 // 4 // 2  # of a worker; two halves of a shard, once around a ring of two
    assert sent_bytes(plan).tolist() == [4 * among] * 2
    owners = {tuple(plan.set_ranks(number).tolist()) for number in np.unique(plan.chunk_receivers)}
    groups = {(0, 1, 2, 3), (4, 5, 6, 7)}
    assert owners == groups | {(part, part + 4) for part in range(4)}


def test_gradients_need_everybodys_contribution_and_parameters_their_groups_owners() -> None:
    plan = hybrid(4, 2)
    reduced = np.unique(plan.ops.chunk[plan.ops.combine == Combine.ADD])
    assert set(plan.chunk_contributors[reduced].tolist()) == {-1}
    gathered = np.setdiff1d(np.arange(len(plan.chunk_bytes)), reduced)
    assert {tuple(plan.set_ranks(one).tolist()) for one in plan.chunk_contributors[gathered]} == {
        (0,),
        (1,),
        (2,),
        (3,),
    }
    assert {tuple(plan.set_ranks(one).tolist()) for one in plan.chunk_receivers[gathered]} == {(0, 1), (2, 3)}


def test_the_allreduce_of_a_shard_hides_behind_the_backward_pass_beside_the_next_reduce_scatter() -> None:
    """But for the last one: of 4 blocks of 10 and 20 ms, the first gather, the last reduce-scatter and the last
    allreduce show. The pieces of a reduce-scatter go side by side on a critical path, which knows no queues."""
    plan = plan_of(blocks(4, 4), "fsdp", {"shard": 2})
    shard_s = BLOCK_VALUES / 2 / GOODPUT_BYTES_PER_S
    expected_s = 4 * 3 * FORWARD_S + 2 * shard_s + 4 * shard_s / 2 + 2 * 4 * shard_s / 2
    assert critical_path_s(plan, FABRIC) == pytest.approx(expected_s, rel=1e-6)


@pytest.mark.parametrize("shard", [1, 2])
def test_every_message_of_hybrid_sharding_is_needed(shard: int) -> None:
    plan = plan_of(blocks(2, 4, values=18), "fsdp", {"shard": shard})
    check(plan)
    for op in np.flatnonzero(plan.ops.kind == OpKind.SEND).tolist():
        with pytest.raises(PlanError):
            check(without_op(plan, op))


def test_an_allreduce_of_shards_that_does_not_wait_for_its_reduce_scatter_is_refused() -> None:
    plan = plan_of(blocks(1, 4, values=18), "fsdp", {"shard": 2})
    between = _between_collectives(plan)
    assert len(between) == 4
    for dep in between:
        with pytest.raises(PlanError):
            check(with_dependencies(plan, [kept for kept in dependencies(plan) if kept != dep]))


def _between_collectives(plan: Plan) -> list[tuple[int, int, int]]:
    """What an allreduce's beginning waits for: the reduce-scatter's end, by rank."""
    ops = plan.ops
    reducing = set(np.unique(ops.chunk[ops.combine == Combine.ADD]).tolist())
    sends = [op for op in np.flatnonzero(ops.kind == OpKind.SEND).tolist() if int(ops.chunk[op]) in reducing]
    begins = {on for op, on, _ in dependencies(plan) if op in sends and ops.kind[on] == OpKind.COMPUTE}
    gates = (ops.kind == OpKind.COMPUTE) & (ops.lane == 3)
    return [dep for dep in dependencies(plan) if dep[0] in begins and gates[dep[1]]]


def test_groups_that_do_not_come_out_even_are_refused() -> None:
    with pytest.raises(InputFault, match=in_order("strategy.options.shard = 3:", "cluster.workers = 4")):
        hybrid(4, 3)


@pytest.mark.parametrize(("shard", "per_host"), [(None, 1), (None, 2), (4, 1), (4, 2), (2, 2)])
@pytest.mark.parametrize("algorithm", ["halving-doubling", "two-level", "direct"])
def test_other_algorithms_move_as_many_bytes(algorithm: str, shard: int | None, per_host: int) -> None:
    job = blocks(3, 8, root_values=1000)
    job = replace(job, cluster=replace(job.cluster, workers_per_host=per_host))
    plan, ring = (plan_of(job, "fsdp", {"shard": shard, "algorithm": run}) for run in (algorithm, "ring"))
    check(plan)
    sent, by_ring = (int(run.ops.size_bytes[run.ops.kind == OpKind.SEND].sum()) for run in (plan, ring))
    assert sent == by_ring
    assert plan.digest() != ring.digest()


def test_an_algorithm_that_does_not_suit_the_workers_is_refused() -> None:
    with pytest.raises(
        InputFault, match=in_order("algorithm = 'recursive-doubling':", "all-gather", "6", "power of two")
    ):
        plan_of(blocks(1, 6), "fsdp", {"algorithm": "halving-doubling"})


@pytest.mark.parametrize("shard", [None, 2])
@pytest.mark.parametrize("microbatches", [2, 4])
def test_each_microbatch_moves_what_a_whole_batch_moves(microbatches: int, shard: int | None) -> None:
    job = replace(blocks(3, 4, root_values=40), batch=4)
    whole, parts = (plan_of(job, "fsdp", {"shard": shard, "microbatches": each}) for each in (1, microbatches))
    check(parts)
    assert sent_bytes(parts).tolist() == [microbatches * size for size in sent_bytes(whole).tolist()]
    assert computed_s(parts) == pytest.approx(computed_s(whole), rel=1e-6)
    assert len(replay(parts, 2).op) == 2 * len(parts.ops)


def test_gathers_of_the_next_microbatch_hide_behind_the_one_before() -> None:
    """Of two microbatches of 4 blocks, which take half of 10 and 20 ms each, the first gather and the last reduction show."""
    plan = plan_of(replace(blocks(4, 2), batch=2), "fsdp", {"microbatches": 2})
    step_s = BLOCK_VALUES / 2 / GOODPUT_BYTES_PER_S
    assert critical_path_s(plan, FABRIC) == pytest.approx(4 * 3 * FORWARD_S + 2 * step_s + 4 * step_s, rel=1e-6)


def test_every_message_of_a_microbatch_is_needed() -> None:
    plan = plan_of(replace(blocks(1, 2, root_values=9, values=9), batch=2), "fsdp", {"microbatches": 2})
    for op in np.flatnonzero(plan.ops.kind == OpKind.SEND).tolist():
        with pytest.raises(PlanError):
            check(without_op(plan, op))


def test_microbatches_that_do_not_come_out_even_are_refused() -> None:
    with pytest.raises(InputFault, match=in_order("strategy.options.microbatches = 3:", "model.batch = 4")):
        plan_of(replace(blocks(1, 2), batch=4), "fsdp", {"microbatches": 3})


def test_computing_activations_again_takes_the_blocks_forward_pass_and_no_bytes() -> None:
    job = blocks(3, 2, root_values=40)
    kept, again = (plan_of(job, "fsdp", {"recompute": each}) for each in ("none", "full"))
    assert computed_s(again) == pytest.approx(computed_s(kept) + 3 * FORWARD_S, rel=1e-6)
    assert again.compute_s == pytest.approx(kept.compute_s + 3 * FORWARD_S, rel=1e-6)
    assert sent_bytes(again).tolist() == sent_bytes(kept).tolist()


def computed_s(plan: Plan) -> float:
    """Seconds that a worker computes."""
    own = (plan.ops.kind == OpKind.COMPUTE) & (plan.ops.rank == plan.workers[0])
    return float(plan.ops.duration_ns[own].sum()) / 1e9
