"""Inception v1, v2 and v3 as TF-slim builds them: convolutions without bias, batch normalisation with beta alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.shapes import Network, Node, Padding, Window, concat

Step = tuple[int, Window] | tuple[int, Window, int]
"""A convolution in a branch: channels, kernel and, if it is not 1, stride."""
BETA = ("beta",)
CLASSES = 1000


def _branch(net: Network, x: Node, name: str, steps: Sequence[Step], padding: Padding = "same") -> Node:
    """Convolutions in a row. `padding` applies to the strided ones."""
    for letter, step in zip("abcde", steps, strict=False):
        stride = step[2] if len(step) == 3 else 1
        x = net.conv_norm(x, step[0], step[1], stride, "same" if stride == 1 else padding, name=f"{name}{letter}")
    return x


def _pooled(net: Network, x: Node, name: str, width: int) -> Node:
    """A 3x3 pooling and a 1x1 convolution."""
    return net.conv_norm(net.pool(x, 3, 1, "same", name=f"{name}/pool"), width, 1, name=f"{name}/branch3")


def _mixed(net: Network, x: Node, name: str, branches: Sequence[Sequence[Step]], pool_width: int) -> Node:
    """Branches side by side on one input, with a pooled one last."""
    outputs = [_branch(net, x, f"{name}/branch{index}", steps) for index, steps in enumerate(branches)]
    return concat(*outputs, _pooled(net, x, name, pool_width))


def _reduction(net: Network, x: Node, name: str, branches: Sequence[Sequence[Step]], padding: Padding) -> Node:
    """Branches that end with stride 2, in parallel with a maximum pooling of stride 2."""
    outputs = [_branch(net, x, f"{name}/branch{index}", steps, padding) for index, steps in enumerate(branches)]
    return concat(*outputs, net.pool(x, 3, 2, padding, name=f"{name}/pool"))


V1_MIXED: dict[str, tuple[int, int, int, int, int, int]] = {
    "3b": (64, 96, 128, 16, 32, 32),
    "3c": (128, 128, 192, 32, 96, 64),
    "4b": (192, 96, 208, 16, 48, 64),
    "4c": (160, 112, 224, 24, 64, 64),
    "4d": (128, 128, 256, 24, 64, 64),
    "4e": (112, 144, 288, 32, 64, 64),
    "4f": (256, 160, 320, 32, 128, 128),
    "5b": (256, 160, 320, 32, 128, 128),
    "5c": (384, 192, 384, 48, 128, 128),
}
"""1x1 | 1x1, 3x3 | 1x1, 3x3 | pooled 1x1: GoogLeNet's Table 1; TF-slim has 3x3 where the paper has 5x5."""


def inception_v1() -> Profile:
    """6.62 M parameters in 116 tensors, 25.24 MiB (TicTac, Table 1)."""
    net = Network(3, 224, 224, norm_tensors=BETA)
    x = net.conv_norm(net.sample, 64, 7, 2, name="conv1a")
    x = net.pool(x, 3, 2, "same", name="pool2")
    x = net.conv_norm(x, 64, 1, name="conv2b")
    x = net.conv_norm(x, 192, 3, name="conv2c")
    for stage, window in (("3", 3), ("4", 3), ("5", 2)):
        x = net.pool(x, window, 2, "same", name=f"pool{stage}")
        for name, (one, three_in, three, five_in, five, pooled) in V1_MIXED.items():
            if name.startswith(stage):
                branches: list[list[Step]] = [[(one, 1)], [(three_in, 1), (three, 3)], [(five_in, 1), (five, 3)]]
                x = _mixed(net, x, f"mixed_{name}", branches, pooled)
    net.fc(net.global_pool(x, "pool6"), CLASSES, name="logits")
    return net.profile("inception-v1", 128, "TicTac Table 1; TF-slim inception_v1; Szegedy et al. 2014")


V2_MIXED: dict[str, tuple[int, int, int, int, int, int]] = {
    "3b": (64, 64, 64, 64, 96, 32),
    "3c": (64, 64, 96, 64, 96, 64),
    "4b": (224, 64, 96, 96, 128, 128),
    "4c": (192, 96, 128, 96, 128, 128),
    "4d": (160, 128, 160, 128, 160, 96),
    "4e": (96, 128, 192, 160, 192, 96),
    "5b": (352, 192, 320, 160, 224, 128),
    "5c": (352, 192, 320, 192, 224, 128),
}
"""1x1 | 1x1, 3x3 | 1x1, 3x3, 3x3 | pooled 1x1: Ioffe and Szegedy 2015, Fig. 5."""
V2_REDUCTIONS: dict[str, list[list[Step]]] = {
    "4": [[(128, 1), (160, 3, 2)], [(64, 1), (96, 3), (96, 3, 2)]],
    "5": [[(128, 1), (192, 3, 2)], [(192, 1), (256, 3), (256, 3, 2)]],
}


