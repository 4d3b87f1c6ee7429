"""Transformers that fit on one GPU: BERT-large, GPT-2 XL and ViT-L/16.

A sample is a sequence. Batch sizes are this project's choice: what one 80 GB GPU holds. A scenario may set another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.shapes import Network, Node

LAYER_NORM = ("gamma", "beta")


@dataclass(frozen=True)
class Block:
    """The differences between the transformers' blocks."""

    width: int
    #: Features of the projections into attention, by tensor: separate ones, or one fused.
    qkv: Mapping[str, int]
    #: Features between the two feed-forward products.
    ffn: int
    bias: bool = True
    #: Whether each half is normalised before it (GPT-2, ViT) or after it (BERT).
    norm_first: bool = True
    norm_tensors: tuple[str, ...] = LAYER_NORM


def _attend(net: Network, x: Node, block: Block, name: str) -> Node:
    """Projections, scores of every token with every other (without deducting a causal mask), weighted sum, and
    projection."""
    tokens = x.shape[0]
    x = net.fc(x, block.qkv, bias=block.bias, name=f"{name}/qkv", kind=LayerKind.ATTENTION)
    scores_and_sum = 2 * 2 * tokens * tokens * block.width
    x = net.layer(LayerKind.ATTENTION, f"{name}/attend", x, (tokens, block.width), scores_and_sum, {})
    return net.fc(x, block.width, bias=block.bias, name=f"{name}/proj", kind=LayerKind.ATTENTION)


def _feed_forward(net: Network, x: Node, block: Block, name: str) -> Node:
    """The product that goes up, the non-linearity, and the product that goes down."""
    x = net.fc(x, block.ffn, bias=block.bias, name=f"{name}/up")
    return net.fc(x, block.width, bias=block.bias, name=f"{name}/down")


def _blocks(net: Network, x: Node, count: int, block: Block) -> Node:
    """`count` blocks of attention and feed-forward, with a residual connection around each half."""
    for index in range(count):
        for half, part in ((_attend, "attention"), (_feed_forward, "ffn")):
            name = f"block{index}/{part}"
            if block.norm_first:
                y = half(net, net.layer_norm(x, f"{name}/norm", block.norm_tensors), block, name)
                x = net.add(x, y, f"{name}/add")
            else:
                x = net.add(x, half(net, x, block, name), f"{name}/add")
                x = net.layer_norm(x, f"{name}/norm", block.norm_tensors)
    return x


def _tied_output(net: Network, x: Node, words: int, bias: bool, name: str) -> Node:
    """Logits over the vocabulary with the embedding's own weights, whose gradient is complete only at the embedding."""
    tensors = {"biases": words} if bias else {}
    return net.layer(LayerKind.FC, name, x, (x.shape[0], words), 2 * x.elements * words, tensors)


def _first_token(x: Node) -> Node:
    """The features of the class token."""
    return Node((x.shape[-1],), x.reads)


def bert_large() -> Profile:
    """336.2 M parameters in 398 tensors: 335.1 M of the encoder (340 M in the paper), and the two pre-training heads.

    512 tokens, 15 % of them (77) masked and predicted, as in phase 2 of pre-training.
    """
    tokens, masked, width, words = 512, 77, 1024, 30522
    net = Network(tokens)
    x = net.embedding(tokens, width, {"words": words, "positions": 512, "segments": 2}, "embeddings")
    x = net.layer_norm(x, "embeddings/norm")
    separate = {"query": width, "key": width, "value": width}
    x = _blocks(net, x, 24, Block(width, separate, 4 * width, norm_first=False))
    pooled = net.fc(_first_token(x), width, name="pooler")
    predicted = net.layer_norm(net.fc(Node((masked, width), x.reads), width, name="mlm/dense"), "mlm/norm")
    mlm = _tied_output(net, predicted, words, True, "mlm/decoder")
    nsp = net.fc(pooled, 2, name="next_sentence")
    net.layer(LayerKind.OTHER, "loss", Node((masked, words), mlm.reads + nsp.reads), (1,), masked * words, {})
    return net.profile(
        "bert-large", 16, "Devlin et al. 2018, BERT-large, uncased vocabulary; public checkpoint 335,141,888"
    )


def gpt2_xl() -> Profile:
    """1557.6 M parameters in 580 tensors (Radford et al. 2019; 1.5 B in the paper), output tied to the embedding."""
    tokens, width, words = 1024, 1600, 50257
    net = Network(tokens)
    x = net.embedding(tokens, width, {"words": words, "positions": tokens}, "embeddings")
    x = _blocks(net, x, 48, Block(width, {"fused": 3 * width}, 4 * width))
    _tied_output(net, net.layer_norm(x, "final_norm"), words, False, "lm_head")
    return net.profile("gpt2-xl", 4, "Radford et al. 2019, GPT-2 1558M; public checkpoint 1,557,611,200")


def vit_l16() -> Profile:
    """304.3 M parameters in 296 tensors (Dosovitskiy et al. 2020, ViT-L/16, 307 M in the paper with its larger
    head)."""
    width, side, patch = 1024, 224, 16
    tokens = (side // patch) ** 2 + 1
    net = Network(3, side, side)
    patches = net.conv(net.sample, width, patch, patch, "valid", bias=True, name="patches")
    tensors = {"class_token": width, "positions": tokens * width}
    x = net.layer(LayerKind.EMBEDDING, "embeddings", patches, (tokens, width), tokens * width, tensors)
    x = _blocks(net, x, 24, Block(width, {"fused": 3 * width}, 4 * width))
    net.fc(_first_token(net.layer_norm(x, "final_norm")), 1000, name="head")
    return net.profile(
        "vit-l16", 64, "Dosovitskiy et al. 2020, ViT-L/16; torchvision vit_l_16 has 304,326,632 parameters"
    )
