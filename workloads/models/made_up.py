"""Models that a scenario makes up, layer by layer: the toys by which papers explain themselves, with sizes and times in the scenario."""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.workloads.job import BYTES_PER_PARAMETER
from gradwire.workloads.models.devices import ComputeTime
from gradwire.workloads.models.profile import Layer, Profile, Tensor
from gradwire.workloads.scenario.schema import LayerSection, ModelSection


def made_up(section: ModelSection) -> Profile:
    """The profile of `section.layers`, one sample an iteration. Raises InputFault for inputs that are no earlier layers."""
    names = [layer.name for layer in section.layers]
    if len(set(names)) < len(names):
        raise InputFault(f"model.layers: two layers are called '{max(names, key=names.count)}'")
    layers = tuple(
        Layer(layer.name, layer.kind, _tensors(layer), 0.0, _inputs(layer, number, names))
        for number, layer in enumerate(section.layers)
    )
    return Profile(section.name, layers, batch=1, source="made up in the scenario")


def made_up_times(section: ModelSection) -> ComputeTime:
    """The times of `section.layers`."""
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
            f"model.layers, '{layer.name}': reads '{unknown[0]}', which is no earlier layer; earlier ones: {earlier}"
        )
    return tuple(sorted(names.index(name) for name in layer.inputs))
