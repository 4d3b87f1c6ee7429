"""Models from the `config.json` of Hugging Face's transformers: the shape of a language model, read from a file,
without its weights.

Families and keys: https://huggingface.co/docs/transformers, configuration classes LlamaConfig, MistralConfig,
MixtralConfig, GPT2Config and DeepseekV3Config; defaults are theirs. Keys that change neither parameters nor operations
(rotary bases, dropout, token numbers) are ignored. So is a sliding window: attention counts as dense.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gradwire.faults import InputFault
from gradwire.scenario.explanations import explain, validated
from gradwire.scenario.sections.defined import name_defect
from gradwire.scenario.toml_documents import file_text
from gradwire.strict_json import parse_json
from gradwire.workloads.models.decoders import LAYER_NORM, Decoder, Experts, Latent, decoder_profile
from gradwire.workloads.models.profile import Profile

MOST_TOKENS = 8192
"""Largest number of tokens of a sample. Configurations print the longest context, up to 131072 tokens; Llama 3 was
trained on 8192 before its context was extended (The Llama 3 Herd of Models 2024, sections 3.4.1 and 3.4.2)."""
LARGEST = 10**9
"""Largest width, or count that makes nothing longer."""
MOST_EXPERTS = 40_000
"""Largest number of experts of all blocks together: DeepSeek-V3 has 14,848, and three tensors in each. As a model file,
50,000 would be more values than a file may have (scenario/limits.py)."""
MOST_BLOCKS = 2_000
"""Sixteen times those of Llama 3 405B."""


class Config(BaseModel, ABC):
    """The keys that configurations of every family have. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    vocab_size: int = Field(ge=1, le=LARGEST)
    """Words of the vocabulary."""

    @abstractmethod
    def decoder(self) -> Decoder:
        """The model's shape."""


class LlamaConfig(Config):
    """Llama and Mistral."""

    hidden_size: int = Field(ge=1, le=LARGEST)
    intermediate_size: int = Field(ge=1, le=LARGEST)
    num_hidden_layers: int = Field(ge=1, le=MOST_BLOCKS)
    num_attention_heads: int = Field(ge=1, le=LARGEST)
    num_key_value_heads: int | None = Field(None, ge=1, le=LARGEST)
    head_dim: int | None = Field(None, ge=1, le=LARGEST)
    max_position_embeddings: int = Field(2048, ge=1, le=LARGEST)
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.head_dim is None and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads = {self.num_attention_heads}: must divide hidden_size, {self.hidden_size}"
            )
        return self

    def decoder(self) -> Decoder:
        """Grouped-query attention and SwiGLU."""
        return Decoder(
            words=self.vocab_size,
            tokens=min(self.max_position_embeddings, MOST_TOKENS),
            width=self.hidden_size,
            blocks=self.num_hidden_layers,
            heads=self.num_attention_heads,
            ffn=self.intermediate_size,
            key_value_heads=self.num_key_value_heads or self.num_attention_heads,
            head_width=self.head_dim or self.hidden_size // self.num_attention_heads,
            attention_bias=self.attention_bias,
            ffn_bias=self.mlp_bias,
            tied=self.tie_word_embeddings,
            experts=self.experts(),
        )

    def experts(self) -> Experts | None:
        """None: the feed-forward part is dense."""
        return None


class MixtralConfig(LlamaConfig):
    """Mixtral: `intermediate_size` is that of each expert."""

    num_local_experts: int = Field(8, ge=1, le=LARGEST)
    num_experts_per_tok: int = Field(2, ge=1, le=LARGEST)

    def experts(self) -> Experts:
        """A mixture in every block."""
        return Experts(self.num_local_experts, self.num_experts_per_tok, self.intermediate_size)


