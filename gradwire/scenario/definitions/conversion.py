"""Converts the definitions of models and devices in a file or a scenario to the objects that gradwire works with, and
back to the content and the text of files.

In the text every number is written so that reading it gives the very same number. So gradwire's own models and devices
can be read, changed and used under another name.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache, partial
from typing import Any

import tomli_w
from pydantic import BaseModel

from gradwire.documents import Document, DocumentValue
from gradwire.faults import InputFault
from gradwire.scenario.schema import LayerSection, ModelSection
from gradwire.scenario.sections.defined import (
    DefinedSection,
    DeviceDefinition,
    DeviceFile,
    FactDefinition,
    LayerDefinition,
    ModelDefinition,
    ModelFile,
    PeakDefinition,
)
from gradwire.workloads.fields import kind_at
from gradwire.workloads.installed_packages import installed_catalogue
from gradwire.workloads.job import BYTES_PER_PARAMETER
from gradwire.workloads.models.catalogue import Catalogue
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.device_facts import ByKind, Device, Fact
from gradwire.workloads.models.measured_shares import H100_PYTORCH
from gradwire.workloads.models.profile import Layer, Profile, Tensor
from gradwire.workloads.units import DURATION, SIZE, exact_text


def catalogue_of(defined: DefinedSection) -> Catalogue:
    """The installed models and devices, and those that a scenario defines, which take precedence."""
    return installed_catalogue().with_more(
        {name: partial(profile_of, name, model) for name, model in defined.models.items()},
        {name: partial(device_of, device) for name, device in defined.devices.items()},
    )


def profile_of(name: str, defined: ModelDefinition) -> Profile:
    """The profile of a defined model. Its tensors are called by their layer's name, a slash and their own."""
    numbers = {layer.name: number for number, layer in enumerate(defined.layers)}
    layers = []
    for number, layer in enumerate(defined.layers):
        before = (number - 1,) if number else ()
        inputs = before if layer.inputs is None else tuple(numbers[read] for read in layer.inputs)
        elements = layer.elements_in, layer.elements_out
        layers.append(Layer(layer.name, layer.kind, _tensors(layer), layer.flops, inputs, layer.untrained, *elements))
    return Profile(name, tuple(layers), defined.batch, defined.source)


def _tensors(layer: LayerDefinition) -> tuple[Tensor, ...]:
    return tuple(Tensor(f"{layer.name}/{short}", math.prod(shape), shape[0]) for short, shape in layer.tensors.items())


def model_file(profile: Profile) -> ModelFile:
    """The file that `profile_of` reads as this profile, but for a plus in its name. Raises InputFault for a tensor that no file can say.

    A plus would add modules, which the layers have already.
    """
    layers = []
    for number, layer in enumerate(profile.layers):
        before = (number - 1,) if number else ()
        inputs = None if layer.inputs == before else [profile.layers[read].name for read in layer.inputs]
        tensors = {_short_name(layer, tensor): _shape(tensor) for tensor in layer.tensors}
        layers.append(
            LayerDefinition(
                name=layer.name,
                kind=layer.kind,
                tensors=tensors,
                flops=f"{layer.flops!r} FLOP",  # a quantity is read with its unit
                inputs=inputs,
                untrained=layer.untrained,
                elements_in=layer.elements_in,
                elements_out=layer.elements_out,
            )
        )
    return ModelFile(
        name=profile.name.replace("+", "-"), batch=profile.batch, source=profile.source, layers=tuple(layers)
    )


def _short_name(layer: Layer, tensor: Tensor) -> str:
    if not tensor.name.startswith(f"{layer.name}/") or tensor.parameters % tensor.rows:
        raise InputFault(
            f"tensor '{tensor.name}' of layer '{layer.name}': a model file has tensors that are called '{layer.name}/...' and whose "
            f"{tensor.parameters} parameters are a multiple of their first axis, {tensor.rows}"
        )
    return tensor.name.removeprefix(f"{layer.name}/")


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """The first axis and, unless the tensor is a vector, all others as one."""
    others = tensor.parameters // tensor.rows
    return (tensor.rows,) if others == 1 else (tensor.rows, others)


def device_of(defined: DeviceDefinition) -> Device:
    """The device that is defined."""
    peak = defined.peak
    return Device(
        defined.description,
        tuple(map(_fact, defined.facts)),
        defined.alike,
        peak.rate if peak else None,
        peak.efficiency if peak else 0.0,
        peak.source if peak else "",
        defined.memory,
        defined.link,
        memory_bytes_per_s=peak.memory_rate if peak else None,
        shares=H100_PYTORCH if peak and peak.memory_rate else None,
        by_kind=peak.by_kind if peak else ByKind.CONVOLUTIONAL,
    )


def _fact(fact: FactDefinition) -> Fact:
    if fact.iteration_time is not None:
        seconds: float | tuple[float, float] = fact.iteration_time
    else:
        assert fact.forward_time is not None  # the schema wants either the whole or both
        assert fact.backward_time is not None
        seconds = (fact.forward_time, fact.backward_time)
    return Fact(fact.model, fact.batch, seconds, fact.source, fact.fitted_on, fact.first_backward_free)


