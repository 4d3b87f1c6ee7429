"""Keys of transformers' config.json: which field of a shape each gives, and those that change nothing here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gradwire.documents import DocumentTable, DocumentValue


class Required(Enum):
    """The default of a key that has none."""

    REQUIRED = "required"


REQUIRED = Required.REQUIRED


@dataclass(frozen=True)
class Key:
    """A key of a family's files. Its kind is that of its default, and a whole number where there is none."""

    name: str
    #: The value of files without the key; None for one that follows from others.
    default: DocumentValue | Required = REQUIRED
    #: All values that are understood, with the value that the field of the shape has then.
    means: Mapping[Any, Any] | None = None
    #: Further names of the key, in files of other years.
    also: tuple[str, ...] = ()
    #: The values that a list may have.
    among: tuple[str, ...] = ()

    def name_in(self, config: DocumentTable) -> str:
        """The name that the key has in a file; the usual one if it has none of them."""
        return next((name for name in (self.name, *self.also) if name in config), self.name)

    def field_value(self, config: DocumentTable) -> Any:
        """The value that a file gives the field of the shape."""
        value = config.get(self.name_in(config), self.default)
        value = self.default if value is None and self.default is not REQUIRED else value
        return self.means[value] if self.means is not None else value


_IGNORED = """\
model_type architectures transformers_version torch_dtype dtype auto_map quantization_config compression_config
use_cache gradient_checkpointing problem_type id2label label2id num_labels task_specific_params tokenizer_class
finetuning_task is_encoder_decoder is_decoder torchscript use_bfloat16 tf_legacy_loss prefix return_dict
return_dict_in_generate chunk_size_feed_forward vocab_file use_return_dict model_max_length unsloth_version
unsloth_fixed language

hidden_act hidden_activation activation_function activation act_fn dense_act_fn swiglu_limit swiglu_alpha
initializer_range initializer_factor init_std init_method_std init_device layer_norm_eps layer_norm_epsilon
norm_epsilon norm_eps rms_norm_eps rms_norm_epsilon

rope_theta rope_scaling rope_parameters rope_interleave rope_local_base_freq rope_pct rope_ratio rope_type
rotary rotary_pct rotary_dim rotary_emb_base rope_percent partial_rotary_factor original_max_position_embeddings
no_rope_layers no_rope_layer_interval nope_layer_interval alibi alibi_bias_max
relative_attention_max_distance n_ctx seq_length use_dynamic_ntk

sliding_window use_sliding_window max_window_layers sliding_window_pattern attention_chunk_size window_size
attention_types attention_layers interleaved_sliding_window cache_implementation use_bidirectional_attention
query_pre_attn_scalar attn_logit_softcapping final_logit_softcapping attn_temperature_tuning floor_scale
attn_scale clip_qkv scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn
attention_softmax_in_fp32 scale_attention_softmax_in_fp32 softmax_scale attention_multiplier
masked_softmax_fusion bias_dropout_fusion scale_attention_softmax slow_but_exact scalable_attention
inference_runner validate_runner_input pre_allocate_kv_cache max_batch_size max_sequence_length

embedding_multiplier logits_scaling residual_multiplier scale_emb scale_depth dim_model_base scale_embedding
logit_scale mup_denominator scale_decoder_outputs

norm_topk_prob routed_scaling_factor scoring_func topk_method n_group topk_group aux_loss_alpha seq_aux
router_aux_loss_coef router_z_loss_coef router_jitter_noise input_jitter_noise output_router_logits ep_size
num_nextn_predict_layers num_mtp_layers moe_router_dtype initial_context_length indexer_rope_interleave
experts_implementation

pretraining_tp skip_bias_add skip_bias_add_qkv tie_weights_ is_gated_act full_attn_mod interpolate_factor
offset_alibi encoder_stride pooler_act pooler_output_size
summary_type summary_use_proj summary_activation summary_proj_to_labels
qa_dropout seq_classif_dropout down_scale_factor net_structure_type gap_size num_memory_blocks directionality
pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
eos_id pad_id
max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p
typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
num_return_sequences output_scores output_attentions output_hidden_states output_past remove_invalid_values
exponential_decay_length_penalty suppress_tokens begin_suppress_tokens n_special predict_special_tokens"""
IGNORED = frozenset(_IGNORED.split())
"""Keys that change neither parameters nor operations, in files of any family: how a file is read, non-linearities,
starting values, kinds of rotary position, windows (attention counts as dense), constant factors, the choice and the
losses of routers, generation, and modules that predict further tokens, which are left out, as transformers leaves them
out."""
IGNORED_PATTERNS = re.compile(r"^_|token_ids?$|dropout|drop$|drop_rate$|layerdrop$|flash_attn|attn_impl|fused_|_fp32$")
"""Patterns of names of more such keys: dropout, numbers of tokens, private keys, and which code computes attention."""
OFF: tuple[DocumentValue, ...] = (None, False, 0, "", [], {})
"""Values of a key that say that the model does not have what it names."""


def not_understood(config: DocumentTable, keys: Mapping[str, Key], ignored: frozenset[str]) -> list[str]:
    """The keys of a file that may change its parameters or operations in a way that is not known here."""
    read = {name for key in keys.values() for name in (key.name, *key.also)}
    known = read | IGNORED | ignored
    return [
        name
        for name, value in config.items()
        if name not in known and not IGNORED_PATTERNS.search(name) and value not in OFF
    ]
