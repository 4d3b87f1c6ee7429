"""Language models of 2020 to 2024 that are too large for one GPU, and Llama 3 8B: shapes as their papers print them.

Batch sizes are this project's choice, one sequence each; a scenario may set another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gradwire.workloads.models.language.decoder import LAYER_NORM, Decoder, Experts, Latent, decoder_profile
from gradwire.workloads.models.profile import Profile


def _llama3(width: int, blocks: int, heads: int, ffn: int) -> Decoder:
    """The Llama 3 Herd of Models 2024, Table 3, on sequences of 8192 tokens (section 3.4.1)."""
    return Decoder(
        words=128256,
        tokens=8192,
        width=width,
        blocks=blocks,
        heads=heads,
        ffn=ffn,
        key_value_heads=8,
        head_width=width // heads,
    )


LLAMA3_8B = _llama3(4096, 32, 32, 14336)
LLAMA3_70B = _llama3(8192, 80, 64, 28672)
LLAMA3_405B = _llama3(16384, 126, 128, 53248)
GPT3_175B = Decoder(
    words=50257,
    tokens=2048,
    width=12288,
    blocks=96,
    heads=96,
    ffn=4 * 12288,
    key_value_heads=96,
    head_width=128,
    positions=2048,
    attention_bias=True,
    ffn_bias=True,
    fused_qkv=True,
    gated=False,
    norm=LAYER_NORM,
    tied=True,
)
"""Brown et al. 2020, Table 2.1, with GPT-2's vocabulary and tied output. Its layers with sparse attention count as
dense here."""
MIXTRAL_8X7B = Decoder(
    words=32000,
    tokens=8192,
    width=4096,
    blocks=32,
    heads=32,
    ffn=14336,
    key_value_heads=8,
    head_width=128,
    experts=Experts(count=8, per_token=2, ffn=14336),
)
"""Jiang et al. 2024, Table 1. Sequences of 8192 tokens are this project's choice, as for Llama 3; the paper prints the
context, 32768."""
DEEPSEEK_V3 = Decoder(
    words=129280,
    tokens=4096,
    width=7168,
    blocks=61,
    heads=128,
    ffn=18432,
    key_value_heads=128,
    head_width=128,
    experts=Experts(count=256, per_token=8, ffn=2048, shared=1, dense_blocks=3),
    latent=Latent(query_rank=1536, key_value_rank=512, plain=128, rotary=64, value=128),
)
"""DeepSeek-V3 Technical Report 2024, section 4.2, without the module that predicts a second token. Vocabulary and
dense width: the public checkpoint's configuration. The biases that balance the router are set by a rule and have no
gradient, so they are left out."""

_LLAMA = "The Llama 3 Herd of Models 2024, Table 3; public checkpoint"
LANGUAGE_MODELS: Mapping[str, Callable[[], Profile]] = {
    name: partial(decoder_profile, name, shape, 1, source)
    for name, shape, source in (
        ("llama3-8b", LLAMA3_8B, f"{_LLAMA} 8,030,261,248"),
        ("llama3-70b", LLAMA3_70B, f"{_LLAMA} 70,553,706,496"),
        ("llama3-405b", LLAMA3_405B, f"{_LLAMA} 405,853,388,800"),
        ("gpt3-175b", GPT3_175B, "Brown et al. 2020, Table 2.1; 174,600 M parameters in Table D.1"),
        ("mixtral-8x7b", MIXTRAL_8X7B, "Jiang et al. 2024, Table 1; public checkpoint 46,702,792,704"),
        (
            "deepseek-v3",
            DEEPSEEK_V3,
            "DeepSeek-V3 Technical Report 2024, section 4.2; 671 B parameters, 37 B per token",
        ),
    )
}
