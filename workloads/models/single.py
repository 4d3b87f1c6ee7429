"""One tensor and nothing else, such as `tensor-16MiB`: what an allreduce alone takes, as benchmarks of collectives measure it."""

from __future__ import annotations

from vm.faults import InputFault
from workloads.profile import Layer, LayerKind, Profile, Tensor
from workloads.units import size_bytes

PREFIX = "tensor-"
FP32_BYTES = 4


def single_tensor(name: str) -> Profile:
    """The model called `tensor-<size>`: fp32 gradients of that size, yielded by one layer.

    Its compute time is the scenario's to give (model.iteration_time). Raises InputFault where the size is none, or below 4 bytes.
    """
    try:
        parameters = size_bytes(name.removeprefix(PREFIX)) // FP32_BYTES
    except ValueError as error:
        raise InputFault(f"model '{name}': {error}") from error
    if not parameters:
        raise InputFault(
            f"model '{name}': an fp32 gradient takes {FP32_BYTES} bytes, so the size must be at least that"
        )
    layer = Layer("layer", LayerKind.OTHER, (Tensor("gradient", parameters),), 1.0, ())
    return Profile(name, (layer,), 1, "a tensor of a size that the scenario chose")
