"""Shapes of transformers: language models that read from left to right (decoders), encoders, both together, and those
of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

RMS_NORM = ("gamma",)
LAYER_NORM = ("gamma", "beta")
PLAIN_NORM = ()
"""Trainable tensors of normalisations: OLMo's has none (Groeneveld et al. 2024, section 2.1)."""


class Norms(StrEnum):
    """The places of the normalisations of each half of a block, attention and feed-forward."""

    #: Before the half (GPT-2, Llama).
    BEFORE = "before"
    #: On what the half yields, before it is added (OLMo 2).
    BEHIND = "behind"
    #: Both (Gemma 2, GLM-4-0414).
    AROUND = "around"
    #: On the sum (Vaswani et al. 2017, BERT).
    ON_SUM = "on sum"
    #: Before both halves, which are parallel: one for both (GPT-J, Falcon 7B) or one for each (GPT-NeoX, Falcon 40B).
    SHARED = "shared"
    OWN = "own"


class QueryKeyNorm(StrEnum):
    """Normalisations of queries and keys, behind their products."""

    NONE = "none"
    #: Parameters that all heads share (Qwen3).
    HEAD = "head"
    #: Parameters for each head's features (OLMo 2).
    WIDTH = "width"


class Head(StrEnum):
    """What stands behind the last block."""

    #: Each token's next word.
    LANGUAGE = "language"
    NONE = "none"
    #: BERT's masked words, and with the sentence that follows (Devlin et al. 2018).
    MASKED = "masked"
    PRETRAINING = "pretraining"
    #: The class of an image.
    CLASSES = "classes"


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
    #: Features of the shared expert, where they are not those of `shared` others.
    shared_ffn: int = 0
    #: Whether each token has a weight for the shared expert, a product with one output (Qwen1.5-MoE).
    shared_gate: bool = False
    #: Whether the router, and the experts, have biases (gpt-oss).
    router_bias: bool = False
    bias: bool = False
    #: Whether each matrix of all experts is one tensor, with the gate's in the same one (Llama 4, gpt-oss).
    fused: bool = False
    #: The first blocks, which have one dense feed-forward part instead.
    dense_blocks: int = 0
    #: Of every so many blocks, the last one has experts.
    every: int = 1
    #: Numbers of further dense blocks; and those of all blocks with experts, where they are listed.
    dense: Sequence[int] = ()
    listed: Sequence[int] = ()

    @property
    def shared_features(self) -> int:
        """Features of all shared experts together."""
        return self.shared_ffn or self.shared * self.ffn

    def in_block(self, number: int) -> bool:
        """Whether the block of that number, counted from 0, has experts."""
        if self.listed:
            return number in self.listed
        return number >= self.dense_blocks and (number + 1) % self.every == 0 and number not in self.dense


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, 2024, section 2.1): queries, and keys with values, come from low-rank
    products."""

    #: 0 where queries are one product, of full rank (DeepSeek-V2-Lite).
    query_rank: int
    key_value_rank: int
    #: Features of a head's queries and keys without, and with, rotary position.
    plain: int
    rotary: int
    #: Features of a head's values.
    value: int


@dataclass(frozen=True)
class Indexer:
    """The lightning indexer, which chooses the tokens that each token attends to (DeepSeek-V3.2-Exp, 2025,
    section 1)."""

    heads: int
    head_width: int
    #: Tokens that each token attends to, at most.
    chosen: int


@dataclass(frozen=True)
class Patches:
    """An image cut into squares, each of which is a token (ViT, Dosovitskiy et al. 2020)."""

    image: int
    patch: int
    channels: int = 3

    @property
    def tokens(self) -> int:
        """Squares of an image, and the class token."""
        return (self.image // self.patch) ** 2 + 1


@dataclass(frozen=True)
class Transformer:
    """A transformer's shape."""

    #: Words of the vocabulary; 0 for images.
    words: int
    #: Tokens of a sample; of each of an encoder's and a decoder's, where there are both.
    tokens: int
    width: int
    #: Blocks, of the encoder where there is one.
    blocks: int
    heads: int
    #: Features of the dense feed-forward part between its products.
    ffn: int
    #: Heads of keys and values, fewer than those of queries in grouped-query attention.
    key_value_heads: int
    #: Features of a head.
    head_width: int
    #: Learned positions; 0 where positions are rotary, or relative, and have no table.
    positions: int = 0
    #: Rows of the table of token types (BERT).
    segments: int = 0
    #: Features of the tables of words, positions and segments, where a product makes them as wide as the blocks (ALBERT);
    #: 0 where they are.
    word_width: int = 0
    #: Whether positions are as wide as the blocks though words are not, and the product has no bias (OPT-350M).
    words_alone: bool = False
    patches: Patches | None = None
    #: Whether the embedding is normalised (BERT, BLOOM), and the last block's output.
    embedding_norm: bool = False
    final_norm: bool = True
    #: Whether queries, keys and values, the projection behind attention, and the feed-forward products have biases.
    qkv_bias: bool = False
    proj_bias: bool = False
    ffn_bias: bool = False
    #: Whether queries, keys and values are one tensor (GPT-2), and the gate and the product beside it (Phi-3).
    fused_qkv: bool = False
    fused_gate: bool = False
    #: Whether the feed-forward part is SwiGLU or alike, with a third product in parallel with the first.
    gated: bool = True
    #: Trainable tensors of a normalisation: RMS_NORM or LAYER_NORM.
    norm: tuple[str, ...] = RMS_NORM
    norms: Norms = Norms.BEFORE
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    #: Whether each head has a learned score for no token at all (gpt-oss).
    sinks: bool = False
    #: Distances between tokens that have a learned score (T5), in the first block or in each of a stack.
    buckets: int = 0
    buckets_in_all: bool = False
    #: Whether all blocks have the same parameters (ALBERT).
    same_blocks: bool = False
    head: Head = Head.LANGUAGE
    #: Whether the output has the embedding's own weights, and whether it has biases.
    tied: bool = False
    head_bias: bool = False
    #: Whether a product of the first token stands behind the last block (BERT).
    pooler: bool = False
    classes: int = 0
    #: Blocks of a decoder that attends to what the blocks of an encoder yield; 0 for a single stack (T5).
    decoder_blocks: int = 0
    experts: Experts | None = None
    latent: Latent | None = None
    indexer: Indexer | None = None
