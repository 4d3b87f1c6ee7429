"""The table of families of transformers, by the `model_type` of transformers' config.json: for each, the keys that give
a shape, and what all its models have.

Keys, their defaults and the tensors of each family: https://huggingface.co/docs/transformers, and for `kimi_k2`,
`minicpm`, `internlm`, `internlm2` and `baichuan` the code beside their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gradwire.faults import InputFault
from gradwire.workloads.models.config_keys import Key
from gradwire.workloads.models.families import Family
from gradwire.workloads.models.key_groups import (
    ATTENTION_BIAS,
    BERT,
    BLOOM,
    DEEPSEEK,
    DISTILBERT,
    FALCON,
    GPT2,
    GROUPED,
    IMAGES,
    INDEXER,
    LATENT,
    LAYERS,
    LLAMA,
    MT5,
    OF_DEEPSEEK,
    OF_MIXTRAL,
    OF_QWEN,
    OPT,
    QKV_BIAS,
    SIZES,
    T5,
    TIED,
    WIDE_HEADS,
    WORD_WIDTH,
)
from gradwire.workloads.models.transformer_shapes import (
    LAYER_NORM,
    PLAIN_NORM,
    RMS_NORM,
    Head,
    Norms,
    QueryKeyNorm,
)

_DECODER_HEADS = {"ForCausalLM": Head.LANGUAGE, "LMHeadModel": Head.LANGUAGE, "Model": Head.NONE}
_ENCODER_HEADS = {"ForMaskedLM": Head.MASKED, "Model": Head.NONE}


def _of_falcon(found: dict[str, Any]) -> None:
    """Falcon 7B has one normalisation and one head of keys; `new_decoder_architecture` (40B, 180B) one normalisation for each half, unless
    it says otherwise (11B)."""
    parallel, one_key, new = found.pop("parallel"), found.pop("one_key"), found.pop("new")
    norms = found.pop("norm_count") or (2 if new else 1)
    if norms not in (1, 2):
        raise InputFault(f"num_ln_in_parallel_attn = {norms}: must be 1 or 2")
    found["norms"] = (Norms.OWN if new and norms == 2 else Norms.SHARED) if new or parallel else Norms.BEFORE
    if one_key and not new:
        found["key_value_heads"] = 1


def _of_t5(found: dict[str, Any]) -> None:
    found["decoder_blocks"] = found["decoder_blocks"] or found["blocks"]


def _family(keys: Mapping[str, Key], heads: Mapping[str, Head] = _DECODER_HEADS, **traits: Any) -> Family:
    named = {each.name for each in fields(Family)} - {"keys", "heads", "traits"}
    own = {name: value for name, value in traits.items() if name in named}
    shape = {name.replace("__", "."): value for name, value in traits.items() if name not in named}
    return Family({**keys, **LAYERS}, shape, heads, **own)


_BIASES: dict[str, Any] = {"qkv_bias": True, "proj_bias": True, "ffn_bias": True}
_OF_GPT2: dict[str, Any] = _BIASES | {"gated": False, "norm": LAYER_NORM}
_OF_BERT: dict[str, Any] = _OF_GPT2 | {
    "embedding_norm": True,
    "final_norm": False,
    "norms": Norms.ON_SUM,
    "extra_positions": 0,
}
_OF_ROBERTA = _OF_BERT | {"pooler": True, "unused_positions": 2}
_T5_HEADS = {"ForConditionalGeneration": Head.LANGUAGE, "WithLMHeadModel": Head.LANGUAGE, "Model": Head.NONE}
_FUSED_EXPERTS: dict[str, Any] = {"experts__fused": True}
_NOT_READ_BY_DEEPSEEK = frozenset({"num_key_value_heads", "head_dim", "qk_head_dim", "mlp_bias"})

FAMILIES: Mapping[str, Family] = {
    # Llama's, and those that differ in few traits.
    "llama": _family(LLAMA),
    "mistral": _family(GROUPED),
    "minicpm": _family(LLAMA | TIED),
    "smollm3": _family(LLAMA | TIED),
    "granite": _family(LLAMA),
    "arcee": _family(LLAMA, gated=False),
    "seed_oss": _family(
        LLAMA | WIDE_HEADS | {"qkv_bias": Key("attention_bias", True), "proj_bias": Key("attention_out_bias", False)}
    ),
    "internlm": _family(LLAMA | {"qkv_bias": Key("bias", True), "proj_bias": Key("bias", True)}),
    "internlm2": _family(LLAMA | {"qkv_bias": Key("bias", False), "proj_bias": Key("bias", False)}, fused_qkv=True),
    "internlm3": _family(
        LLAMA
        | WIDE_HEADS
        | {
            "qkv_bias": Key("qkv_bias", False, also=("attention_bias",)),
            "proj_bias": Key("bias", False, also=("attention_bias",)),
            "ffn_bias": Key("bias", False, also=("mlp_bias",)),
        }
    ),
    "baichuan": _family(
        GROUPED | {"context": Key("max_position_embeddings", 4096, also=("model_max_length",))}, fused_qkv=True
    ),
    "ernie4_5": _family(
        GROUPED | WIDE_HEADS | TIED | {part: Key("use_bias", False) for part in ("qkv_bias", "proj_bias", "ffn_bias")}
    ),
    "qwen2": _family(GROUPED, qkv_bias=True),
    "qwen3": _family(GROUPED | WIDE_HEADS | ATTENTION_BIAS, query_key_norm=QueryKeyNorm.HEAD),
    "exaone4": _family(GROUPED, norms=Norms.BEHIND, query_key_norm=QueryKeyNorm.HEAD),
    "phi3": _family(GROUPED, fused_qkv=True, fused_gate=True),
    "glm": _family(GROUPED | WIDE_HEADS | {"qkv_bias": Key("attention_bias", True)}, fused_gate=True),
    "glm4": _family(
        GROUPED | WIDE_HEADS | {"qkv_bias": Key("attention_bias", True)}, fused_gate=True, norms=Norms.AROUND
    ),
    "gemma": _family(LLAMA | TIED | {"head_width": Key("head_dim", 256)}),
    "gemma2": _family(LLAMA | TIED | {"head_width": Key("head_dim", 256)}, norms=Norms.AROUND),
    "gemma3_text": _family(
        {
            # google/gemma-3-4b-it's file has only what differs from these.
            "words": Key("vocab_size", 262208),
            "width": Key("hidden_size", 2304),
            "ffn": Key("intermediate_size", 9216),
            "blocks": Key("num_hidden_layers", 26),
            "heads": Key("num_attention_heads", 8),
            "key_value_heads": Key("num_key_value_heads", 4),
            "head_width": Key("head_dim", 256),
            "context": Key("max_position_embeddings", 131072),
        }
        | ATTENTION_BIAS
        | TIED,
        norms=Norms.AROUND,
        query_key_norm=QueryKeyNorm.HEAD,
    ),
    "olmo": _family(GROUPED | ATTENTION_BIAS, norm=PLAIN_NORM),
    "olmo2": _family(GROUPED | ATTENTION_BIAS, norms=Norms.BEHIND, query_key_norm=QueryKeyNorm.WIDTH),
    "olmo3": _family(GROUPED | ATTENTION_BIAS, norms=Norms.BEHIND, query_key_norm=QueryKeyNorm.WIDTH),
    # With experts.
    "mixtral": _family(GROUPED | OF_MIXTRAL),
    "phimoe": _family(
        GROUPED | ATTENTION_BIAS | OF_MIXTRAL | {"head_bias": Key("lm_head_bias", False)}, norm=LAYER_NORM
    ),
    "olmoe": _family(GROUPED | ATTENTION_BIAS | OF_MIXTRAL, query_key_norm=QueryKeyNorm.WIDTH),
    "granitemoe": _family(GROUPED | ATTENTION_BIAS | OF_MIXTRAL, **_FUSED_EXPERTS),
    "granitemoeshared": _family(
        GROUPED | ATTENTION_BIAS | OF_MIXTRAL | {"experts.shared_ffn": Key("shared_intermediate_size", 0)},
        fused_gate=True,
        **_FUSED_EXPERTS,
    ),
    "gpt_oss": _family(
        GROUPED
        | OF_MIXTRAL
        | {"head_width": Key("head_dim", 64)}
        | {part: Key("attention_bias", True) for part in ("qkv_bias", "proj_bias")},
        sinks=True,
        experts__bias=True,
        experts__router_bias=True,
        **_FUSED_EXPERTS,
    ),
    "llama4_text": _family(
        GROUPED
        | ATTENTION_BIAS
        | OF_MIXTRAL
        | {
            "ffn": Key("intermediate_size_mlp"),
            "experts.every": Key("interleave_moe_layer_step", 1),
            "experts.listed": Key("moe_layers", ()),
        },
        ignored=frozenset({"use_qk_norm"}),  # a norm without parameters
        experts__shared=1,
        **_FUSED_EXPERTS,
    ),
    "qwen2_moe": _family(
        GROUPED
        | OF_QWEN
        | {"experts.shared_ffn": Key("shared_expert_intermediate_size", 0), "qkv_bias": Key("qkv_bias", True)},
        experts__shared_gate=True,
    ),
    "qwen3_moe": _family(GROUPED | ATTENTION_BIAS | OF_QWEN, query_key_norm=QueryKeyNorm.HEAD),
    "glm4_moe": _family(
        GROUPED
        | QKV_BIAS
        | OF_DEEPSEEK
        | {"query_key_norm": Key("use_qk_norm", False, means={True: QueryKeyNorm.HEAD, False: QueryKeyNorm.NONE})}
    ),
    "deepseek_v2": _family(DEEPSEEK, ignored=_NOT_READ_BY_DEEPSEEK),
    "deepseek_v3": _family(DEEPSEEK, ignored=_NOT_READ_BY_DEEPSEEK),
    "deepseek_v32": _family(DEEPSEEK | INDEXER, ignored=_NOT_READ_BY_DEEPSEEK),
    "kimi_k2": _family(DEEPSEEK, ignored=_NOT_READ_BY_DEEPSEEK),
    "minicpm3": _family(
        SIZES | LATENT | ATTENTION_BIAS | TIED | {"ffn_bias": Key("mlp_bias", False)},
        ignored=_NOT_READ_BY_DEEPSEEK,
    ),
    # GPT-2's, and others with layer normalisation.
    "gpt2": _family(GPT2, fused_qkv=True, extra_positions=0, **_OF_GPT2),
    "gpt_bigcode": _family(
        GPT2 | {"key_value_heads": Key("multi_query", True, means={True: 1, False: None})},
        fused_qkv=True,
        extra_positions=0,
        ignored=frozenset({"num_key_value_heads"}),  # it follows
        **_OF_GPT2,
    ),
    "gpt_neo": _family(
        SIZES
        | TIED
        | {
            "blocks": Key("num_layers", also=("num_hidden_layers",)),
            "heads": Key("num_heads", also=("num_attention_heads",)),
            "ffn": Key("intermediate_size", None),
        },
        extra_positions=0,
        **(_OF_GPT2 | {"qkv_bias": False}),
    ),
    "gptj": _family(
        GPT2 | {"tied": Key("tie_word_embeddings", False)},
        norms=Norms.SHARED,
        head_bias=True,
        **(_OF_GPT2 | {"qkv_bias": False, "proj_bias": False}),
    ),
    "codegen": _family(
        GPT2 | {"tied": Key("tie_word_embeddings", False)},
        norms=Norms.SHARED,
        head_bias=True,
        fused_qkv=True,
        **(_OF_GPT2 | {"qkv_bias": False, "proj_bias": False}),
    ),
    "gpt_neox": _family(
        SIZES
        | {
            "tied": Key("tie_word_embeddings", False),
            "norms": Key("use_parallel_residual", True, means={True: Norms.OWN, False: Norms.BEFORE}),
            "qkv_bias": Key("attention_bias", True),
            "proj_bias": Key("attention_bias", True),
        },
        fused_qkv=True,
        ffn_bias=True,
        gated=False,
        norm=LAYER_NORM,
    ),
    "opt": _family(OPT, gated=False, words_alone=True, extra_positions=2),
    "bloom": _family(BLOOM, fused_qkv=True, embedding_norm=True, **_OF_GPT2),
    "falcon": _family(
        FALCON, fused_qkv=True, gated=False, norm=LAYER_NORM, settle=_of_falcon, ignored=frozenset({"ff_factor"})
    ),
    "starcoder2": _family(
        GROUPED
        | TIED
        | {part: Key("use_bias", True) for part in ("qkv_bias", "proj_bias", "ffn_bias")}
        | {
            "only.norm": Key("norm_type", "layer_norm", means={"layer_norm": 0}),
            "only.ffn": Key("mlp_type", "default", means={"default": 0}),
        },
        gated=False,
        norm=LAYER_NORM,
    ),
    "nemotron": _family(LLAMA, gated=False, norm=LAYER_NORM),
    "stablelm": _family(
        GROUPED
        | {
            "qkv_bias": Key("use_qkv_bias", False),
            "norms": Key("use_parallel_residual", False, means={True: Norms.SHARED, False: Norms.BEFORE}),
        },
        norm=LAYER_NORM,
    ),
    "phi": _family(GROUPED, norms=Norms.SHARED, head_bias=True, **_OF_GPT2),
    "cohere": _family(
        GROUPED
        | ATTENTION_BIAS
        | TIED
        | {"query_key_norm": Key("use_qk_norm", False, means={True: QueryKeyNorm.WIDTH, False: QueryKeyNorm.NONE})},
        norms=Norms.SHARED,
        norm=RMS_NORM,  # layer normalisation without a shift
    ),
    "cohere2": _family(
        GROUPED
        | ATTENTION_BIAS
        | TIED
        | {
            f"only.{name}": Key(name, True, means={True: True})
            for name in ("use_embedding_sharing", "use_gated_activation", "use_parallel_block")
        },
        norms=Norms.SHARED,
        norm=RMS_NORM,
        ignored=frozenset(
            {"position_embedding_type", "order_of_interleaved_layers", "use_parallel_embedding", "layer_switch"}
        ),
    ),
    # Encoders, encoders with decoders, and images.
    "bert": _family(BERT, {"ForPreTraining": Head.PRETRAINING, **_ENCODER_HEADS}, pooler=True, **_OF_BERT),
    "roberta": _family(BERT, _ENCODER_HEADS, **_OF_ROBERTA),
    "xlm-roberta": _family(BERT, _ENCODER_HEADS, **_OF_ROBERTA),
    "camembert": _family(BERT, _ENCODER_HEADS, **_OF_ROBERTA),
    "distilbert": _family(DISTILBERT, _ENCODER_HEADS, **_OF_BERT),
    "electra": _family(BERT | WORD_WIDTH, _ENCODER_HEADS, **_OF_BERT),
    "albert": _family(
        BERT
        | WORD_WIDTH
        | {
            "only.groups": Key("num_hidden_groups", 1, means={1: 1}),
            "only.inner": Key("inner_group_num", 1, means={1: 1}),
        },
        _ENCODER_HEADS,
        pooler=True,
        same_blocks=True,
        **_OF_BERT,
    ),
    "t5": _family(T5, _T5_HEADS, settle=_of_t5),
    "mt5": _family(MT5, _T5_HEADS, settle=_of_t5),
    "umt5": _family(MT5, _T5_HEADS, settle=_of_t5, buckets_in_all=True),
    "vit": _family(
        IMAGES,
        {"ForImageClassification": Head.CLASSES, "Model": Head.NONE},
        pooler=True,
        words=0,
        proj_bias=True,
        ffn_bias=True,
        gated=False,
        norm=LAYER_NORM,
    ),
}
"""The table. A row's keys go by the field that they give."""
IN_OTHERS: Mapping[str, str] = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "kimi_k25": "kimi_k2",
}
"""Families that see, too: the family of `text_config`, which alone becomes a model, where that does not say itself."""
