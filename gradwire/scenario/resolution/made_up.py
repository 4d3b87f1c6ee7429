"""Models that a scenario makes up, layer by layer, such as the toys that papers explain themselves with. It gives their sizes and times."""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.scenario.schema import LayerSection, ModelSection
from gradwire.workloads.job import BYTES_PER_PARAMETER
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, Profile, Tensor


def made_up(section: ModelSection) -> Profile:
    """Builds the profile of `section.layers`, with one sample per iteration.

    Raises InputFault if two layers have one name, a size is not a whole number of parameters, or an input is not an earlier layer.
    """
    names = [layer.name for layer in section.layers]
    if len(set(names)) < len(names):
        raise InputFault(f"model.layers: two layers are called '{max(names, key=names.count)}'")
    layers = tuple(
        Layer(layer.name, layer.kind, _tensors(layer), 0.0, _inputs(layer, number, names))
        for number, layer in enumerate(section.layers)
    )
    return Profile(section.name, layers, batch=1, source="made up in the scenario")


def made_up_times(section: ModelSection) -> ComputeTime:
    """Collects the times of `section.layers`."""
    forward_s = tuple(layer.forward for layer in section.layers)
    backward_s = tuple(layer.backward for layer in section.layers)
    return ComputeTime(forward_s, backward_s, "made up in the scenario")


def _tensors(layer: LayerSection) -> tuple[Tensor, ...]:
    for size_bytes in layer.size:
        if size_bytes % BYTES_PER_PARAMETER:
            raise InputFault(
                f"model.layers, '{layer.name}': size = {size_bytes} bytes: must be a multiple of {BYTES_PER_PARAMETER}"
            )
    return tuple(
        Tensor(f"{layer.name}/{number}", size_bytes // BYTES_PER_PARAMETER)
        for number, size_bytes in enumerate(layer.size)
    )


def _inputs(layer: LayerSection, number: int, names: list[str]) -> tuple[int, ...]:
    if layer.inputs is None:
        return (number - 1,) if number else ()
    unknown = [name for name in layer.inputs if name not in names[:number]]
    if unknown:
        earlier = ", ".join(names[:number]) or "none"
        raise InputFault(
            f"model.layers, '{layer.name}': reads '{unknown[0]}', which is not an earlier layer; earlier ones: {earlier}"
        )
    return tuple(sorted(names.index(name) for name in layer.inputs))
