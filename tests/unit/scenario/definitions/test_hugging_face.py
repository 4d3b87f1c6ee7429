"""Models from Hugging Face's config.json: their parameters, what is refused, and that a scenario can name one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.definitions.conversion import catalogue_of
from gradwire.scenario.definitions.hugging_face import hugging_face_profile
from gradwire.scenario.loading import load_scenario
from gradwire.workloads.models import model
from tests.shared.parts import in_order, tells

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
}
LLAMA_1B = LLAMA | {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "head_dim": 64,
    "tie_word_embeddings": True,
}
MISTRAL = LLAMA | {"model_type": "mistral", "vocab_size": 32000, "sliding_window": 4096}
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 4096,
}
GPT2_XL: dict[str, Any] = {
    "model_type": "gpt2",
    "vocab_size": 50257,
    "n_embd": 1600,
    "n_head": 25,
    "n_layer": 48,
    "n_positions": 1024,
}


def written(folder: Path, config: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLAMA, 8_030_261_248),
        (LLAMA_1B, 1_235_814_400),  # Llama 3.2 1B
        (MISTRAL, 7_241_732_096),  # Mistral 7B
        (GPT2_XL, 1_557_611_200),
    ],
)
def test_the_parameters_are_those_of_the_public_checkpoint(
    config: dict[str, Any], parameters: int, tmp_path: Path
) -> None:
    assert hugging_face_profile(written(tmp_path, config)).parameters == parameters


@pytest.mark.parametrize(
    ("config", "name"), [(LLAMA, "llama3-8b"), (MIXTRAL, "mixtral-8x7b"), (DEEPSEEK, "deepseek-v3")]
)
def test_a_configuration_is_the_model_that_gradwire_has(config: dict[str, Any], name: str, tmp_path: Path) -> None:
    assert hugging_face_profile(written(tmp_path, config)).layers == model(name).layers


def test_a_context_that_is_shorter_than_a_samples_tokens_decides_them(tmp_path: Path) -> None:
    longest, short = (
        hugging_face_profile(written(tmp_path, LLAMA | {"max_position_embeddings": tokens})) for tokens in (8192, 1024)
    )
    assert "8192 tokens" in longest.source
    head = [profile.layers[-1].flops for profile in (longest, short)]
    assert head[0] == 8 * head[1]


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (
            LLAMA | {"model_type": "bert"},
            "model_type = 'bert': must be one of llama, mistral, mixtral, deepseek_v3, gpt2",
        ),
        ({}, "model_type = None: must be one of"),
        ([], "must be a JSON object"),
        ({key: LLAMA[key] for key in LLAMA if key != "hidden_size"}, "hidden_size: missing"),
        (LLAMA | {"hidden_size": "4096"}, "hidden_size = '4096': must be a whole number"),
        (LLAMA | {"hidden_size": 4097}, "num_attention_heads = 32: must divide hidden_size, 4097"),
        (LLAMA | {"num_hidden_layers": 0}, "num_hidden_layers = 0: must be"),
        (GPT2_XL | {"n_head": 24}, "n_head = 24: must divide n_embd, 1600"),
        (DEEPSEEK | {"moe_layer_freq": 2}, "moe_layer_freq = 2"),
        (DEEPSEEK | {"q_lora_rank": None}, "q_lora_rank = None: must be"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(config: Any, complaint: str, tmp_path: Path) -> None:
    path = written(tmp_path, config)
    with pytest.raises(InputFault) as told:
        hugging_face_profile(path)
    assert str(told.value).startswith(f"{path}: ")
    assert complaint in str(told.value)


def test_a_file_that_is_no_json_is_told(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(InputFault, match=in_order("config.json:", "JSON")):
        hugging_face_profile(path)
    with pytest.raises(InputFault, match=r"none/config\.json: no such"):
        hugging_face_profile(tmp_path / "none" / "config.json")


def test_a_scenario_names_one_and_keeps_what_it_said(tmp_path: Path) -> None:
    """The model is called after the folder of its config.json, and stands whole in the resolved scenario."""
    folder = tmp_path / "Llama-3.1-8B"
    folder.mkdir()
    written(folder, LLAMA)
    scenario = tmp_path / "one.toml"
    scenario.write_text(
        """\
title = "A model of Hugging Face's"
[cluster]
workers = 2
[fabric]
rate = "100gbit"
[model]
name = "Llama-3.1-8B/config.json"
device = "h100"
[strategy]
name = "ddp"
"""
    )
    (point,) = load_scenario(scenario).points
    assert point.section.model.name == "Llama-3.1-8B"
    profile = catalogue_of(point.section.defined).model("Llama-3.1-8B")
    assert profile == replace(hugging_face_profile(folder / "config.json"), source=profile.source, name="Llama-3.1-8B")
    assert tells(profile.source, "llama", "8192 tokens")
