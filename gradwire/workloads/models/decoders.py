"""Language models that read from left to right (decoders), from their shapes, and the published ones of 2020 to 2024.

A sample is a sequence. Counts follow the public checkpoints: one tensor per matrix, and per matrix of each expert.
Operations are those of a forward pass in which every token looks at every other, for a causal mask is not deducted, as
in Narayanan et al. 2021. Of a mixture, only the experts that a token goes through cost operations; that all experts
get as many tokens is assumed.

The published models are too large for one GPU, all but Llama 3 8B. Their shapes are those that their papers print.
Batch sizes are this project's choice, one sequence each; a scenario may set another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.shapes import Network, Node

RMS_NORM = ("gamma",)
LAYER_NORM = ("gamma", "beta")


@dataclass(frozen=True)
class Experts:
    """Feed-forward parts of which each token takes a few (Shazeer et al. 2017; Mixtral, Jiang et al. 2024)."""

    count: int
    #: Experts that each token goes through, besides the shared ones.
    per_token: int
    #: Features between an expert's products.
    ffn: int
    #: Experts that every token goes through (DeepSeekMoE, Dai et al. 2024).
    shared: int = 0
    #: The first blocks, which have one dense feed-forward part instead.
    dense_blocks: int = 0


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, 2024, section 2.1): queries, and keys with values, come from low-rank
    products."""

    query_rank: int
    key_value_rank: int
    #: Features of a head's queries and keys without, and with, rotary position.
    plain: int
    rotary: int
    #: Features of a head's values.
    value: int


@dataclass(frozen=True)
class Decoder:
    """A decoder's shape."""

    words: int
    #: Tokens of a sample.
    tokens: int
    width: int
    blocks: int
    heads: int
    #: Features of the dense feed-forward part between its products.
    ffn: int
    #: Heads of keys and values, fewer than those of queries in grouped-query attention.
    key_value_heads: int
    #: Features of a head.
    head_width: int
    #: Learned positions; 0 where positions are rotary and have no parameters.
    positions: int = 0
    #: Whether products in attention, and in the feed-forward part, have biases.
    attention_bias: bool = False
    ffn_bias: bool = False
    #: Whether queries, keys and values are one tensor (GPT-2).
    fused_qkv: bool = False
    #: Whether the feed-forward part is SwiGLU, with a third product in parallel with the first.
    gated: bool = True
    #: Trainable tensors of a normalisation: RMS_NORM or LAYER_NORM.
    norm: tuple[str, ...] = RMS_NORM
    #: Whether the output has the embedding's own weights.
    tied: bool = False
    experts: Experts | None = None
    latent: Latent | None = None


def decoder_profile(name: str, shape: Decoder, batch: int, source: str) -> Profile:
    """The layers of a decoder, with their tensors in the order of the checkpoints."""
    net = Network(shape.tokens)
    tables = {"words": shape.words} | ({"positions": shape.positions} if shape.positions else {})
    x = net.embedding(shape.tokens, shape.width, tables, "embeddings")
    for index in range(shape.blocks):
        attend = _attend_latently if shape.latent else _attend
        dense = shape.experts is None or index < shape.experts.dense_blocks
        for part, half in (("attention", attend), ("ffn", _feed_forward if dense else _mixture)):
            at = f"block{index}/{part}"
            x = net.add(x, half(net, net.layer_norm(x, f"{at}/norm", shape.norm), shape, at), f"{at}/add")
    x = net.layer_norm(x, "final_norm", shape.norm)
    if shape.tied:
        flops = 2 * x.elements * shape.words
        net.layer(LayerKind.FC, "lm_head", x, (shape.tokens, shape.words), flops, {})
    else:
        net.fc(x, shape.words, bias=False, name="lm_head")
    return net.profile(name, batch, source)


def _attend(net: Network, x: Node, shape: Decoder, at: str) -> Node:
    """Projections, scores of every token with every other, weighted sum, and projection back."""
    queries, keys = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    parts = {"fused": queries + 2 * keys} if shape.fused_qkv else {"query": queries, "key": keys, "value": keys}
    x = net.fc(x, parts, bias=shape.attention_bias, name=f"{at}/qkv", kind=LayerKind.ATTENTION)
    return _scores_and_projection(net, x, shape, (shape.head_width, shape.head_width), at)


