"""The time of each layer by what it does: shares of a device's peak and memory rate, by kind of layer.

One share of the peak rate for a whole model is right for the products of large transformers only. A convolution of few
channels, a normalisation or an addition moves more bytes than it computes: on an H100, a ResNet-50 in PyTorch's bf16
spends two thirds of an iteration in layers that have 1 % of its FLOPs.

Layers that multiply (convolutions, matrix products, attention's scores) reach a share of the peak that depends on their
arithmetic intensity, the FLOPs for each byte that they read and write. Intensities are in units of the ridge, at which
a device computes and moves bytes at its two rates at once, so that a table can be carried from the device that it was
measured on to others (Williams, Waterman and Patterson, Roofline, CACM 2009). All other layers move bytes: they take so
many passes over their activations at the device's memory rate.

These are the times of kernels. A host that cannot launch them fast enough, an optimiser, and activations that are
computed anew in the backward pass come on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gradwire.faults import InternalFault
from gradwire.workloads.models.profile import Layer, LayerKind, Profile

ELEMENT_BYTES = 2
"""Size of an activation in 16 bits."""
BACKWARD_PER_FORWARD = 2
"""FLOPs of a product's backward pass: gradients of its inputs and of its weights."""


class WorkKind(StrEnum):
    """The kinds of work that take time at different rates."""

    CONV = "conv"
    PRODUCT = "product"
    SCORES = "scores"
    #: Batch normalisation on images, with the ReLU that follows it in all models of this kind.
    BATCH_NORM = "batch-norm"
    #: Normalisation of sequences.
    LAYER_NORM = "layer-norm"
    #: A residual addition, with the sum of the two gradients where the branches begin.
    ADD = "add"
    POOL = "pool"
    EMBEDDING = "embedding"
    #: Work that follows a convolution with biases: their addition and the ReLU.
    AFTER_CONV = "after-conv"
    #: Work that follows matrix products with biases, or several side by side: GELU, dropout, a gate, rotary positions.
    AFTER_PRODUCT = "after-product"
    #: The softmax and cross-entropy of a model's outputs, in 32 bits.
    LOSS = "loss"


@dataclass(frozen=True)
class Share:
    """The shares of the peak rate that products reach at an arithmetic intensity."""

    #: In units of the ridge, the peak rate over the memory rate.
    intensity: float
    forward: float
    #: The share with which twice the forward FLOPs are computed.
    backward: float


@dataclass(frozen=True)
class Shares:
    """The shares of a device's rates that layers of each kind reach."""

    #: Shares by rising intensity. Below the first, bytes are the limit; above the last, the share stays.
    products: Mapping[WorkKind, tuple[Share, ...]]
    #: For work that moves bytes, how often its activations cross the memory, in the forward and the backward pass.
    passes: Mapping[WorkKind, tuple[float, float]]
    #: From one kernel to the next, where it is shorter.
    call_s: float
    source: str


@dataclass(frozen=True)
class Roof:
    """A device's two limits, of its data sheet."""

    flops_per_s: float
    memory_bytes_per_s: float


def work_of(layer: Layer, *, last: bool = False) -> tuple[WorkKind, ...]:
    """Returns the kinds of work that a layer's time goes to, in order. last: whether the model's outputs are this
    layer's."""
    # A convolution's or product's further tensors are biases, or the weights of products side by side.
    several = len(layer.tensors) > 1
    match layer.kind:
        case LayerKind.CONV:
            work = [WorkKind.CONV, WorkKind.AFTER_CONV] if several else [WorkKind.CONV]
        case LayerKind.ATTENTION if not layer.tensors:
            work = [WorkKind.SCORES]
        case LayerKind.FC | LayerKind.ATTENTION:
            work = [WorkKind.PRODUCT, WorkKind.AFTER_PRODUCT] if several else [WorkKind.PRODUCT]
        case LayerKind.NORM:
            work = [WorkKind.BATCH_NORM if layer.untrained else WorkKind.LAYER_NORM]
        case LayerKind.POOL:
            work = [WorkKind.POOL]
        case LayerKind.EMBEDDING:
            work = [WorkKind.EMBEDDING]
        case LayerKind.ACTIVATION | LayerKind.OTHER:
            work = [WorkKind.LOSS if last else WorkKind.ADD]
        case LayerKind.LSTM:
            raise InternalFault(f"layer {layer.name} is recurrent, and has no time by kind")
    if last and WorkKind.PRODUCT in work:
        work.append(WorkKind.LOSS)
    return tuple(work)


