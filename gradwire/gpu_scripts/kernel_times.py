"""How long a kernel takes: its floating-point operations at the device's rate for their type, or its bytes at the rate
of the device's memory, whichever takes longer.

Both rates are the data sheet's, which real kernels do not reach. FLOPs are those that torch counts (torch.utils.flop_counter).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

NS_PER_S = 1e9
aten = torch.ops.aten
RATE_OF_TYPE = {torch.float16: "HALF", torch.bfloat16: "BFLOAT16"}
"""Of all other types: the rate of single precision."""
READ_IN_PART = frozenset((aten.embedding, aten.gather, aten.index_select, aten.index))
"""What is read of the first tensor is as much as is written."""
ONLY_WRITTEN = frozenset(
    (aten.copy_, aten.fill_, aten.zero_, aten.normal_, aten.uniform_, aten.bernoulli_, aten.random_)
)
"""The first tensor is written and not read."""
FREE = frozenset(
    (
        aten.empty,
        aten.empty_like,
        aten.empty_strided,
        aten.new_empty,
        aten.new_empty_strided,
        aten.set_,
        aten.resize_,
        aten.detach,
    )
)
WITHOUT_FORMULA = frozenset((aten.mkldnn_rnn_layer, aten._thnn_fused_lstm_cell))
"""Products of matrices whose FLOPs torch does not count."""


@dataclass
class KernelTimes:
    """A device's rates, and what they were used for."""

    rates: Mapping[str, float]
    #: Nanoseconds by the name of an operation.
    spent_ns: Counter[str] = field(default_factory=Counter)
    flops: int = 0

    def duration_ns(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, inputs: Sequence[Any]
    ) -> int:
        """How long an operation takes that was called so and yielded `out`. inputs: all tensors that it was given."""
        packet = func._overloadpacket
        if packet in FREE or func.is_view:
            return 0
        if packet in WITHOUT_FORMULA:
            raise NotImplementedError(
                f"gradwire: the time of {packet} on a GPU is not known: torch has no formula for its FLOPs"
            )
        flops = self.flops_of(func, args, kwargs, out)
        outputs = list(tensors_in((out,)))
        if not flops and not func._schema.is_mutable and outputs and all(_shares(each, inputs) for each in outputs):
            return 0
        moved = _moved_bytes(packet, inputs, outputs or _mutated(func._schema, args))
        kind = RATE_OF_TYPE.get(inputs[0].dtype, "SINGLE") if inputs else "SINGLE"
        duration_ns = round(max(flops / self.rates[kind], moved / self.rates["MEMORY"]) * NS_PER_S)
        self.flops += flops
        self.spent_ns[str(packet)] += duration_ns
        return duration_ns

    def flops_of(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> int:
        """FLOPs of an operation that was called so and yields `out`."""
        formula = flop_registry.get(func._overloadpacket)
        return int(formula(*args, **kwargs, out_val=out)) if formula else 0

    def copy_ns(self, size_bytes: int) -> int:
        """How long the bus between the host and the device takes."""
        duration_ns = round(size_bytes / self.rates["BUS"] * NS_PER_S)
        self.spent_ns["copies over the bus"] += duration_ns
        return duration_ns


def rates_of_environment() -> dict[str, float]:
    """The rates that `gradwire exec` has chosen (gradwire/gpus/choice.py)."""
    return {
        name: float(os.environ[f"GRADWIRE_GPU_{name}_RATE"]) for name in ("HALF", "BFLOAT16", "SINGLE", "MEMORY", "BUS")
    }


def tensors_in(value: Iterable[Any]) -> Iterable[Any]:
    """All tensors in a structure of tuples, lists and mappings."""
    for each in value:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from tensors_in(each)
        elif isinstance(each, dict):
            yield from tensors_in(each.values())


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """A structure of tuples, lists and mappings with other tensors."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(each, change) for each in value)
    if isinstance(value, dict):
        return {name: map_tensors(each, change) for name, each in value.items()}
    return value


def size_bytes(tensor: Any) -> int:
    """Of all elements of a tensor."""
    return int(tensor.numel()) * int(tensor.element_size())


def _moved_bytes(packet: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    written = sum(map(size_bytes, outputs))
    if packet in READ_IN_PART:
        return written + written
    read = inputs[1:] if packet in ONLY_WRITTEN else inputs
    return written + sum(map(size_bytes, read))


def _mutated(schema: Any, args: Sequence[Any]) -> list[Any]:
    """The tensors that a call writes which yields none, as those of optimizers do."""
    named = zip(schema.arguments, args, strict=False)
    return list(
        tensors_in(
            value for argument, value in named if argument.alias_info is not None and argument.alias_info.is_write
        )
    )


def _shares(output: Any, inputs: Iterable[Any]) -> bool:
    storage = output.untyped_storage()
    return any(each.untyped_storage() is storage for each in inputs)