def device_file(name: str, device: Device) -> DeviceFile:
    """The file that `device_of` reads as this device."""
    peak = None
    if device.flops_per_s is not None:
        values = {
            "rate": f"{device.flops_per_s!r} FLOP/s",
            "efficiency": device.efficiency,
            "source": device.efficiency_source,
            "memory_rate": None if device.memory_bytes_per_s is None else f"{device.memory_bytes_per_s!r}B/s",
            "by_kind": device.by_kind,
        }
        peak = PeakDefinition.model_validate(values)  # fmt: skip
    return DeviceFile.model_validate(
        {
            "name": name,
            "description": device.description,
            "memory": None if device.memory_bytes is None else f"{device.memory_bytes!r}B",
            "link": None if device.link_bytes_per_s is None else f"{device.link_bytes_per_s!r}B/s",
            "peak": peak,
            "facts": tuple(map(_fact_definition, device.facts)),
            "alike": dict(device.alike),
        }
    )


def _fact_definition(fact: Fact) -> FactDefinition:
    if isinstance(fact.seconds, tuple):
        times = {"forward_time": f"{fact.seconds[0]!r}s", "backward_time": f"{fact.seconds[1]!r}s"}
    else:
        times = {"iteration_time": f"{fact.seconds!r}s"}
    return FactDefinition.model_validate(
        {
            "model": fact.model,
            "batch": fact.batch,
            **times,
            "source": fact.source,
            "fitted_on": fact.fitted_on,
            "first_backward_free": fact.first_backward_free,
        }
    )


OF_MODELS = ("name", "batch", "source")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
UNITS = {DURATION.name: ("s", "ms", "us"), SIZE.name: ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")}
"""Units to write quantities in; a quantity that is not here is written exactly by its own `text`."""


def model_content(model: ModelFile) -> Document:
    """Content of a model file, as reading its text as TOML gives it."""
    return {
        **_said(model, OF_MODELS),
        "layers": [_said(layer, tuple(LayerDefinition.model_fields)) for layer in model.layers],
    }


def model_text(model: ModelFile) -> str:
    """A model file's text."""
    return "\n".join([*_pairs(model, OF_MODELS), *_blocks("[[layers]]", model.layers)]) + "\n"


def device_text(device: DeviceFile) -> str:
    """A device file's text."""
    lines = [*_pairs(device, ("name", "description", "memory", "link", "alike"))]
    lines += _blocks("[peak]", [device.peak] if device.peak else [])
    return "\n".join([*lines, *_blocks("[[facts]]", device.facts)]) + "\n"


def _blocks(heading: str, tables: Iterable[BaseModel]) -> Iterator[str]:
    for table in tables:
        yield from ("", heading)
        yield from _pairs(table, tuple(type(table).model_fields))


def _pairs(table: BaseModel, keys: tuple[str, ...]) -> Iterator[str]:
    """Lines for the keys whose values are not their defaults."""
    for key, value in _said(table, keys).items():
        yield f"{key} = {_value(value)}"


def _said(table: BaseModel, keys: tuple[str, ...]) -> Document:
    """The keys whose values are not their defaults, with these as TOML has them."""
    said = {key: value for key, value in table if key in keys and value != _default(type(table), key)}
    return {key: _plain(_with_unit(table, key, said[key])) for key in keys if key in said}


@cache
def _default(kind: type[BaseModel], key: str) -> object:
    return kind.model_fields[key].get_default(call_default_factory=True)


def _with_unit(table: BaseModel, key: str, value: Any) -> Any:
    kind = kind_at(type(table), [key])
    if kind is None or kind.quantity is None:
        return value
    units = UNITS.get(kind.quantity.name)
    return exact_text(value, kind.quantity, units) if units else kind.quantity.text(value)


def _plain(value: Any) -> DocumentValue:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return _plain(value[0]) if len(value) == 1 and isinstance(value, tuple) else [_plain(each) for each in value]
    return value.value if isinstance(value, StrEnum) else value


def _value(value: DocumentValue) -> str:
    """A value in one line, lists and tables too."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if type(value) is int:
        return str(value)
    return tomli_w.dumps({"key": value}).removeprefix("key = ").rstrip("\n")


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else tomli_w.dumps({key: 0}).removesuffix(" = 0\n")


def made_up(section: ModelSection) -> Profile:
    """Builds the profile of `section.layers`, with one sample per iteration.

    Raises InputFault if two layers have one name, a size is not a whole number of parameters, or an input is not an earlier layer.
    """
    names = [layer.name for layer in section.layers]
    if len(set(names)) < len(names):
        raise InputFault(f"model.layers: two layers are called '{Counter(names).most_common(1)[0][0]}'")
    layers = tuple(
        Layer(layer.name, layer.kind, _tensors_of_sizes(layer), 0.0, _inputs(layer, number, names))
        for number, layer in enumerate(section.layers)
    )
    return Profile(section.name, layers, batch=1, source="made up in the scenario")


def made_up_times(section: ModelSection) -> ComputeTime:
    """Collects the times of `section.layers`."""
    forward_s = tuple(layer.forward for layer in section.layers)
    backward_s = tuple(layer.backward for layer in section.layers)
    return ComputeTime(forward_s, backward_s, "made up in the scenario")


def _tensors_of_sizes(layer: LayerSection) -> tuple[Tensor, ...]:
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
