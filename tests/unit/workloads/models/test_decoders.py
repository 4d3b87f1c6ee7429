"""Language models from their shapes: parameters of the public checkpoints, and operations by the papers' closed
forms."""

from __future__ import annotations

import pytest

from gradwire.workloads.models import model
from gradwire.workloads.models.decoders import (
    DEEPSEEK_V3,
    GPT3_175B,
    LANGUAGE_MODELS,
    LLAMA3_405B,
    MIXTRAL_8X7B,
)
from gradwire.workloads.models.device_facts import DEVICES
from gradwire.workloads.models.profile import Profile


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
    profile, shape = model("gpt3-175b"), GPT3_175B
    assert profile.parameters / 1e6 == pytest.approx(174_600, abs=50)
    width, blocks, ends = shape.width, shape.blocks, shape.words + shape.tokens
    closed = 12 * blocks * width**2 * (1 + 13 / (12 * width) + ends / (12 * blocks * width))
    assert profile.parameters == pytest.approx(closed, rel=1e-6)


def test_a_training_step_of_gpt3_has_the_operations_of_megatrons_formula() -> None:
    """Korthikanti et al. 2022, equation 7: 72 B l s h^2 (1 + s / 6h + V / 12 h l), whose products are all but
    normalisations and sums."""
    profile, shape = model("gpt3-175b"), GPT3_175B
    width, blocks, tokens = shape.width, shape.blocks, shape.tokens
    closed = 72 * blocks * tokens * width**2 * (1 + tokens / (6 * width) + shape.words / (12 * width * blocks))
    assert 3 * profile.flops == pytest.approx(closed, rel=1e-4)


def test_llama_405b_was_trained_with_the_operations_that_its_paper_prints() -> None:
    """The Llama 3 Herd of Models, section 1: 3.8e25 operations for 15.6 T tokens, by 6 N D."""
    profile = model("llama3-405b")
    assert 6 * profile.parameters * 15.6e12 == pytest.approx(3.8e25, rel=0.005)
    products = profile.flops - scores_flops(profile)
    assert 3 * products / LLAMA3_405B.tokens * 15.6e12 == pytest.approx(3.8e25, rel=0.01)


@pytest.mark.parametrize(
    ("name", "tokens", "active"),
    [("mixtral-8x7b", MIXTRAL_8X7B.tokens, 13e9), ("deepseek-v3", DEEPSEEK_V3.tokens, 37e9)],
)
def test_a_token_costs_two_operations_for_each_parameter_that_it_uses(name: str, tokens: int, active: float) -> None:
    """13 B of Mixtral (Jiang et al. 2024, section 1) and 37 B of DeepSeek-V3 (abstract); tables of words cost no
    operations."""
    profile = model(name)
    assert (profile.flops - scores_flops(profile)) / 2 / tokens == pytest.approx(active, rel=0.025)


def test_deepseek_v3_has_671_billion_parameters() -> None:
    """The public checkpoint has 671,026,419,200 without its further prediction module: ours, and a bias for each
    expert to balance them."""
    profile, experts = model("deepseek-v3"), DEEPSEEK_V3.experts
    assert experts is not None
    biases = experts.count * (DEEPSEEK_V3.blocks - experts.dense_blocks)
    assert profile.parameters + biases == 671_026_419_200


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_layers_read_what_a_block_reads(name: str) -> None:
    """Every layer but the last is read, and nothing but the embedding reads the samples."""
    profile = model(name)
    read = {number for layer in profile.layers for number in layer.inputs}
    assert read == set(range(len(profile.layers) - 1))
    assert [layer.name for layer in profile.layers if not layer.inputs] == ["embeddings"]


def test_links_inside_a_machine_double_with_every_other_generation() -> None:
    """Data sheets print both directions together: NVLink 2, 3, 4 and 5 with 300, 600, 900 and 1800 GB/s."""
    both = {name: 2 * (DEVICES[name].link_bytes_per_s or 0) / 1e9 for name in ("v100", "a100", "h100", "h200", "b200")}
    assert both == {"v100": 300, "a100": 600, "h100": 900, "h200": 900, "b200": 1800}
