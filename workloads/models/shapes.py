"""Shape inference: layers are written with their output width alone, and parameter and FLOP counts follow from the shapes."""

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
"""Scale and shift; statistics are left out, since they change no layer's share of the time noticeably."""


@dataclass(frozen=True)
class Node:
    """An activation of one sample: its shape, and the layers that make it (several after a concatenation).

    Shapes: (channels, height, width) for images, (features,) for vectors, (tokens, features) for sequences.
    """

    shape: tuple[int, ...]
    reads: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Numbers in the activation."""
        return math.prod(self.shape)


def concat(*nodes: Node) -> Node:
    """Joins activations along channels: no layer of its own, a reader then reads all of them."""
    channels = sum(node.shape[0] for node in nodes)
    if len({node.shape[1:] for node in nodes}) != 1:
        raise InternalFault(f"concatenation of unequal sizes {[node.shape for node in nodes]}")
    return Node((channels, *nodes[0].shape[1:]), tuple(dict.fromkeys(read for node in nodes for read in node.reads)))


def flatten(node: Node) -> Node:
    """The same numbers as one vector."""
    return Node((node.elements,), node.reads)


class Network:
    """Collects layers in the order in which they are written, which is the forward and creation order.

    sample: shape of one sample.
    norm_tensors: trainable tensors of a batch normalisation, in creation order: ("beta", "gamma") in
    tf_cnn_benchmarks; ("beta",) where TF-slim's `scale` is off.
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
        """Appends a layer that reads `x` and yields `shape`; `tensors` maps short names to parameter counts.

        rows: length of the first axis of tensors whose names end in "weights"; the others are vectors.
        """
        full = tuple(
            Tensor(f"{name}/{short}", count, rows if short.endswith("weights") else 0)
            for short, count in tensors.items()
        )
        self._layers.append(Layer(name, kind, full, float(flops), x.reads, untrained))
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
        """A convolution of `out` channels: kernel area * in / groups * out weights, and as many MACs a position."""
        high, wide = _window(kernel)
        weights = high * wide * (x.shape[0] // groups) * out
        image = _sliding(x, kernel, stride, padding)
        tensors = {"weights": weights} | ({"biases": out} if bias else {})
        name = self._auto_name("conv", name)
        return self.layer(LayerKind.CONV, name, x, (out, *image), 2 * weights * math.prod(image), tensors, rows=high)

    def norm(self, x: Node, name: str | None = None) -> Node:
        """Batch normalisation over channels: one number a channel and trainable tensor, and moving mean and variance beside."""
        flops = NORM_FLOPS_PER_ELEMENT * x.elements
        name = self._auto_name("norm", name)
        tensors = dict.fromkeys(self._norm_tensors, x.shape[0])
        return self.layer(LayerKind.NORM, name, x, x.shape, flops, tensors, MOVING_AVERAGES)

    def conv_norm(
        self, x: Node, out: int, kernel: Window, stride: int = 1, padding: Padding = "same", *, name: str | None = None
    ) -> Node:
        """A convolution without bias and its batch normalisation."""
        name = self._auto_name("conv", name)
        return self.norm(self.conv(x, out, kernel, stride, padding, name=name), f"{name}/norm")

    def pool(
        self, x: Node, kernel: int, stride: int = 1, padding: Padding = "valid", *, name: str | None = None
    ) -> Node:
        """Maximum or average over a square window."""
        shape = (x.shape[0], *_sliding(x, kernel, stride, padding))
        name = self._auto_name("pool", name)
        return self.layer(LayerKind.POOL, name, x, shape, kernel * kernel * math.prod(shape), {})

    def global_pool(self, x: Node, name: str | None = None) -> Node:
        """The average of each channel, as a vector."""
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
        """A matrix product with the last axis of `x`; images are flattened first.

        out: features of the result; or the features of each of several weight tensors side by side, by name. Their tensors
        are created as first weight, first bias, second weight, second bias, ...
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
        """Looks each token of the sample up in tables of so many rows, and adds what it finds; yields (tokens, width)."""
        tensors = {table: rows * width for table, rows in tables.items()}
        return self.layer(
            LayerKind.EMBEDDING, name, self.sample, (tokens, width), tokens * width * len(tables), tensors
        )

    def layer_norm(self, x: Node, name: str, tensors: tuple[str, ...] = ("gamma", "beta")) -> Node:
        """Normalisation over features, as in transformers; RMSNorm trains gamma alone."""
        flops = NORM_FLOPS_PER_ELEMENT * x.elements
        return self.layer(LayerKind.NORM, name, x, x.shape, flops, dict.fromkeys(tensors, x.shape[-1]))

    def add(self, x: Node, y: Node, name: str | None = None) -> Node:
        """The sum of two activations of one shape: where a residual branch ends."""
        if x.shape != y.shape:
            raise InternalFault(f"sum of unequal shapes {x.shape} and {y.shape}")
        both = Node(x.shape, tuple(dict.fromkeys(x.reads + y.reads)))
        return self.layer(LayerKind.OTHER, self._auto_name("add", name), both, x.shape, x.elements, {})

    def profile(self, name: str, batch: int, source: str) -> Profile:
        """The finished model."""
        return Profile(name, self.layers, batch, source)


def _window(kernel: Window) -> tuple[int, int]:
    return (kernel, kernel) if isinstance(kernel, int) else kernel


def _sliding(x: Node, kernel: Window, stride: int, padding: Padding) -> tuple[int, int]:
    """Height and width after a sliding window; raises InternalFault when the window is larger than the image."""
    _, *image = x.shape
    if padding == "same":
        high, wide = (-(-size // stride) for size in image)
    else:
        zeros = 0 if padding == "valid" else int(padding)
        high, wide = ((size + 2 * zeros - k) // stride + 1 for size, k in zip(image, _window(kernel), strict=True))
    if high < 1 or wide < 1:
        raise InternalFault(f"a window of {kernel} does not fit into an image of {image}")
    return high, wide
