"""The layers of transformers, from their shapes.

A sample is a sequence, or an image. Counts follow the public checkpoints: one tensor per matrix, and per matrix of each
expert. Operations are those of a forward pass in which every token looks at every other, for a causal mask is not
deducted, as in Narayanan et al. 2021. Of a mixture, only the experts that a token goes through cost operations; that
all experts get as many tokens is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.shapes import NORM_FLOPS_PER_ELEMENT, Network, Node
from gradwire.workloads.models.transformer_shapes import (
    LAYER_NORM,
    Experts,
    Head,
    Indexer,
    Latent,
    Norms,
    QueryKeyNorm,
    Transformer,
)

MASKED_SHARE = 0.15
"""Tokens that BERT has to predict (Devlin et al. 2018, section 3.1)."""
SENTENCE_ORDERS = 2
"""Whether the second sentence follows the first, or not."""


def transformer_profile(name: str, shape: Transformer, batch: int, source: str) -> Profile:
    """The layers of a transformer, with their tensors in the order of the checkpoints."""
    net = (
        Network(shape.patches.channels, shape.patches.image, shape.patches.image)
        if shape.patches
        else Network(shape.tokens)
    )
    x = _image_embedding(net, shape) if shape.patches else _word_embedding(net, shape, "")
    if not shape.decoder_blocks:
        x = _blocks(net, x, shape, "")
    else:
        encoded = _blocks(net, x, shape, "encoder/")
        later = replace(shape, blocks=shape.decoder_blocks)
        x = _blocks(net, _word_embedding(net, later, "decoder/"), later, "decoder/", encoded)
    _head(net, x, shape)
    profile = net.profile(name, batch, source)
    if not shape.same_blocks:
        return profile
    layers = (
        replace(layer, tensors=()) if layer.name.startswith("block") and not layer.name.startswith("block0/") else layer
        for layer in profile.layers
    )
    return replace(profile, layers=tuple(layers))


def _word_embedding(net: Network, shape: Transformer, at: str) -> Node:
    """The sum of what the tables have for each token. A decoder behind an encoder has the encoder's table of words."""
    width = shape.word_width or shape.width
    tables = {"words": shape.words} if not at else {}
    tables |= {"positions": shape.positions} if shape.positions and not shape.words_alone else {}
    tables |= {"segments": shape.segments} if shape.segments else {}
    x = net.embedding(shape.tokens, width, tables, f"{at}embeddings")
    if shape.embedding_norm:
        x = net.layer_norm(x, f"{at}embeddings/norm", shape.norm)
    if width != shape.width:
        x = net.fc(x, shape.width, bias=not shape.words_alone, name=f"{at}embeddings/product")
    if shape.words_alone:
        places = net.embedding(shape.tokens, shape.width, {"positions": shape.positions}, "positions")
        x = net.add(x, places, "embeddings/add")
    return x


def _image_embedding(net: Network, shape: Transformer) -> Node:
    patches = shape.patches
    assert patches is not None  # the caller has looked
    x = net.conv(net.sample, shape.width, patches.patch, patches.patch, "valid", bias=True, name="patches")
    tensors = {"class_token": shape.width, "positions": shape.tokens * shape.width}
    shaped = (shape.tokens, shape.width)
    return net.layer(LayerKind.EMBEDDING, "embeddings", x, shaped, math.prod(shaped), tensors)


def _blocks(net: Network, x: Node, shape: Transformer, stack: str, encoded: Node | None = None) -> Node:
    """A stack of blocks, each of which attends to what an encoder yields as well, if there is one."""
    for number in range(shape.blocks):
        at = f"{stack}block{number}"
        buckets = shape.buckets if shape.buckets_in_all or not number else 0
        mixes = shape.experts is not None and shape.experts.in_block(number)
        if shape.norms in (Norms.SHARED, Norms.OWN):
            x = _parallel_halves(net, x, shape, mixes, f"{at}/both")
            continue
        y, behind = _half_input(net, x, shape, f"{at}/attention")
        x = behind(_attention(net, y, shape, f"{at}/attention", buckets))
        if encoded is not None:
            y, behind = _half_input(net, x, shape, f"{at}/cross")
            x = behind(_cross_attention(net, y, encoded, shape, f"{at}/cross"))
        y, behind = _half_input(net, x, shape, f"{at}/ffn")
        x = behind(_feed_forward(net, y, shape, mixes, f"{at}/ffn"))
    return net.layer_norm(x, f"{stack}final_norm", shape.norm) if shape.final_norm else x


