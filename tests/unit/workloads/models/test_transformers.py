"""Transformers from their shapes: parameters of the public checkpoints, and operations by the papers' closed
forms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.workloads.divisions.memory import kept_bytes
from gradwire.workloads.engines.parallel.segments import cut
from gradwire.workloads.models import model
from gradwire.workloads.models.device_facts import DEVICES
from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.published_models import TRANSFORMERS, published_shape
from gradwire.workloads.models.transformer_layers import transformer_profile
from gradwire.workloads.models.transformer_shapes import Transformer


def shape_of(name: str) -> Transformer:
    shape = published_shape(name)
    assert shape is not None
    return shape


def scores_flops(profile: Profile) -> float:
    """Operations of attention's scores and weighted sums, which no parameter stands for."""
    return sum(layer.flops for layer in profile.layers if layer.name.endswith("/attend"))


@pytest.mark.parametrize(
    ("name", "parameters", "tensors"),
    [
        ("llama3-8b", 8_030_261_248, 291),
        ("llama3-70b", 70_553_706_496, 723),
        ("llama3-405b", 405_853_388_800, 1137),
        ("mixtral-8x7b", 46_702_792_704, 995),
    ],
)
def test_public_checkpoints_to_the_parameter_and_the_tensor(name: str, parameters: int, tensors: int) -> None:
    """As the index files of the published weights count them."""
    assert (model(name).parameters, len(model(name).tensors)) == (parameters, tensors)


def test_gpt3_has_the_parameters_of_table_d1() -> None:
    """Brown et al. 2020, Table D.1: 174,600 million. Narayanan et al. 2021, equation 2, is an approximation: 12 l h^2
    (1 + 13 / 12h + (V + s) / 12 l h)."""
    profile, shape = model("gpt3-175b"), shape_of("gpt3-175b")
    assert profile.parameters / 1e6 == pytest.approx(174_600, abs=50)
    width, blocks, ends = shape.width, shape.blocks, shape.words + shape.tokens
    closed = 12 * blocks * width**2 * (1 + 13 / (12 * width) + ends / (12 * blocks * width))
    assert profile.parameters == pytest.approx(closed, rel=1e-6)


def test_a_training_step_of_gpt3_has_the_operations_of_megatrons_formula() -> None:
    """Korthikanti et al. 2022, equation 7: 72 B l s h^2 (1 + s / 6h + V / 12 h l), whose products are all but
    normalisations and sums."""
    profile, shape = model("gpt3-175b"), shape_of("gpt3-175b")
    width, blocks, tokens = shape.width, shape.blocks, shape.tokens
    closed = 72 * blocks * tokens * width**2 * (1 + tokens / (6 * width) + shape.words / (12 * width * blocks))
    assert 3 * profile.flops == pytest.approx(closed, rel=1e-4)


def test_llama_405b_was_trained_with_the_operations_that_its_paper_prints() -> None:
    """The Llama 3 Herd of Models, section 1: 3.8e25 operations for 15.6 T tokens, by 6 N D."""
    profile = model("llama3-405b")
    assert 6 * profile.parameters * 15.6e12 == pytest.approx(3.8e25, rel=0.005)
    products = profile.flops - scores_flops(profile)
    assert 3 * products / shape_of("llama3-405b").tokens * 15.6e12 == pytest.approx(3.8e25, rel=0.01)


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("mixtral-8x7b", 13e9),
        ("deepseek-v3", 37e9),
        ("kimi-k2", 32.6e9),
        ("qwen3-235b-a22b", 22e9),
        ("gpt-oss-120b", 5.13e9),
        ("llama4-maverick", 17e9),
        ("glm-4.5", 32e9),
        ("deepseek-v2", 21e9),
    ],
)
def test_a_token_costs_two_operations_for_each_parameter_that_it_uses(name: str, active: float) -> None:
    """Those that their papers and cards print; tables of words cost no operations."""
    profile = model(name)
    tables = sum(layer.parameters for layer in profile.layers if layer.kind is LayerKind.EMBEDDING)
    used = (profile.flops - scores_flops(profile)) / 2 / shape_of(name).tokens
    assert used == pytest.approx(active, rel=0.03) or used + tables == pytest.approx(active, rel=0.03)


def test_deepseek_v3_has_671_billion_parameters() -> None:
    """The public checkpoint has 671,026,419,200 without its further prediction module: ours, and a bias for each
    expert to balance them."""
    profile, shape = model("deepseek-v3"), shape_of("deepseek-v3")
    assert shape.experts is not None
    biases = shape.experts.count * (shape.blocks - shape.experts.dense_blocks)
    assert profile.parameters + biases == 671_026_419_200


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_layers_read_what_a_block_reads(name: str) -> None:
    """Every layer but the last is read, and nothing but an embedding, or an image's patches, reads the samples."""
    profile = model(name)
    read = {number for layer in profile.layers for number in layer.inputs}
    assert read == set(range(len(profile.layers) - 1))
    first = {layer.name for layer in profile.layers if not layer.inputs}
    assert first <= {"embeddings", "decoder/embeddings", "positions", "patches"}


def test_experts_of_one_tensor_are_divided_and_kept_as_those_of_a_tensor_each() -> None:
    shape = shape_of("mixtral-8x7b")
    assert shape.experts is not None
    fused = replace(shape, experts=replace(shape.experts, fused=True))
    each, one = (transformer_profile("m", made, 1, "") for made in (shape, fused))
    assert (each.parameters, each.flops) == (one.parameters, one.flops)
    assert len(each.tensors) - len(one.tensors) == shape.blocks * (3 * shape.experts.count - 2)
    kept = [sum(kept_bytes(layer, shape.tokens) for layer in profile.layers) for profile in (each, one)]
    assert kept[0] == pytest.approx(kept[1])
    assert cut(each, 1, 8).stages == cut(one, 1, 8).stages


def test_parallel_halves_of_a_block_are_one_segment() -> None:
    """GPT-J's attention and feed-forward products are summed at once."""
    ((before, *segments),) = cut(model("gptj-6b"), 1).stages
    assert before.name == "embeddings"
    assert [segment.name for segment in segments[:-1]] == [f"block{number}/both" for number in range(28)]


def test_links_inside_a_machine_double_with_every_other_generation() -> None:
    """Data sheets print both directions together: NVLink 2, 3, 4 and 5 with 300, 600, 900 and 1800 GB/s."""
    both = {name: 2 * (DEVICES[name].link_bytes_per_s or 0) / 1e9 for name in ("v100", "a100", "h100", "h200", "b200")}
    assert both == {"v100": 300, "a100": 600, "h100": 900, "h200": 900, "b200": 1800}
