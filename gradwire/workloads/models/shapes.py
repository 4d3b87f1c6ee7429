"""Shape inference: layers are written with their output width alone; shapes give counts of parameters and FLOPs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gradwire.faults import InternalFault
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor

Padding = int | Literal["same", "valid"]
"""Zeros on each side, or TensorFlow's words: "same" keeps ceil(size / stride), "valid" pads nothing."""
Window = int | tuple[int, int]
"""A square's side, or (height, width)."""
MOVING_AVERAGES = 2
"""Untrained variables of a batch normalisation: moving mean and moving variance."""
NORM_FLOPS_PER_ELEMENT = 2
"""Scale and shift. Statistics are left out, since they do not change any layer's share of the time noticeably."""


@dataclass(frozen=True)
class Node:
    """An activation of one sample."""

    #: (channels, height, width) for images, (features,) for vectors, (tokens, features) for sequences.
    shape: tuple[int, ...]
    #: Layers that make the activation; several after a concatenation.
    reads: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Returns how many numbers the activation has."""
        return math.prod(self.shape)


def concat(*nodes: Node) -> Node:
    """Joins activations along channels.

    This adds no layer: whoever reads the result reads the layers of all activations.
    """
    channels = sum(node.shape[0] for node in nodes)
    if len({node.shape[1:] for node in nodes}) != 1:
        raise InternalFault(f"concatenation of unequal sizes {[node.shape for node in nodes]}")
    return Node((channels, *nodes[0].shape[1:]), tuple(dict.fromkeys(read for node in nodes for read in node.reads)))


def flatten(node: Node) -> Node:
    """Turns an activation into one vector of the same numbers."""
    return Node((node.elements,), node.reads)


class Network:
    """Collects layers in the order in which they are written, which is the forward order and the creation order.

    `sample` is the shape of one sample. `norm_tensors` names the trainable tensors of a batch normalisation in
    creation order: ("beta", "gamma") in tf_cnn_benchmarks, ("beta",) where TF-slim's `scale` is off.
    """

    def __init__(self, *sample: int, norm_tensors: tuple[str, ...] = ("beta", "gamma")) -> None:
        self.sample = Node(sample, ())
        self._norm_tensors = norm_tensors
        self._layers: list[Layer] = []
        self._counts: dict[str, int] = {}

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers so far."""
        return tuple(self._layers)

    def layer(
        self,
        kind: LayerKind,
        name: str,
        x: Node,
        shape: tuple[int, ...],
        flops: float,
        tensors: Mapping[str, int],
        untrained: int = 0,
        rows: int = 0,
    ) -> Node:
        """Appends a layer that reads `x` and yields `shape`.

        `tensors` maps short names to parameter counts. `rows` is the length of the first axis of tensors whose names
        end in "weights"; the others are vectors.
        """
        named_tensors = tuple(
            Tensor(f"{name}/{short}", count, rows if short.endswith("weights") else 0)
            for short, count in tensors.items()
        )
        elements = float(x.elements), float(math.prod(shape))
        self._layers.append(Layer(name, kind, named_tensors, float(flops), x.reads, untrained, *elements))
        return Node(shape, (len(self._layers) - 1,))

    def _auto_name(self, stem: str, name: str | None) -> str:
        if name is not None:
            return name
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return f"{stem}{self._counts[stem]}"

    def conv(
        self,
        x: Node,
        out: int,
        kernel: Window,
        stride: int = 1,
        padding: Padding = "same",
        *,
        bias: bool = False,
        groups: int = 1,
        name: str | None = None,
    ) -> Node:
        """Appends a convolution of `out` channels, with kernel area * in / groups * out weights and as many MACs per
        position."""
        height, width = _window(kernel)
        weights = height * width * (x.shape[0] // groups) * out
        image = _sliding(x, kernel, stride, padding)
        tensors = {"weights": weights} | ({"biases": out} if bias else {})
        name = self._auto_name("conv", name)
        return self.layer(LayerKind.CONV, name, x, (out, *image), 2 * weights * math.prod(image), tensors, rows=height)

    def norm(self, x: Node, name: str | None = None) -> Node:
        """Appends a batch normalisation over channels: one number per channel and trainable tensor, plus moving mean
        and variance."""
        flops = NORM_FLOPS_PER_ELEMENT * x.elements
        name = self._auto_name("norm", name)
        tensors = dict.fromkeys(self._norm_tensors, x.shape[0])
        return self.layer(LayerKind.NORM, name, x, x.shape, flops, tensors, MOVING_AVERAGES)

    def conv_norm(
        self,
        x: Node,
        out: int,
        kernel: Window,
        stride: int = 1,
        padding: Padding = "same",
        *,
        groups: int = 1,
        name: str | None = None,
    ) -> Node:
        """Appends a convolution without bias and its batch normalisation."""
        name = self._auto_name("conv", name)
        return self.norm(self.conv(x, out, kernel, stride, padding, groups=groups, name=name), f"{name}/norm")

    def pool(
        self, x: Node, kernel: int, stride: int = 1, padding: Padding = "valid", *, name: str | None = None
    ) -> Node:
        """Appends a pooling, the maximum or average over a square window."""
        shape = (x.shape[0], *_sliding(x, kernel, stride, padding))
        name = self._auto_name("pool", name)
        return self.layer(LayerKind.POOL, name, x, shape, kernel * kernel * math.prod(shape), {})

    def global_pool(self, x: Node, name: str | None = None) -> Node:
        """Appends a pooling that averages each channel and yields a vector."""
        return self.layer(LayerKind.POOL, self._auto_name("pool", name), x, (x.shape[0],), x.elements, {})

    def fc(
        self,
        x: Node,
        out: int | Mapping[str, int],
        *,
        bias: bool = True,
        name: str | None = None,
        kind: LayerKind = LayerKind.FC,
    ) -> Node:
        """Appends a matrix product with the last axis of `x`; images are flattened first.

        `out` is the number of features of the result, or those of several weight tensors side by side, by name.
        Tensors are then created in the order first weight, first bias, second weight, second bias, ...
        """
        x = flatten(x) if len(x.shape) == 3 else x
        parts = {"": out} if isinstance(out, int) else {f"{part}_": width for part, width in out.items()}
        tensors: dict[str, int] = {}
        for part, width in parts.items():
            tensors[f"{part}weights"] = x.shape[-1] * width
            if bias:
                tensors[f"{part}biases"] = width
        features = sum(parts.values())
        name = self._auto_name("fc", name)
        return self.layer(
            kind, name, x, (*x.shape[:-1], features), 2 * x.elements * features, tensors, rows=x.shape[-1]
        )

    def embedding(self, tokens: int, width: int, tables: Mapping[str, int], name: str) -> Node:
        """Appends an embedding: looks each token up in `tables`, which map names to numbers of rows, and adds the rows
        it finds.

        Yields (tokens, width).
        """
        tensors = {table: rows * width for table, rows in tables.items()}
        return self.layer(
            LayerKind.EMBEDDING, name, self.sample, (tokens, width), tokens * width * len(tables), tensors
        )

    def layer_norm(self, x: Node, name: str, tensors: tuple[str, ...] = ("gamma", "beta")) -> Node:
        """Appends a normalisation over features, as in transformers; RMSNorm trains gamma only."""
        flops = NORM_FLOPS_PER_ELEMENT * x.elements
        return self.layer(LayerKind.NORM, name, x, x.shape, flops, dict.fromkeys(tensors, x.shape[-1]))

    def add(self, x: Node, y: Node, name: str | None = None) -> Node:
        """Appends the sum of two activations of the same shape, where a residual branch ends."""
        if x.shape != y.shape:
            raise InternalFault(f"sum of unequal shapes {x.shape} and {y.shape}")
        both = Node(x.shape, tuple(dict.fromkeys(x.reads + y.reads)))
        return self.layer(LayerKind.OTHER, self._auto_name("add", name), both, x.shape, x.elements, {})

    def profile(self, name: str, batch: int, source: str) -> Profile:
        """Returns the finished model."""
        return Profile(name, self.layers, batch, source)


def _window(kernel: Window) -> tuple[int, int]:
    return (kernel, kernel) if isinstance(kernel, int) else kernel


def _sliding(x: Node, kernel: Window, stride: int, padding: Padding) -> tuple[int, int]:
    """Returns height and width after a sliding window. Raises InternalFault if the window is larger than the image."""
    _, *image = x.shape
    if padding == "same":
        height, width = (-(-size // stride) for size in image)
    else:
        zeros = 0 if padding == "valid" else int(padding)
        height, width = ((size + 2 * zeros - k) // stride + 1 for size, k in zip(image, _window(kernel), strict=True))
    if height < 1 or width < 1:
        raise InternalFault(f"a window of {kernel} does not fit into an image of {image}")
    return height, width