def _half_input(net: Network, x: Node, shape: Transformer, at: str) -> tuple[Node, Callable[[Node], Node]]:
    """What a half of a block reads, and what becomes of what it yields: normalisations and the sum with `x`."""
    before = shape.norms in (Norms.BEFORE, Norms.AROUND)

    def summed(y: Node) -> Node:
        if shape.norms in (Norms.BEHIND, Norms.AROUND):
            y = net.layer_norm(y, f"{at}/norm_behind", shape.norm)
        y = net.add(x, y, f"{at}/add")
        return net.layer_norm(y, f"{at}/norm", shape.norm) if shape.norms is Norms.ON_SUM else y

    return (net.layer_norm(x, f"{at}/norm", shape.norm) if before else x), summed


def _parallel_halves(net: Network, x: Node, shape: Transformer, mixes: bool, at: str) -> Node:
    """Attention and the feed-forward part of the same input, added to it together."""
    normed = net.layer_norm(x, f"{at}/norm", shape.norm)
    attended = _attention(net, normed, shape, at, 0)
    own = net.layer_norm(x, f"{at}/ffn_norm", shape.norm) if shape.norms is Norms.OWN else normed
    fed = _feed_forward(net, own, shape, mixes, at)
    return net.add(x, _joined(attended, fed), f"{at}/add")


def _joined(x: Node, *others: Node) -> Node:
    """The shape of the first activation, and the layers of all."""
    return Node(x.shape, tuple(dict.fromkeys(read for node in (x, *others) for read in node.reads)))


def _attention(net: Network, x: Node, shape: Transformer, at: str, buckets: int) -> Node:
    """Projections, scores of every token with every other, weighted sum, and projection back."""
    if shape.latent is not None:
        return _latent_attention(net, x, shape, shape.latent, at)
    queries, keys = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    parts = {"fused": queries + 2 * keys} if shape.fused_qkv else {"query": queries, "key": keys, "value": keys}
    x = net.fc(x, parts, bias=shape.qkv_bias, name=f"{at}/qkv", kind=LayerKind.ATTENTION)
    if shape.query_key_norm is not QueryKeyNorm.NONE:
        x = _query_key_norm(net, x, shape, f"{at}/qk_norm")
    scores = {"sinks": shape.heads} if shape.sinks else {}
    scores |= {"distances": buckets * shape.heads} if buckets else {}
    return _scores_and_projection(net, x, shape, (shape.head_width, shape.head_width), at, scores)


def _query_key_norm(net: Network, x: Node, shape: Transformer, name: str) -> Node:
    """Normalises queries and keys, and passes values on."""
    heads = {"query": shape.heads, "key": shape.key_value_heads}
    of_head = shape.query_key_norm is QueryKeyNorm.HEAD
    tensors = {
        f"{part}_{tensor}": shape.head_width * (1 if of_head else count)
        for part, count in heads.items()
        for tensor in shape.norm
    }
    flops = NORM_FLOPS_PER_ELEMENT * shape.tokens * sum(heads.values()) * shape.head_width
    return net.layer(LayerKind.NORM, name, x, x.shape, flops, tensors)


def _cross_attention(net: Network, x: Node, encoded: Node, shape: Transformer, at: str) -> Node:
    """Queries of the decoder's tokens, and keys and values of the encoder's."""
    inner = shape.heads * shape.head_width
    kind, bias = LayerKind.ATTENTION, shape.qkv_bias
    queries = net.fc(x, {"query": inner}, bias=bias, name=f"{at}/q", kind=kind)
    keys = net.fc(encoded, {"key": inner, "value": inner}, bias=bias, name=f"{at}/kv", kind=kind)
    return _scores_and_projection(net, _joined(queries, keys), shape, (shape.head_width, shape.head_width), at)