def _separable_root(net: Network) -> Node:
    """TF-slim's first layer: a 7x7 depthwise convolution of 8 filters per colour, then 1x1 to 64 channels."""
    colours, filters = net.sample.shape[0], 8
    x = net.conv(net.sample, colours * filters, 7, 2, groups=colours, name="conv1a_depthwise")
    return net.conv_norm(x, 64, 1, name="conv1a_pointwise")


def inception_v2() -> Profile:
    """11.18 M parameters in 141 tensors, 42.64 MiB (TicTac, Table 1)."""
    net = Network(3, 224, 224, norm_tensors=BETA)
    x = net.pool(_separable_root(net), 3, 2, "same", name="pool2")
    x = net.conv_norm(x, 64, 1, name="conv2b")
    x = net.conv_norm(x, 192, 3, name="conv2c")
    x = net.pool(x, 3, 2, "same", name="pool3")
    for stage in "345":
        if stage in V2_REDUCTIONS:
            x = _reduction(net, x, f"mixed_{stage}a", V2_REDUCTIONS[stage], "same")
        for name, (one, three_in, three, double_in, double, pooled) in V2_MIXED.items():
            if name.startswith(stage):
                branches: list[list[Step]] = [
                    [(one, 1)],
                    [(three_in, 1), (three, 3)],
                    [(double_in, 1), (double, 3), (double, 3)],
                ]
                x = _mixed(net, x, f"mixed_{name}", branches, pooled)
    net.fc(net.global_pool(x, "pool6"), CLASSES, name="logits")
    return net.profile("inception-v2", 128, "TicTac Table 1; TF-slim inception_v2; Ioffe and Szegedy 2015")


def module_35(net: Network, x: Node, name: str, pool_width: int = 64) -> Node:
    """Inception v3's module on 35x35 images; with 64 pooled channels it yields 288 channels (Szegedy et al. 2015, Fig.
    5)."""
    branches: list[list[Step]] = [[(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)]]
    return _mixed(net, x, name, branches, pool_width)


def module_17(net: Network, x: Node, name: str, width: int = 192) -> Node:
    """Inception v3's module on 17x17 images, its 7x7 convolutions split into 1x7 and 7x1; yields 768 channels (Fig.
    6)."""
    row, column = (1, 7), (7, 1)
    branches: list[list[Step]] = [
        [(192, 1)],
        [(width, 1), (width, row), (192, column)],
        [(width, 1), (width, column), (width, row), (width, column), (192, row)],
    ]
    return _mixed(net, x, name, branches, 192)


def _module_8(net: Network, x: Node, name: str) -> Node:
    """Inception v3's module on 8x8 images, with two branches that fork once more; yields 2048 channels (Fig. 7)."""
    row, column = (1, 3), (3, 1)
    one = net.conv_norm(x, 320, 1, name=f"{name}/branch0")
    stem = net.conv_norm(x, 384, 1, name=f"{name}/branch1a")
    forks = [net.conv_norm(stem, 384, kernel, name=f"{name}/branch1{k}") for k, kernel in (("b", row), ("c", column))]
    stem = _branch(net, x, f"{name}/branch2", [(448, 1), (384, 3)])
    forks += [net.conv_norm(stem, 384, kernel, name=f"{name}/branch2{k}") for k, kernel in (("c", row), ("d", column))]
    return concat(one, *forks, _pooled(net, x, name, 192))


