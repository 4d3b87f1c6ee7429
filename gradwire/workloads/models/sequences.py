"""Sockeye's recurrent translation.

It has the configuration of P3's public scripts (Hieber et al., 2017): two encoder and two decoder LSTM layers of
512, embeddings of 512, MLP attention, IWSLT'15 English to Vietnamese. The paper prints neither the size nor the
vocabulary, so the vocabulary and the sentence lengths here are those of the data set.

A sample is a sequence.
"""

from __future__ import annotations

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