def _latent_attention(net: Network, x: Node, shape: Transformer, latent: Latent, at: str) -> Node:
    """Queries, and keys with values, each by two products with a normalisation between; the rotary keys of all heads
    are the same."""
    kind, keys = LayerKind.ATTENTION, latent.plain + latent.rotary
    down = x
    if latent.query_rank:
        down = net.fc(x, latent.query_rank, bias=shape.qkv_bias, name=f"{at}/query_down", kind=kind)
        down = net.layer_norm(down, f"{at}/query_norm", shape.norm)
    queries = net.fc(down, shape.heads * keys, bias=False, name=f"{at}/query_up", kind=kind)
    both = net.fc(x, latent.key_value_rank + latent.rotary, bias=shape.qkv_bias, name=f"{at}/kv_down", kind=kind)
    kept = net.layer_norm(Node((shape.tokens, latent.key_value_rank), both.reads), f"{at}/kv_norm", shape.norm)
    up = net.fc(kept, shape.heads * (latent.plain + latent.value), bias=False, name=f"{at}/kv_up", kind=kind)
    joined = Node(up.shape, queries.reads + up.reads + both.reads)
    if shape.indexer is not None:
        joined = _joined(joined, _index(net, x, down, shape.indexer, at))
    return _scores_and_projection(net, joined, shape, (keys, latent.value), at)


def _index(net: Network, x: Node, queries: Node, indexer: Indexer, at: str) -> Node:
    """Scores of every token with every other, by few heads that have one key and a weight each."""
    kind, tokens = LayerKind.ATTENTION, x.shape[0]
    wanted = net.fc(queries, indexer.heads * indexer.head_width, bias=False, name=f"{at}/index/query", kind=kind)
    key = net.fc(x, indexer.head_width, bias=False, name=f"{at}/index/key", kind=kind)
    key = net.layer_norm(key, f"{at}/index/key_norm", LAYER_NORM)
    weights = net.fc(x, indexer.heads, bias=False, name=f"{at}/index/weights", kind=kind)
    flops = 2 * tokens * tokens * indexer.heads * indexer.head_width
    return net.layer(kind, f"{at}/index/attend", _joined(wanted, key, weights), (tokens, indexer.chosen), flops, {})


def _scores_and_projection(
    net: Network,
    x: Node,
    shape: Transformer,
    widths: tuple[int, int],
    at: str,
    tensors: Mapping[str, int] = MappingProxyType({}),
) -> Node:
    """widths: features of a head's keys, of which scores are made, and of its values, which are summed."""
    few = shape.indexer is not None and shape.indexer.chosen < shape.tokens
    seen = shape.indexer.chosen if few and shape.indexer else shape.tokens
    flops = 2 * shape.tokens * seen * shape.heads * sum(widths)
    summed = (shape.tokens, shape.heads * widths[1])
    # Longer samples cost what is called "attend" in the square of their tokens (workloads/models/resized.py).
    x = net.layer(LayerKind.ATTENTION, f"{at}/{'select' if few else 'attend'}", x, summed, flops, tensors)
    return net.fc(x, shape.width, bias=shape.proj_bias, name=f"{at}/proj", kind=LayerKind.ATTENTION)


def _feed_forward(net: Network, x: Node, shape: Transformer, mixes: bool, at: str) -> Node:
    if mixes and shape.experts is not None:
        return _mixture(net, x, shape, shape.experts, at)
    return _two_products(net, x, shape, shape.ffn, at)


def _two_products(net: Network, x: Node, shape: Transformer, ffn: int, at: str) -> Node:
    """The product that goes up, with its gate if there is one, and the product that goes down."""
    if shape.gated:
        parts = {"gate_up": 2 * ffn} if shape.fused_gate else {"gate": ffn, "up": ffn}
        both = net.fc(x, parts, bias=shape.ffn_bias, name=f"{at}/up")
        up = Node((shape.tokens, ffn), both.reads)
    else:
        up = net.fc(x, ffn, bias=shape.ffn_bias, name=f"{at}/up")
    return net.fc(up, shape.width, bias=shape.ffn_bias, name=f"{at}/down")