def _v3_trunk(net: Network, *, head: bool = False) -> tuple[Node, Node]:
    """The layers before the classifiers. Yields the last activation, and that of the last 17x17 module for the
    auxiliary head.

    With `head`, the auxiliary head is created right after that module, and its result is the second node.
    """
    x = net.conv_norm(net.sample, 32, 3, 2, "valid", name="conv1a")
    x = net.conv_norm(x, 32, 3, 1, "valid", name="conv2a")
    x = net.conv_norm(x, 64, 3, name="conv2b")
    x = net.pool(x, 3, 2, name="pool3")
    x = net.conv_norm(x, 80, 1, 1, "valid", name="conv3b")
    x = net.conv_norm(x, 192, 3, 1, "valid", name="conv4a")
    x = net.pool(x, 3, 2, name="pool5")
    for name, pool_width in (("5b", 32), ("5c", 64), ("5d", 64)):
        x = module_35(net, x, f"mixed_{name}", pool_width)
    x = _reduction(net, x, "mixed_6a", [[(384, 3, 2)], [(64, 1), (96, 3), (96, 3, 2)]], "valid")
    for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        x = module_17(net, x, f"mixed_{name}", width)
    middle = _auxiliary_head(net, x) if head else x
    branches: list[list[Step]] = [[(192, 1), (320, 3, 2)], [(192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2)]]
    top = _reduction(net, x, "mixed_7a", branches, "valid")
    for name in ("7b", "7c"):
        top = _module_8(net, top, f"mixed_{name}")
    return top, middle


def _auxiliary_head(net: Network, x: Node) -> Node:
    x = net.pool(x, 5, 3, name="aux/pool")
    x = net.conv_norm(x, 128, 1, name="aux/conv1")
    x = net.conv_norm(x, 768, 5, 1, "valid", name="aux/conv2")
    return net.fc(x, CLASSES, name="aux/logits")


def _two_losses(net: Network, top: Node, aux: Node) -> None:
    logits = net.fc(net.global_pool(top, "pool8"), CLASSES, name="logits")
    both = concat(logits, aux)
    net.layer(LayerKind.OTHER, "loss", both, (1,), both.elements, {})


def inception_v3() -> Profile:
    """27.14 M parameters in 196 tensors, 103.54 MiB, with the auxiliary classifier (TicTac, Table 1).

    The last layer is the loss, which reads both classifiers.
    """
    net = Network(3, 299, 299, norm_tensors=BETA)
    top, middle = _v3_trunk(net)
    _two_losses(net, top, _auxiliary_head(net, middle))
    return net.profile("inception-v3", 32, "TicTac Table 1; TF-slim inception_v3 with auxiliary head")


def inception_v3_with_head() -> Profile:
    """`inception_v3` with the auxiliary head created where its input is, as in tensorflow/models' own Inception and
    not as in TF-slim.

    Placed round robin on 8 servers, its variables give the shares that NetOps measured (Table 7: 0.0003 to 0.292).
    """
    net = Network(3, 299, 299, norm_tensors=BETA)
    _two_losses(net, *_v3_trunk(net, head=True))
    return net.profile("inception-v3-with-head", 32, "NetOps Table 7; tensorflow/models inception")


def inception_v3_netops() -> Profile:
    """Inception v3 without the auxiliary head, which NetOps filters out of its traces (Sec. 5): 23.82 M parameters,
    0.762 Gb.

    NetOps prints 0.715 Gb (Table 2), 6.2 % less, which no known variant of the architecture has. The head's variables
    are not sent, but they were placed on servers; see `inception_v3_with_head`.
    """
    net = Network(3, 299, 299, norm_tensors=BETA)
    top, _ = _v3_trunk(net)
    net.fc(net.global_pool(top, "pool8"), CLASSES, name="logits")
    profile = net.profile("inception-v3-netops", 32, "NetOps Table 2; inception_v3 without auxiliary head")
    head = [layer for layer in inception_v3_with_head().layers if layer.name.startswith("aux/")]
    variables = sum(len(layer.tensors) + layer.untrained for layer in head)
    before = max(index for index, layer in enumerate(profile.layers) if layer.name.startswith("mixed_6e/"))
    layers = list(profile.layers)
    layers[before] = replace(layers[before], untrained=layers[before].untrained + variables)
    return replace(profile, layers=tuple(layers))


def inception_v3_mxnet() -> Profile:
    """Inception v3 without the auxiliary classifier, and with two tensors per normalisation.

    That makes three keys per convolution, which decides their servers.
    """
    net = Network(3, 299, 299, norm_tensors=("gamma", "beta"))
    top, _ = _v3_trunk(net)
    net.fc(net.global_pool(top, "pool8"), CLASSES, name="logits")
    return net.profile("inception-v3-mxnet", 32, "P3 Sec. 5.1; MXNet's symbols/inception-v3.py")
