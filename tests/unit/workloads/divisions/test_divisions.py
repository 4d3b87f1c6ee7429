"""Ways to divide a model: which there are, their memory by published formulas, and the chain through a schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.divisions.choices import (
    BLOCKS,
    HEADS,
    MACHINES,
    PASSES,
    SAMPLES,
    DivisionChoice,
    DivisionRequest,
    ModelShape,
    choices,
    end_blocks,
)
from gradwire.workloads.divisions.least_time import busiest_s, least_time, stage_times
from gradwire.workloads.divisions.memory import in_flight, kept_bytes, memory_of, sizes_of
from gradwire.workloads.engines.parallel.division import Division, passes_of_stage
from gradwire.workloads.engines.parallel.segments import cut
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import compute_time
from gradwire.workloads.models.resized import sample_tokens, with_tokens
from tests.shared.parts import in_order

ONE = DivisionChoice(data=8, tensor=8, pipeline=4, chunks=1, samples=1, microbatches=8, recompute="none")


def test_products_are_all_looked_at_and_those_left_out_are_counted() -> None:
    shape = ModelShape(blocks=5, heads=32, key_value_heads=8, widths=frozenset({4096}))
    found, left_out = choices(DivisionRequest(64, 8, 48, shape))
    assert all(each.data * each.tensor * each.pipeline == 64 for each in found)
    assert all(each.data * each.microbatches * each.samples == 48 for each in found)
    products = {(each.data, each.tensor, each.pipeline) for each in found}
    # 64 = 2^6 has 28 products of three.
    assert len(products) + sum(left_out.values()) == 28
    assert set(left_out) == {HEADS, SAMPLES, MACHINES, BLOCKS}
    assert all(each.microbatches % each.pipeline == 0 for each in found if each.chunks > 1)


def test_schedules_that_take_hours_to_follow_are_left_out() -> None:
    shape = ModelShape(32, 0, 0, frozenset({4096}))
    found, left_out = choices(DivisionRequest(64, 8, 10**15, shape))
    assert not found
    assert left_out[PASSES] > 0
    with pytest.raises(InputFault, match=in_order("microbatches = 100000:", "stages = 64", "12,800,000 passes")):
        Division(
            tensor=1,
            stages=64,
            microbatches=100_000,
            replica_batch=None,
            schedule="1f1b",
            activation_bytes=2,
            gradient_bytes=4,
        )


def test_heads_are_whole_and_widths_are_where_heads_are_unknown() -> None:
    known = ModelShape.of(model("llama3-405b"))
    assert (known.blocks, known.heads, known.key_value_heads) == (126, 128, 8)
    assert [tensor for tensor in range(1, 20) if known.divides_into(tensor)] == [1, 2, 4, 8, 16]
    assert not replace(known, heads=0).divides_into(3)
    assert replace(known, heads=0).divides_into(4)


@pytest.mark.parametrize(
    ("pieces", "ends"),
    [(14, (None, None)), (16, (7, 7)), (128, (0, 0)), (1, (None, None)), (127, (None, 0)), (24, None), (25, None)],
)
def test_ends_have_a_block_less_where_blocks_do_not_divide(
    pieces: int, ends: tuple[int | None, int | None] | None
) -> None:
    assert end_blocks(126, pieces) == ends


def test_the_last_piece_has_what_is_left() -> None:
    assert end_blocks(61, 16) == (None, 1)
    assert end_blocks(30, 8) == (3, 3)


def test_tokens_and_experts_are_divided_among_those_with_the_same_parameters() -> None:
    shape = ModelShape.of(model("mixtral-8x7b"))
    assert (shape.experts, shape.divides_tokens) == (8, True)
    found, _ = choices(DivisionRequest(128, 8, 64, shape, 65_536))
    assert all(each.data * each.context * each.tensor * each.pipeline == 128 for each in found)
    assert all(each.context == 1 or each.experts == 1 for each in found)
    assert {each.context for each in found} == {1, 2, 4, 8, 16}
    assert {each.experts for each in found} == {1, 2, 4, 8}
    assert all(each.holders % each.experts == 0 for each in found)
    # Latent attention has no keys and values to hand on.
    assert not ModelShape.of(model("deepseek-v3")).divides_tokens
    assert ModelShape.of(model("deepseek-v3")).experts == 256


def test_contexts_divide_activations_and_experts_their_states() -> None:
    profile = model("mixtral-8x7b")
    plain, alike = (
        memory_of(each, sizes_of(profile, cut(profile, 4).stages, 4096), 4096)
        for each in (ONE, replace(ONE, context=2, data=4))
    )
    assert alike.activations_bytes == pytest.approx(plain.activations_bytes / 2)
    assert alike.states_bytes == pytest.approx(plain.states_bytes)
    pieces = cut(profile, 4, 8).stages
    by_expert = memory_of(replace(ONE, experts=8), sizes_of(profile, pieces, 4096), 4096)
    experts = sum(segment.values for segment in pieces[0] if segment.routed_values)
    others = sum(segment.values for segment in pieces[0]) - experts
    assert by_expert.states_bytes == pytest.approx(others / 8 * (6 + 12 / 8) + experts / 8 / 8 * (6 + 12))


def test_a_block_of_gpt_keeps_34_s_b_h_bytes_but_for_the_masks_of_dropout() -> None:
    profile = model("gpt3-175b")
    block = [layer for layer in profile.layers if layer.name.startswith("block5/")]
    assert sum(kept_bytes(layer, 2048) for layer in block) == 32 * 12288


def test_stages_keep_as_many_microbatches_as_stages_are_behind_them() -> None:
    assert [int(in_flight(4, stage, 8, 1).max()) for stage in range(4)] == [4, 3, 2, 1]
    # Korthikanti et al. 2022, section 4.2: interleaved, L (1 + (p - 1) / (p m)) layers, of which each chunk has L / (p m).
    assert int(in_flight(4, 0, 16, 2).sum(axis=1).max()) == 4 * 2 + 4 - 1


def test_memory_is_states_and_activations() -> None:
    profile = model("llama3-8b")
    pieces = cut(profile, 4).stages
    plain, again = (
        memory_of(replace(ONE, recompute=kind), sizes_of(profile, pieces, 8192), 8192) for kind in ("none", "full")
    )
    assert again.total_bytes < plain.total_bytes
    assert again.states_bytes == pytest.approx(plain.states_bytes, rel=1e-5)
    values = sum(segment.values for segment in pieces[0])
    assert plain.states_bytes == pytest.approx(values / 8 * (6 + 12 / 8))
    assert plain.activations_bytes == pytest.approx(
        4 * 8192 / 8 * sum(kept_bytes(profile.layers[layer], 8192) for each in pieces[0] for layer in each.layers)
    )


def test_a_pipeline_idles_for_one_less_than_its_stages_of_its_microbatches() -> None:
    order = [passes_of_stage("1f1b", 4, stage, 8) for stage in range(4)]
    assert stage_times(order, [1.0] * 4, [2.0] * 4, 0.0)[0].end_s == (8 + 3) * 3
    chunks = [passes_of_stage("1f1b", 4, stage, 8, 2) for stage in range(4)]
    assert stage_times(chunks, [0.5] * 8, [1.0] * 8, 0.0)[0].end_s == 8 * 3 + 3 * 3 / 2


def test_bounds_grow_as_they_get_better_and_as_the_network_gets_slower() -> None:
    profile = model("llama3-8b")
    job = Job(
        profile,
        compute_time(profile, "h100"),
        Cluster(256, workers_per_host=8),
        1,
        costs=Costs(local_bytes_per_s=450e9),
    )
    pieces = cut(profile, 4)
    fast, slow = (least_time(job, ONE, pieces, rate) for rate in (50e9, 5e9))
    assert busiest_s(job, ONE, pieces, 50e9) < fast.iteration_s < slow.iteration_s
    assert fast.compute_s < fast.compute_and_bubble_s == slow.compute_and_bubble_s < fast.iteration_s


def test_longer_samples_cost_more_for_scores_than_for_products() -> None:
    profile = model("llama3-8b")
    assert sample_tokens(profile) == 8192
    longer = with_tokens(profile, 16384)
    assert sample_tokens(longer) == 16384
    assert 2 * profile.flops < longer.flops < 4 * profile.flops
    assert with_tokens(profile, 8192) is profile