def _mixture(net: Network, x: Node, shape: Transformer, experts: Experts, at: str) -> Node:
    """A router, the experts that it chooses for each token, and those that all tokens share."""
    scores = net.fc(x, experts.count, bias=experts.router_bias, name=f"{at}/router")
    routed = Node(x.shape, tuple(dict.fromkeys(scores.reads + x.reads)))
    tensors, rows = _expert_tensors(shape, experts)
    flops = 2 * shape.tokens * experts.per_token * sum(_matrices(shape, experts.ffn).values())
    y = net.layer(LayerKind.FC, f"{at}/experts", routed, x.shape, flops, tensors, rows=rows)
    if not experts.shared_features:
        return y
    shared = _two_products(net, x, shape, experts.shared_features, f"{at}/shared")
    if experts.shared_gate:
        shared = _joined(shared, net.fc(x, 1, bias=False, name=f"{at}/shared_gate"))
    return net.add(y, shared, f"{at}/joined")


def _expert_tensors(shape: Transformer, experts: Experts) -> tuple[Mapping[str, int], int]:
    """The experts' tensors, and the first axis of their weights: the experts, where these are one tensor."""
    one, biases = _matrices(shape, experts.ffn), {"gate": experts.ffn, "up": experts.ffn, "down": shape.width}
    if experts.fused:
        gate_up = {part: size for part, size in one.items() if part != "down"}
        sizes = {
            "up_weights": sum(gate_up.values()),
            "up_biases": sum(biases[part] for part in gate_up),
            "down_weights": one["down"],
            "down_biases": biases["down"],
        }
        return {
            f"all/{part}": experts.count * size
            for part, size in sizes.items()
            if experts.bias or part.endswith("weights")
        }, experts.count
    tensors: dict[str, int] = {}
    for number in range(experts.count):
        for part, size in one.items():
            tensors[f"expert{number}/{part}_weights"] = size
            if experts.bias:
                tensors[f"expert{number}/{part}_biases"] = biases[part]
    return tensors, shape.width


def _matrices(shape: Transformer, ffn: int) -> Mapping[str, int]:
    size = shape.width * ffn
    return {"gate": size, "up": size, "down": size} if shape.gated else {"up": size, "down": size}


def _head(net: Network, x: Node, shape: Transformer) -> None:
    """The layers behind the last block."""
    first = Node((x.shape[-1],), x.reads)
    pooled = net.fc(first, shape.width, name="pooler") if shape.pooler else first
    match shape.head:
        case Head.LANGUAGE:
            if shape.words_alone:
                x = net.fc(x, shape.word_width, bias=False, name="lm_head/product")
            _words(net, x, shape, "lm_head", shape.head_bias)
        case Head.CLASSES:
            net.fc(pooled, shape.classes, name="head")
        case Head.MASKED | Head.PRETRAINING:
            _masked_words(net, x, pooled, shape)
        case Head.NONE:
            pass


def _words(net: Network, x: Node, shape: Transformer, name: str, bias: bool) -> Node:
    """Logits over the vocabulary; with the embedding's own weights, whose gradient is complete only at the
    embedding."""
    if not shape.tied:
        return net.fc(x, shape.words, bias=bias, name=name)
    tensors = {"biases": shape.words} if bias else {}
    flops = 2 * x.elements * shape.words
    return net.layer(LayerKind.FC, name, x, (x.shape[0], shape.words), flops, tensors)


def _masked_words(net: Network, x: Node, pooled: Node, shape: Transformer) -> None:
    """A prediction of the masked tokens and, in BERT's pre-training, of whether the second sentence follows the
    first."""
    masked = math.ceil(MASKED_SHARE * shape.tokens)
    dense = net.fc(Node((masked, shape.width), x.reads), shape.word_width or shape.width, name="mlm/dense")
    words = _words(net, net.layer_norm(dense, "mlm/norm"), shape, "mlm/decoder", True)
    if shape.head is Head.PRETRAINING:
        order = net.fc(pooled, SENTENCE_ORDERS, name="next_sentence")
        both = Node((masked, shape.words), words.reads + order.reads)
        net.layer(LayerKind.OTHER, "loss", both, (1,), masked * shape.words, {})