def has_kinds(profile: Profile) -> bool:
    """Returns whether all layers of a model have a time by kind: each says how many numbers it moves, and none is
    recurrent. Recurrent layers multiply one token after the other, and were not timed."""
    return all(
        layer.elements_in and layer.elements_out and layer.kind is not LayerKind.LSTM for layer in profile.layers
    )


def is_convolutional(profile: Profile) -> bool:
    """Returns whether convolutions have most of the model's FLOPs."""
    return sum(layer.flops for layer in profile.layers if layer.kind is LayerKind.CONV) > profile.flops / 2


def layer_times(profile: Profile, batch: int, roof: Roof, shares: Shares) -> tuple[list[float], list[float]]:
    """Seconds of each layer's forward and backward pass over `batch` samples."""
    forward, backward = [], []
    for number, layer in enumerate(profile.layers):
        passes = [
            _times(work, layer, batch, roof, shares) for work in work_of(layer, last=number == len(profile.layers) - 1)
        ]
        forward.append(sum(seconds for seconds, _ in passes))
        backward.append(sum(seconds for _, seconds in passes))
    return forward, backward


def _times(work: WorkKind, layer: Layer, batch: int, roof: Roof, shares: Shares) -> tuple[float, float]:
    if work in shares.products:
        flops = layer.flops * batch
        if not flops:
            return 0.0, 0.0
        forward, backward = _shares(
            shares.products[work], _intensity(layer, batch) * roof.memory_bytes_per_s / roof.flops_per_s
        )
        return (
            flops / (forward * roof.flops_per_s) + shares.call_s,
            BACKWARD_PER_FORWARD * (flops / (backward * roof.flops_per_s) + shares.call_s),
        )
    pass_s = ELEMENT_BYTES * _moved_elements(work, layer) * batch / roof.memory_bytes_per_s
    there, back = shares.passes[work]
    # A layer of no kind in particular may be a product.
    computed_s = layer.flops * batch / roof.flops_per_s if work is WorkKind.ADD else 0.0
    return (
        max(there * pass_s, computed_s) + shares.call_s,
        max(back * pass_s, BACKWARD_PER_FORWARD * computed_s) + shares.call_s,
    )


def _moved_elements(work: WorkKind, layer: Layer) -> float:
    """Numbers that a pass over a layer's activations moves, for one sample."""
    if work is WorkKind.POOL:
        return layer.flops  # a window reads each number as often as it covers it
    if work is WorkKind.LOSS and layer.kind is not LayerKind.FC:
        return layer.elements_in  # a layer of its own, which yields one number
    return layer.elements_out


def _intensity(layer: Layer, batch: int) -> float:
    """FLOPs for each byte that a product reads and writes."""
    elements = layer.elements_in + layer.elements_out
    return layer.flops * batch / (ELEMENT_BYTES * (elements * batch + layer.parameters))


def _shares(table: tuple[Share, ...], intensity: float) -> tuple[float, float]:
    """Interpolates both shares between measured intensities, on logarithmic axes."""
    first, last = table[0], table[-1]
    if intensity <= first.intensity:
        return first.forward * intensity / first.intensity, first.backward * intensity / first.intensity
    if intensity >= last.intensity:
        return last.forward, last.backward
    above = next(number for number, share in enumerate(table) if share.intensity > intensity)
    low, high = table[above - 1], table[above]
    part = math.log(intensity / low.intensity) / math.log(high.intensity / low.intensity)
    return (
        low.forward * (high.forward / low.forward) ** part,
        low.backward * (high.backward / low.backward) ** part,
    )