def _attend_latently(net: Network, x: Node, shape: Decoder, at: str) -> Node:
    """Queries, and keys with values, each by two products with a normalisation between; the rotary keys of all heads
    are the same."""
    latent = shape.latent
    assert latent is not None  # the caller has looked
    kind, keys = LayerKind.ATTENTION, latent.plain + latent.rotary
    down = net.fc(x, latent.query_rank, bias=False, name=f"{at}/query_down", kind=kind)
    down = net.layer_norm(down, f"{at}/query_norm", shape.norm)
    queries = net.fc(down, shape.heads * keys, bias=False, name=f"{at}/query_up", kind=kind)
    both = net.fc(x, latent.key_value_rank + latent.rotary, bias=False, name=f"{at}/kv_down", kind=kind)
    kept = net.layer_norm(Node((shape.tokens, latent.key_value_rank), both.reads), f"{at}/kv_norm", shape.norm)
    up = net.fc(kept, shape.heads * (latent.plain + latent.value), bias=False, name=f"{at}/kv_up", kind=kind)
    joined = Node(up.shape, queries.reads + up.reads + both.reads)
    return _scores_and_projection(net, joined, shape, (keys, latent.value), at)


def _scores_and_projection(net: Network, x: Node, shape: Decoder, widths: tuple[int, int], at: str) -> Node:
    """widths: features of a head's keys, of which scores are made, and of its values, which are summed."""
    flops = 2 * shape.tokens * shape.tokens * shape.heads * sum(widths)
    summed = (shape.tokens, shape.heads * widths[1])
    x = net.layer(LayerKind.ATTENTION, f"{at}/attend", x, summed, flops, {})
    return net.fc(x, shape.width, bias=shape.attention_bias, name=f"{at}/proj", kind=LayerKind.ATTENTION)


def _feed_forward(net: Network, x: Node, shape: Decoder, at: str) -> Node:
    return _two_products(net, x, shape, shape.ffn, at)


def _two_products(net: Network, x: Node, shape: Decoder, ffn: int, at: str) -> Node:
    """The product that goes up, with its gate if there is one, and the product that goes down."""
    if shape.gated:
        both = net.fc(x, {"gate": ffn, "up": ffn}, bias=shape.ffn_bias, name=f"{at}/up")
        up = Node((shape.tokens, ffn), both.reads)
    else:
        up = net.fc(x, ffn, bias=shape.ffn_bias, name=f"{at}/up")
    return net.fc(up, shape.width, bias=shape.ffn_bias, name=f"{at}/down")


def _mixture(net: Network, x: Node, shape: Decoder, at: str) -> Node:
    """A router, the experts that it chooses for each token, and those that all tokens share."""
    experts = shape.experts
    assert experts is not None  # the caller has looked
    scores = net.fc(x, experts.count, bias=False, name=f"{at}/router")
    routed = Node(x.shape, tuple(dict.fromkeys(scores.reads + x.reads)))
    one = _matrices(shape, experts.ffn)
    tensors = {f"expert{i}/{part}_weights": size for i in range(experts.count) for part, size in one.items()}
    flops = 2 * shape.tokens * experts.per_token * sum(one.values())
    y = net.layer(LayerKind.FC, f"{at}/experts", routed, x.shape, flops, tensors, rows=shape.width)
    if not experts.shared:
        return y
    shared = _two_products(net, x, shape, experts.shared * experts.ffn, f"{at}/shared")
    return net.add(y, shared, f"{at}/joined")


def _matrices(shape: Decoder, ffn: int) -> Mapping[str, int]:
    size = shape.width * ffn
    return {"gate": size, "up": size, "down": size} if shape.gated else {"up": size, "down": size}


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
_PUBLISHED = (
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
LANGUAGE_MODELS: Mapping[str, Callable[[], Profile]] = {
    name: partial(decoder_profile, name, shape, 1, source) for name, shape, source in _PUBLISHED
}


def decoder_shape(name: str) -> Decoder | None:
    """The shape of a published model; None for another name."""
    return next((shape for known, shape, _ in _PUBLISHED if known == name), None)
