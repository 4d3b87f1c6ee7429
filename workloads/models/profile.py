"""A model as frozen data: layers in forward order, their trainable tensors, their work and which layer reads which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from gradwire.faults import InputFault


class LayerKind(StrEnum):
    """What a layer does, as far as communication strategies and faster-compute studies tell layers apart."""

    CONV = "conv"
    FC = "fc"
    NORM = "norm"
    EMBEDDING = "embedding"
    ATTENTION = "attention"
    LSTM = "lstm"
    POOL = "pool"
    ACTIVATION = "activation"
    OTHER = "other"


@dataclass(frozen=True)
class Tensor:
    """A trainable tensor: the unit that frameworks place on servers and reduce.

    rows: length of its first axis, along which TensorFlow cuts it: the height of a convolution's kernel, the inputs of an FC layer. A
    vector, or what has no shape, has as many as parameters.
    """

    name: str
    parameters: int
    rows: int = 0

    def __post_init__(self) -> None:
        """A tensor without a shape is a vector."""
        if not self.rows:
            object.__setattr__(self, "rows", self.parameters)


@dataclass(frozen=True)
class Layer:
    """One step of the forward pass.

    tensors: trainable tensors in creation order; empty for pooling and additions.
    flops: forward floating-point operations for one sample, a multiply-add counting as 2.
    inputs: indices, in the profile, of the layers whose outputs it reads; empty when it reads the samples.
    untrained: variables that TensorFlow creates behind `tensors` and that no gradient belongs to, such as a normalisation's moving
    mean and variance. They take their turn where variables are placed round robin, and are never sent.
    """

    name: str
    kind: LayerKind
    tensors: tuple[Tensor, ...]
    flops: float
    inputs: tuple[int, ...]
    untrained: int = 0

    @property
    def parameters(self) -> int:
        """Trainable parameters of the layer."""
        return sum(tensor.parameters for tensor in self.tensors)


@dataclass(frozen=True)
class Profile:
    """A model: layers in topological (forward) order, the samples a worker takes an iteration, and who printed it.

    Raises InputFault when a layer reads a later layer or none that exists, or a count is not positive.
    """

    name: str
    layers: tuple[Layer, ...]
    batch: int
    source: str

    def __post_init__(self) -> None:
        """Rejects layers that are not in forward order; raises InputFault."""
        if self.batch < 1:
            raise InputFault(f"model {self.name}: batch = {self.batch}: must be at least 1")
        if not any(layer.tensors for layer in self.layers):
            raise InputFault(f"model {self.name}: no layer has a trainable tensor, so there is nothing to communicate")
        for index, layer in enumerate(self.layers):
            if any(not 0 <= read < index for read in layer.inputs):
                raise InputFault(f"model {self.name}: layer {index} ({layer.name}) must read earlier layers only")
            if layer.flops < 0:
                raise InputFault(f"model {self.name}: layer {layer.name}: flops = {layer.flops}: must not be negative")
            if any(tensor.parameters < 1 for tensor in layer.tensors):
                raise InputFault(f"model {self.name}: layer {layer.name}: a tensor needs at least 1 parameter")

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All trainable tensors in creation order."""
        return tuple(tensor for layer in self.layers for tensor in layer.tensors)

    @cached_property
    def tensor_layer(self) -> tuple[int, ...]:
        """Index of the layer of each tensor in `tensors`."""
        return tuple(index for index, layer in enumerate(self.layers) for _ in layer.tensors)

    @cached_property
    def parameters(self) -> int:
        """Trainable parameters of the model."""
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def flops(self) -> float:
        """Forward floating-point operations for one sample."""
        return sum(layer.flops for layer in self.layers)

    def size_bytes(self, bytes_per_parameter: int = 4) -> int:
        """Bytes of all trainable tensors; 4 a parameter is fp32, 2 is fp16 or bf16."""
        return self.parameters * bytes_per_parameter

    def share(self, chosen: Callable[[Layer], bool]) -> float:
        """Share of the parameters in the layers that `chosen` picks, 0 to 1."""
        return sum(layer.parameters for layer in self.layers if chosen(layer)) / self.parameters

    def fused(self, parameters: int) -> Profile:
        """The same model with consecutive tensors joined, in creation order, until they have so many parameters (0: as it is).

        Tensors that are joined belong to the lowest of their layers, whose backward op comes last and whose forward op comes first.
        No byte is added or lost; only the number of messages falls. What is left at the end stays small: where parameters go
        out tensor by tensor to all workers, the workers start their backward passes as far apart as the last tensor takes to all of them.
        """
        if not parameters:
            return self
        joined: dict[int, list[Tensor]] = {}
        waiting: list[int] = []
        for number in range(len(self.tensors)):
            waiting.append(number)
            count = sum(self.tensors[index].parameters for index in waiting)
            if count >= parameters or number == len(self.tensors) - 1:
                first, last = self.tensors[waiting[0]], self.tensors[waiting[-1]]
                name = first.name if len(waiting) == 1 else f"{first.name} to {last.name}"
                joined.setdefault(self.tensor_layer[waiting[0]], []).append(Tensor(name, count))
                waiting = []
        layers = [replace(layer, tensors=tuple(joined.get(index, ()))) for index, layer in enumerate(self.layers)]
        return replace(self, layers=tuple(layers))
