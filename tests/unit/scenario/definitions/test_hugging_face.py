"""Models from Hugging Face's config.json: their parameters, what is refused, and that a scenario can name one."""

from __future__ import annotations

import csv
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
from gradwire.workloads.models.family_table import FAMILIES
from gradwire.workloads.models.published_models import PUBLISHED
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


HERE = Path(__file__).parent
ROOT = HERE.parents[3]
PUBLIC: dict[str, Any] = json.loads((HERE / "public_configs.json").read_text())
"""Keys of public checkpoints' config.json that give their shapes, by the names of parameter_counts.csv."""
SMALL: dict[str, Any] = json.loads((HERE / "small_configs.json").read_text())
"""Small models of each family with its switches turned, and their parameters: those that transformers 5.24's own
classes have, made on PyTorch's meta device."""
with (HERE / "parameter_counts.csv").open(newline="") as counts:
    COUNTS = list(csv.DictReader(counts))
"""Parameters of public checkpoints, computed here, and published, as far as a count is known: all but about ten of these
were not read again in a checkpoint's files. What holds the numbers is transformers 5.24, whose own classes have the same
count for the same keys, where it has the family. `published_beside` of those published are not the model's that trains
here: of its vision part, of its routers' correction biases, which have no gradient, or of a module that predicts a further token."""


@pytest.mark.parametrize("row", COUNTS, ids=[row["example"] for row in COUNTS])
def test_the_parameters_are_those_of_the_public_checkpoint(row: dict[str, str], tmp_path: Path) -> None:
    """To the last one; where the published number is rounded, it is in a note, and the exact one is transformers'."""
    name = row["example"]
    profile = hugging_face_profile(written(tmp_path, PUBLIC[name])) if name in PUBLIC else model(name)
    assert profile.parameters == int(row["parameters"])
    if row["published"]:
        assert int(row["published"]) == profile.parameters + int(row["published_beside"] or 0)


@pytest.mark.parametrize("name", SMALL)
def test_every_switch_of_a_family_gives_the_parameters_of_transformers(name: str, tmp_path: Path) -> None:
    assert hugging_face_profile(written(tmp_path, SMALL[name]["config"])).parameters == SMALL[name]["parameters"]


def test_every_family_has_a_case() -> None:
    of_public = {row["model_type"] for row in COUNTS}
    assert of_public | {case["config"]["model_type"] for case in SMALL.values()} == set(FAMILIES)


def test_the_page_has_the_same_counts() -> None:
    """One example of each family, in the table of docs/adding-a-model.md."""
    page = (ROOT / "docs" / "adding-a-model.md").read_text()
    cells = [
        tuple(cell.strip() for cell in line.split("|")[1:5]) for line in page.splitlines() if line.startswith("| `")
    ]
    known = {(row["model_type"], row["example"]): row for row in COUNTS}
    shown = {(cell[0].strip("`"), cell[1]): cell[2:] for cell in cells if cell[0].strip("`") in FAMILIES}
    assert {family for family, _ in shown} == {family for family, _ in known}
    for key, (computed, published) in shown.items():
        assert computed.replace(",", "") == known[key]["parameters"]
        assert published.replace(",", "").startswith(known[key]["published"] or known[key]["note"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_catalogue_says_nothing_that_a_file_may_not(name: str, tmp_path: Path) -> None:
    """Each row's keys, as a config.json, are understood."""
    row = PUBLISHED[name]
    config = {"model_type": row["model_type"], **row["config"]}
    assert hugging_face_profile(written(tmp_path, config)).parameters == model(name).parameters


def test_of_a_model_that_sees_the_language_part_is_taken_and_told(tmp_path: Path) -> None:
    """Gemma 3's text_config has only what differs from the defaults of its class."""
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "model_type": "gemma3_text"}
    config = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "mm_tokens_per_image": 256,
        "text_config": text,
        "vision_config": {"hidden_size": 1152},
    }
    profile = hugging_face_profile(written(tmp_path, config))
    assert profile.parameters == 3_880_263_168  # of 4,300,079,472 in Gemma 3 4B's safetensors
    assert tells(profile.source, "gemma3", "language part")


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
            LLAMA | {"model_type": "mamba"},
            "model_type = 'mamba': must be one of albert,",
        ),
        ({}, "model_type = None: must be one of"),
        ([], "must be a JSON object"),
        ({key: LLAMA[key] for key in LLAMA if key != "hidden_size"}, "hidden_size: missing"),
        (LLAMA | {"hidden_size": "4096"}, "hidden_size = '4096': must be a whole number"),
        (LLAMA | {"hidden_size": 4097}, "num_attention_heads = 32: must divide hidden_size, 4097"),
        (LLAMA | {"num_hidden_layers": 0}, "num_hidden_layers = 0: must be"),
        (GPT2_XL | {"n_head": 24}, "n_head = 24: must divide n_embd, 1600"),
        (DEEPSEEK | {"moe_layer_freq": 2}, "moe_layer_freq = 2"),
        (DEEPSEEK | {"kv_lora_rank": None}, "kv_lora_rank = None: must be"),
        (DEEPSEEK | {"num_experts_per_tok": None}, "num_experts_per_tok: missing"),
        (LLAMA | {"num_key_value_heads": 5}, "num_key_value_heads = 5: must divide the 32 heads"),
        (PUBLIC["vit-base-patch16-224"] | {"image_size": 8}, "patch_size = 16: must be at most image_size, 8"),
        (LLAMA | {"num_local_experts": 8}, "num_local_experts = 8: is not known of model_type = 'llama'"),
        (LLAMA | {"layer_types": ["linear_attention"]}, "layer_types.0 = 'linear_attention': must be"),
        (
            LLAMA | {"architectures": ["LlamaForTokenClassification"]},
            "architectures = ['LlamaForTokenClassification']:",
        ),
        ({"model_type": "gemma3", "text_config": {"model_type": "x"}}, "text_config.model_type = 'x': must be one of"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(config: Any, complaint: str, tmp_path: Path) -> None:
    path = written(tmp_path, config)
    with pytest.raises(InputFault) as told:
        hugging_face_profile(path)
    assert str(told.value).startswith(f"{path}: ")
    assert complaint in str(told.value)


def test_what_changes_neither_parameters_nor_operations_is_ignored(tmp_path: Path) -> None:
    """Also a key that nobody knows, where it says that there is nothing of what it names."""
    ignored = {"eos_token_id": [1, 2], "attention_dropout": 0.1, "rope_scaling": {"factor": 8.0}, "_commit_hash": "a"}
    plain, more = (
        hugging_face_profile(written(tmp_path, config))
        for config in (LLAMA, LLAMA | ignored | {"quantization_config": {"bits": 4}, "unheard_of": None})
    )
    assert plain.layers == more.layers


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


def test_a_folder_may_be_called_as_a_model_of_gradwires(tmp_path: Path) -> None:
    """Who clones a public repository has not chosen its name."""
    folder = tmp_path / "llama3-8b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA | {"num_hidden_layers": 2}))
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        'title = "t"\ncluster.workers = 2\nfabric.rate = "10gbit"\nstrategy.name = "ring"\n'
        'model = { name = "./llama3-8b/config.json", device = "a100" }\n'
    )
    (point,) = load_scenario(scenario).points
    assert point.section.model.name == "llama3-8b-config"
    assert point.resolved.job.profile.parameters < 2_000_000_000