class DeepSeekConfig(Config):
    """DeepSeek-V3, without the modules that predict further tokens."""

    hidden_size: int = Field(ge=1, le=LARGEST)
    intermediate_size: int = Field(ge=1, le=LARGEST)
    moe_intermediate_size: int = Field(ge=1, le=LARGEST)
    num_hidden_layers: int = Field(ge=1, le=MOST_BLOCKS)
    num_attention_heads: int = Field(ge=1, le=LARGEST)
    n_routed_experts: int = Field(ge=1, le=LARGEST)
    num_experts_per_tok: int = Field(ge=1, le=LARGEST)
    n_shared_experts: int = Field(0, ge=0, le=LARGEST)
    first_k_dense_replace: int = Field(0, ge=0, le=LARGEST)
    moe_layer_freq: Literal[1] = 1
    q_lora_rank: int = Field(ge=1, le=LARGEST)
    kv_lora_rank: int = Field(ge=1, le=LARGEST)
    qk_nope_head_dim: int = Field(ge=1, le=LARGEST)
    qk_rope_head_dim: int = Field(ge=1, le=LARGEST)
    v_head_dim: int = Field(ge=1, le=LARGEST)
    max_position_embeddings: int = Field(ge=1, le=LARGEST)
    tie_word_embeddings: bool = False

    def decoder(self) -> Decoder:
        """Latent attention, and experts in all blocks but the first."""
        return Decoder(
            words=self.vocab_size,
            tokens=min(self.max_position_embeddings, MOST_TOKENS),
            width=self.hidden_size,
            blocks=self.num_hidden_layers,
            heads=self.num_attention_heads,
            ffn=self.intermediate_size,
            key_value_heads=self.num_attention_heads,
            head_width=self.v_head_dim,
            tied=self.tie_word_embeddings,
            experts=Experts(
                self.n_routed_experts,
                self.num_experts_per_tok,
                self.moe_intermediate_size,
                self.n_shared_experts,
                self.first_k_dense_replace,
            ),
            latent=Latent(
                self.q_lora_rank,
                self.kv_lora_rank,
                self.qk_nope_head_dim,
                self.qk_rope_head_dim,
                self.v_head_dim,
            ),
        )


class Gpt2Config(Config):
    """GPT-2, and GPT-3 with dense attention."""

    n_embd: int = Field(ge=1, le=LARGEST)
    n_layer: int = Field(ge=1, le=MOST_BLOCKS)
    n_head: int = Field(ge=1, le=LARGEST)
    n_positions: int = Field(ge=1, le=LARGEST)
    n_inner: int | None = Field(None, ge=1, le=LARGEST)
    tie_word_embeddings: bool = True

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_head = {self.n_head}: must divide n_embd, {self.n_embd}")
        return self

    def decoder(self) -> Decoder:
        """Learned positions, layer normalisation, biases everywhere."""
        return Decoder(
            words=self.vocab_size,
            tokens=min(self.n_positions, MOST_TOKENS),
            width=self.n_embd,
            blocks=self.n_layer,
            heads=self.n_head,
            ffn=self.n_inner or 4 * self.n_embd,
            key_value_heads=self.n_head,
            head_width=self.n_embd // self.n_head,
            positions=self.n_positions,
            attention_bias=True,
            ffn_bias=True,
            fused_qkv=True,
            gated=False,
            norm=LAYER_NORM,
            tied=self.tie_word_embeddings,
        )


FAMILIES: Mapping[str, type[Config]] = {
    "llama": LlamaConfig,
    "mistral": LlamaConfig,
    "mixtral": MixtralConfig,
    "deepseek_v3": DeepSeekConfig,
    "gpt2": Gpt2Config,
}
"""Classes of configurations, by the key `model_type`."""


def hugging_face_profile(path: Path) -> Profile:
    """The model of a configuration file, one sequence a sample and one sample an iteration.

    It is called after the file, or after its folder where the file is called config.json. Raises InputFault with a line for each mistake.
    """
    content = _content(path)
    family = content.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputFault(f"{path}: model_type = {family!r}: must be one of {', '.join(FAMILIES)}")
    kind = FAMILIES[family]
    try:
        shape = validated(kind, content).decoder()
    except ValidationError as error:
        lines = [line for defect in error.errors() for line in explain(kind, defect, content)]
        raise InputFault("\n".join(f"{path}: {line}" for line in dict.fromkeys(lines))) from error
    if shape.experts is not None and shape.experts.count * shape.blocks > MOST_EXPERTS:
        raise InputFault(
            f"{path}: has {shape.experts.count:,} experts in each of {shape.blocks:,} blocks; must be at most {MOST_EXPERTS:,} in all"
        )
    source = f"{path.name} of Hugging Face's {family}, on sequences of {shape.tokens} tokens"
    return decoder_profile(_name(path), shape, 1, source)


def _content(path: Path) -> dict[str, Any]:
    text = file_text(path, "model", "JSON")
    try:
        content = parse_json(text)
    except ValueError as error:
        raise InputFault(f"{path}: not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputFault(f"{path}: must be a JSON object, as transformers' config.json is")
    return content


def _name(path: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", path.parent.name if path.name == "config.json" else path.stem)
    if defect := name_defect(name):
        raise InputFault(
            f"{path}: the model would be called '{name}' after the file, but a name {defect}; rename the file"
        )
    return name
