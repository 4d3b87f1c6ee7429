"""A model as frozen data: layers in forward order, their tensors and FLOPs, and which layer reads which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from gradwire.faults import InputFault


class LayerKind(StrEnum):
    """The kinds of layers that communication strategies and studies of faster computation distinguish."""

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
    """A trainable tensor: the unit that frameworks place on servers and reduce."""

    name: str
    parameters: int
    #: Length of the first axis, along which TensorFlow cuts the tensor: the height of a convolution's kernel, or the
    #: inputs of an FC layer. A vector, or a tensor without a shape, has as many rows as parameters.
    rows: int = 0

    def __post_init__(self) -> None:
        """Makes a tensor without a shape a vector."""
        if not self.rows:
            object.__setattr__(self, "rows", self.parameters)


@dataclass(frozen=True)
class Layer:
    """One step of the forward pass."""

    name: str
    kind: LayerKind
    #: Trainable tensors in creation order; empty for pooling and additions.
    tensors: tuple[Tensor, ...]
    #: Forward floating-point operations for one sample; a multiply-add counts as 2.
    flops: float
    #: Indices in the profile of the layers whose outputs it reads; empty if it reads the samples.
    inputs: tuple[int, ...]
    #: Number of variables without a gradient that TensorFlow creates after `tensors`, such as a normalisation's moving
    #: mean and variance. They take their turn where variables are placed round robin, and are never sent.
    untrained: int = 0
    #: Numbers of the activations that it reads, and of those that it yields, for one sample; 0 where nobody says.
    elements_in: float = 0.0
    elements_out: float = 0.0

    @property
    def parameters(self) -> int:
        """Trainable parameters of the layer."""
        return sum(tensor.parameters for tensor in self.tensors)


@dataclass(frozen=True)
class Profile:
    """A model.

    Raises InputFault if a layer reads one that is not earlier, a count is out of range, or no layer has a trainable
    tensor.
    """

    name: str
    #: Layers in topological (forward) order.
    layers: tuple[Layer, ...]
    #: Samples that a worker processes in an iteration.
    batch: int
    #: The source in which the model was printed.
    source: str

    def __post_init__(self) -> None:
        """Rejects layers that are not in forward order and counts that are out of range."""
        if self.batch < 1:
            raise InputFault(f"model {self.name}: batch = {self.batch}: must be at least 1")
        if not any(layer.tensors for layer in self.layers):
            raise InputFault(f"model {self.name}: no layer has a trainable tensor, so there is nothing to communicate")
        for index, layer in enumerate(self.layers):
            if any(not 0 <= read < index for read in layer.inputs):
                raise InputFault(f"model {self.name}: layer {index} ({layer.name}) must read earlier layers only")
            for what, count in (
                ("flops", layer.flops),
                ("elements_in", layer.elements_in),
                ("elements_out", layer.elements_out),
            ):
                if count < 0:
                    raise InputFault(f"model {self.name}: layer {layer.name}: {what} = {count}: must not be negative")
            if any(tensor.parameters < 1 for tensor in layer.tensors):
                raise InputFault(f"model {self.name}: layer {layer.name}: a tensor needs at least 1 parameter")

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All trainable tensors in creation order."""
        return tuple(tensor for layer in self.layers for tensor in layer.tensors)

    @cached_property
    def tensor_layer(self) -> tuple[int, ...]:
        """Index of the layer that each of `tensors` belongs to."""
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
        """Bytes of all trainable tensors; 4 per parameter is fp32, 2 is fp16 or bf16."""
        return self.parameters * bytes_per_parameter

    def share(self, chosen: Callable[[Layer], bool]) -> float:
        """Share of the parameters, 0 to 1, in the layers that `chosen` picks."""
        return sum(layer.parameters for layer in self.layers if chosen(layer)) / self.parameters

    def fused(self, parameters: int) -> Profile:
        """Joins consecutive tensors, in creation order, until they have this many parameters; 0 leaves the model as it
        is.

        Joined tensors belong to the lowest of their layers, whose backward op comes last and whose forward op comes
        first. No byte is added or lost; only the number of messages falls. Tensors left over at the end stay small.
        That matters where parameters are sent to all workers tensor by tensor: the workers' backward passes start as
        far apart as the last tensor takes to reach all of them.
        """
        if not parameters:
            return self
        joined: dict[int, list[Tensor]] = {}
        pending: list[int] = []
        for number in range(len(self.tensors)):
            pending.append(number)
            count = sum(self.tensors[index].parameters for index in pending)
            if count >= parameters or number == len(self.tensors) - 1:
                first, last = self.tensors[pending[0]], self.tensors[pending[-1]]
                name = first.name if len(pending) == 1 else f"{first.name} to {last.name}"
                joined.setdefault(self.tensor_layer[pending[0]], []).append(Tensor(name, count))
                pending = []
        layers = [replace(layer, tensors=tuple(joined.get(index, ()))) for index, layer in enumerate(self.layers)]
        return replace(self, layers=tuple(layers))
