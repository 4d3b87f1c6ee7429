"""Keys that families of transformers share, in groups of which the table of families makes rows."""

from __future__ import annotations

from gradwire.workloads.models.config_keys import Key
from gradwire.workloads.models.transformer_shapes import LAYER_NORM, PLAIN_NORM, Norms

SIZES = {
    "words": Key("vocab_size"),
    "width": Key("hidden_size"),
    "ffn": Key("intermediate_size"),
    "blocks": Key("num_hidden_layers"),
    "heads": Key("num_attention_heads"),
    "context": Key("max_position_embeddings"),
}
GROUPED = SIZES | {
    "key_value_heads": Key("num_key_value_heads", None),
    "head_width": Key("head_dim", None),
    "tied": Key("tie_word_embeddings", False),
}
TIED = {"tied": Key("tie_word_embeddings", True)}
QKV_BIAS = {"qkv_bias": Key("attention_bias", False)}
ATTENTION_BIAS = QKV_BIAS | {"proj_bias": Key("attention_bias", False)}
LLAMA = GROUPED | ATTENTION_BIAS | {"ffn_bias": Key("mlp_bias", False), "context": Key("max_position_embeddings", 2048)}
WIDE_HEADS = {"head_width": Key("head_dim", 128)}
LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention", "indexed_attention")
LAYERS = {"only.layers": Key("layer_types", (), among=LAYER_TYPES)}
"""Attention of another kind, such as a linear one, has other parameters."""
OF_MIXTRAL = {
    "experts.count": Key("num_local_experts", 8, also=("num_experts",)),
    "experts.per_token": Key("num_experts_per_tok", 2, also=("experts_per_token",)),
    "experts.ffn": Key("intermediate_size"),
}
OF_QWEN = {
    "experts.count": Key("num_experts", also=("num_local_experts",)),
    "experts.per_token": Key("num_experts_per_tok"),
    "experts.ffn": Key("moe_intermediate_size"),
    "experts.every": Key("decoder_sparse_step", 1),
    "experts.dense": Key("mlp_only_layers", ()),
}
OF_DEEPSEEK = {
    "experts.count": Key("n_routed_experts", None, also=("num_experts", "num_local_experts")),
    "experts.per_token": Key("num_experts_per_tok", None),
    "experts.ffn": Key("moe_intermediate_size", None),
    "experts.shared": Key("n_shared_experts", 0),
    "experts.dense_blocks": Key("first_k_dense_replace", 0),
    "mlp_kinds": Key("mlp_layer_types", (), among=("dense", "sparse")),
    "only.moe_layer_freq": Key("moe_layer_freq", 1, means={1: 1}),
}
LATENT = {
    "latent.query_rank": Key("q_lora_rank", 0),
    "latent.key_value_rank": Key("kv_lora_rank"),
    "latent.plain": Key("qk_nope_head_dim"),
    "latent.rotary": Key("qk_rope_head_dim"),
    "latent.value": Key("v_head_dim"),
}
DEEPSEEK = SIZES | LATENT | OF_DEEPSEEK | ATTENTION_BIAS | {"tied": Key("tie_word_embeddings", False)}
INDEXER = {
    "indexer.heads": Key("index_n_heads"),
    "indexer.head_width": Key("index_head_dim"),
    "indexer.chosen": Key("index_topk"),
}
GPT2_NAMES = {
    "words": Key("vocab_size"),
    "width": Key("n_embd", also=("hidden_size",)),
    "blocks": Key("n_layer", also=("num_hidden_layers",)),
    "heads": Key("n_head", also=("num_attention_heads",)),
    "context": Key("n_positions", also=("max_position_embeddings",)),
    "ffn": Key("n_inner", None),
}
GPT2 = GPT2_NAMES | TIED
BERT = (
    SIZES
    | TIED
    | {
        "segments": Key("type_vocab_size", 2),
        "only.positions": Key("position_embedding_type", "absolute", means={"absolute": 0}),
    }
)
WORD_WIDTH = {"word_width": Key("embedding_size", None)}
DISTILBERT = TIED | {
    "words": Key("vocab_size"),
    "width": Key("dim", also=("hidden_size",)),
    "ffn": Key("hidden_dim"),
    "blocks": Key("n_layers", also=("num_hidden_layers",)),
    "heads": Key("n_heads", also=("num_attention_heads",)),
    "context": Key("max_position_embeddings"),
}
OPT = (
    SIZES
    | TIED
    | {
        "ffn": Key("ffn_dim"),
        "word_width": Key("word_embed_proj_dim", None),
        "norms": Key("do_layer_norm_before", True, means={True: Norms.BEFORE, False: Norms.ON_SUM}),
        "final_norm": Key("do_layer_norm_before", True, means={True: True, False: False}),
        "qkv_bias": Key("enable_bias", True),
        "proj_bias": Key("enable_bias", True),
        "ffn_bias": Key("enable_bias", True),
        "norm": Key("layer_norm_elementwise_affine", True, means={True: LAYER_NORM, False: PLAIN_NORM}),
        "only.removal": Key("_remove_final_layer_norm", False, means={False: 0}),
    }
)
FALCON = (
    SIZES
    | TIED
    | {
        "blocks": Key("num_hidden_layers", also=("n_layer",)),
        "heads": Key("num_attention_heads", also=("n_head",)),
        "context": Key("max_position_embeddings", 2048),
        "ffn": Key("ffn_hidden_size", None),
        "key_value_heads": Key("num_kv_heads", None, also=("n_head_kv",)),
        "qkv_bias": Key("bias", False),
        "proj_bias": Key("bias", False),
        "ffn_bias": Key("bias", False),
        "parallel": Key("parallel_attn", True),
        "one_key": Key("multi_query", True),
        "new": Key("new_decoder_architecture", False),
        "norm_count": Key("num_ln_in_parallel_attn", None),
    }
)
BLOOM = (
    GPT2_NAMES
    | TIED
    | {
        "width": Key("hidden_size", also=("n_embed", "n_embd")),
        "context": Key("seq_length", 2048),
        "only.residual": Key("apply_residual_connection_post_layernorm", False, means={False: 0}),
    }
)
T5_GATED = {"relu": False, "gelu": False, "gated-gelu": True, "gated-silu": True}
T5 = TIED | {
    "words": Key("vocab_size"),
    "width": Key("d_model"),
    "ffn": Key("d_ff"),
    "blocks": Key("num_layers"),
    "decoder_blocks": Key("num_decoder_layers", None),
    "heads": Key("num_heads"),
    "head_width": Key("d_kv"),
    "context": Key("n_positions", 512),
    "buckets": Key("relative_attention_num_buckets", 32),
    "gated": Key("feed_forward_proj", "relu", means=T5_GATED),
}
MT5 = T5 | {"gated": Key("feed_forward_proj", "gated-gelu", means=T5_GATED)}
IMAGES = {
    "width": Key("hidden_size"),
    "ffn": Key("intermediate_size"),
    "blocks": Key("num_hidden_layers"),
    "heads": Key("num_attention_heads"),
    "patches.image": Key("image_size", 224),
    "patches.patch": Key("patch_size", 16),
    "patches.channels": Key("num_channels", 3),
    "qkv_bias": Key("qkv_bias", True),
    "labels": Key("id2label", {}),
}
