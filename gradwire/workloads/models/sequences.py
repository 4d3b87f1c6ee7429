"""Models of sequences that fit on one GPU: Sockeye's recurrent translation, and the transformers BERT-base and
BERT-large, GPT-2 XL and ViT-L/16.

Sockeye has the configuration of P3's public scripts (Hieber et al., 2017): two encoder and two decoder LSTM layers of
512, embeddings of 512, MLP attention, IWSLT'15 English to Vietnamese. The paper prints neither the size nor the
vocabulary, so the vocabulary and the sentence lengths here are those of the data set.

A sample is a sequence. The transformers' batch sizes are this project's choice: what one 80 GB GPU holds. A scenario
may set another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.shapes import Network, Node

SOURCE_WORDS = 17191
TARGET_WORDS = 7709
"""Stanford's vocabularies for IWSLT'15 en-vi (Luong and Manning, 2015)."""
SOURCE_TOKENS = 20
TARGET_TOKENS = 25
"""Average length of a sentence in the 133 thousand training pairs, which have about 2.7 M English and 3.3 M Vietnamese
words."""
HIDDEN = 512
EMBED = 512


def _cell(inputs: int, hidden: int, name: str = "") -> dict[str, int]:
    """Tensors of MXNet's LSTMCell: four gates, each computed from the input and from the previous state."""
    gates = 4 * hidden
    return {
        f"{name}i2h_weight": gates * inputs,
        f"{name}i2h_bias": gates,
        f"{name}h2h_weight": gates * hidden,
        f"{name}h2h_bias": gates,
    }


def _cell_flops(inputs: int, hidden: int) -> int:
    """FLOPs of a cell for one token."""
    return 2 * 4 * hidden * (inputs + hidden)


def _lstm(net: Network, x: Node, hidden: int, name: str) -> Node:
    """A layer of cells that processes all tokens of `x`."""
    tokens, features = x.shape
    flops = tokens * _cell_flops(features, hidden)
    return net.layer(LayerKind.LSTM, name, x, (tokens, hidden), flops, _cell(features, hidden))


def _encoder(net: Network) -> Node:
    """A bidirectional layer, with half of the width per direction, and a layer on top."""
    x = net.embedding(SOURCE_TOKENS, EMBED, {"weight": SOURCE_WORDS}, "source_embed")
    forward = _lstm(net, x, HIDDEN // 2, "encoder_birnn_forward_l0")
    reverse = _lstm(net, x, HIDDEN // 2, "encoder_birnn_reverse_l0")
    both = Node((SOURCE_TOKENS, HIDDEN), forward.reads + reverse.reads)
    return _lstm(net, both, HIDDEN, "encoder_rnn_l1")


def _decoder(net: Network, fed: Node) -> Node:
    """Two cells, MLP attention over the source and the layer that joins both, which process one word after the other.

    Input feeding makes them one layer: the result of the last of them for a word enters the first one together with
    the next word. Every step therefore needs all of their tensors, and no gradient is complete until the backward pass
    has processed the first word.
    """
    tensors = {
        **_cell(EMBED + HIDDEN, HIDDEN, "rnn_l0_"),
        **_cell(HIDDEN, HIDDEN, "rnn_l1_"),
        "att_query_weight": HIDDEN * HIDDEN,
        "att_score_weight": HIDDEN,
        "hidden_weight": 2 * HIDDEN * HIDDEN,
        "hidden_bias": HIDDEN,
    }
    cells = _cell_flops(EMBED + HIDDEN, HIDDEN) + _cell_flops(HIDDEN, HIDDEN)
    attention = 2 * HIDDEN * HIDDEN + 2 * SOURCE_TOKENS * (HIDDEN + HIDDEN)
    flops = TARGET_TOKENS * (cells + attention + 2 * 2 * HIDDEN * HIDDEN)
    return net.layer(LayerKind.LSTM, "decoder", fed, (TARGET_TOKENS, HIDDEN), flops, tensors)


def sockeye() -> Profile:
    """The heaviest layer is the first one, the source embedding (P3, Fig. 5 d)."""
    net = Network(SOURCE_TOKENS)
    encoded = _encoder(net)
    keys = net.fc(encoded, HIDDEN, bias=False, name="att_source", kind=LayerKind.ATTENTION)
    last = Node((HIDDEN,), encoded.reads)
    # One start value for each of the two decoder layers' two states (hidden and cell).
    start = net.fc(last, {f"init{index}": HIDDEN for index in range(4)}, name="decoder_init")
    words = net.embedding(TARGET_TOKENS, EMBED, {"weight": TARGET_WORDS}, "target_embed")
    fed = Node((TARGET_TOKENS, EMBED + HIDDEN), words.reads + start.reads + keys.reads)
    hidden = _decoder(net, fed)
    net.fc(hidden, TARGET_WORDS, name="target_output")
    return net.profile("sockeye", 32, "P3 Sec. 5.1 and its public scripts; Sockeye; IWSLT'15 en-vi vocabulary assumed")


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


def _bert(blocks: int, width: int, tokens: int, masked: int) -> Network:
    """An encoder and the two pre-training heads (Devlin et al. 2018), for `masked` of the tokens to be predicted."""
    words = 30522
    net = Network(tokens)
    x = net.embedding(tokens, width, {"words": words, "positions": 512, "segments": 2}, "embeddings")
    x = net.layer_norm(x, "embeddings/norm")
    separate = {"query": width, "key": width, "value": width}
    x = _blocks(net, x, blocks, Block(width, separate, 4 * width, norm_first=False))
    pooled = net.fc(_first_token(x), width, name="pooler")
    predicted = net.layer_norm(net.fc(Node((masked, width), x.reads), width, name="mlm/dense"), "mlm/norm")
    mlm = _tied_output(net, predicted, words, True, "mlm/decoder")
    nsp = net.fc(pooled, 2, name="next_sentence")
    net.layer(LayerKind.OTHER, "loss", Node((masked, words), mlm.reads + nsp.reads), (1,), masked * words, {})
    return net


def bert_large() -> Profile:
    """336.2 M parameters in 398 tensors: 335.1 M of the encoder (340 M in the paper), and the two pre-training heads.

    512 tokens, 15 % of them (77) masked and predicted, as in phase 2 of pre-training.
    """
    return _bert(24, 1024, 512, 77).profile(
        "bert-large", 16, "Devlin et al. 2018, BERT-large, uncased vocabulary; public checkpoint 335,141,888"
    )


def bert_base() -> Profile:
    """110.1 M parameters: 109.5 M of the encoder (110 M in the paper), and the two pre-training heads.

    128 tokens, at most 20 of them masked and predicted, as in phase 1 of pre-training.
    """
    return _bert(12, 768, 128, 20).profile(
        "bert-base", 32, "Devlin et al. 2018, BERT-base, uncased vocabulary; public checkpoint 109,482,240"
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
