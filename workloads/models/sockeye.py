"""Sockeye's recurrent translation model, in the configuration of P3's public scripts (Hieber et al., 2017).

Two encoder and two decoder LSTM layers of 512, embeddings of 512, MLP attention, IWSLT'15 English to Vietnamese. The paper
prints neither the size nor the vocabulary, so the vocabulary and the sentence lengths here are those of the data set.
"""

from __future__ import annotations

from workloads.profile import LayerKind, Profile
from workloads.shapes import Network, Node

SOURCE_WORDS = 17191
TARGET_WORDS = 7709
"""Stanford's vocabularies for IWSLT'15 en-vi (Luong and Manning, 2015)."""
SOURCE_TOKENS = 20
TARGET_TOKENS = 25
"""Average sentence of the 133 thousand training pairs, about 2.7 M English and 3.3 M Vietnamese words."""
HIDDEN = 512
EMBED = 512


def _lstm(net: Network, x: Node, hidden: int, name: str) -> Node:
    """MXNet's LSTMCell: four gates, each from the input and from the previous state, over all tokens of `x`."""
    tokens, features = x.shape
    gates = 4 * hidden
    tensors = {
        "i2h_weight": gates * features,
        "i2h_bias": gates,
        "h2h_weight": gates * hidden,
        "h2h_bias": gates,
    }
    flops = 2 * tokens * gates * (features + hidden)
    return net.layer(LayerKind.LSTM, name, x, (tokens, hidden), flops, tensors)


def _encoder(net: Network) -> Node:
    """A bidirectional layer, half of the width a direction, and a layer on top."""
    x = net.embedding(SOURCE_TOKENS, EMBED, {"weight": SOURCE_WORDS}, "source_embed")
    forward = _lstm(net, x, HIDDEN // 2, "encoder_birnn_forward_l0")
    reverse = _lstm(net, x, HIDDEN // 2, "encoder_birnn_reverse_l0")
    both = Node((SOURCE_TOKENS, HIDDEN), forward.reads + reverse.reads)
    return _lstm(net, both, HIDDEN, "encoder_rnn_l1")


def _attention(net: Network, keys: Node, states: Node) -> Node:
    """MLP attention: a score for each pair of tokens, and the weighted sum of the encoder's states."""
    query = net.fc(states, HIDDEN, bias=False, name="att_query", kind=LayerKind.ATTENTION)
    pair = Node(states.shape, query.reads + keys.reads)
    scores_and_sum = 2 * TARGET_TOKENS * SOURCE_TOKENS * (HIDDEN + HIDDEN)
    return net.layer(LayerKind.ATTENTION, "att_score", pair, states.shape, scores_and_sum, {"weight": HIDDEN})


def sockeye() -> Profile:
    """The heaviest layer is the first one, the source embedding (P3, Fig. 5 d)."""
    net = Network(SOURCE_TOKENS)
    encoded = _encoder(net)
    keys = net.fc(encoded, HIDDEN, bias=False, name="att_source", kind=LayerKind.ATTENTION)
    last = Node((HIDDEN,), encoded.reads)
    # One start value for each of the two decoder layers' two states (hidden and cell).
    start = net.fc(last, {f"init{index}": HIDDEN for index in range(4)}, name="decoder_init")
    words = net.embedding(TARGET_TOKENS, EMBED, {"weight": TARGET_WORDS}, "target_embed")
    # Input feeding: the previous attention output joins each word.
    fed = Node((TARGET_TOKENS, EMBED + HIDDEN), words.reads + start.reads)
    states = _lstm(net, _lstm(net, fed, HIDDEN, "decoder_rnn_l0"), HIDDEN, "decoder_rnn_l1")
    context = _attention(net, keys, states)
    joined = Node((TARGET_TOKENS, 2 * HIDDEN), states.reads + context.reads)
    hidden = net.fc(joined, HIDDEN, name="decoder_hidden")
    net.fc(hidden, TARGET_WORDS, name="target_output")
    return net.profile("sockeye", 32, "P3 Sec. 5.1 and its public scripts; Sockeye; IWSLT'15 en-vi vocabulary assumed")
