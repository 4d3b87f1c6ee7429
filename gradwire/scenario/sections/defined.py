"""The tables of model files and device files. The same tables stand in a scenario, under `defined`."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gradwire.scenario.sections.network import NetworkDefinition, RoutesDefinition
from gradwire.workloads.fields import (
    MOST_SAMPLES,
    BytesPerS,
    DurationS,
    Flops,
    FlopsPerS,
    InWords,
    Section,
    SizeBytes,
)
from gradwire.workloads.models.device_facts import ByKind
from gradwire.workloads.models.profile import LayerKind

MOST_PARAMETERS = 10**12
"""Largest number of parameters of one tensor."""
MOST_ELEMENTS = 10**15
"""Largest number of elements of one sample's activations."""
MOST_AXES = 32
"""Largest number of axes of one tensor: twice as many as the most of any framework's (PyTorch has no limit, NumPy
64)."""


def _shape(value: object) -> object:
    """A number of parameters is the shape of a vector."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _product(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > MOST_PARAMETERS:
        raise ValueError(f"has more than {MOST_PARAMETERS:,} parameters")
    return shape


Shape = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MOST_PARAMETERS)], ...],
    Field(max_length=MOST_AXES),
    AfterValidator(_product),
    BeforeValidator(_shape, json_schema_input_type=int | list[int]),
    InWords("a tensor's shape, such as [768, 3072], or its number of parameters"),
]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""Names that scenarios can say: a plus adds modules (`inception-v3+25compute`), and slashes and endings are those of paths."""


def name_defect(name: str) -> str:
    """Describes the defect of a name that a user gives a model, a device or a strategy; "" if there is none."""
    if NAME.fullmatch(name) and not name.endswith((".toml", ".json", ".py")):
        return ""
    return "may have letters, digits, '-', '_' and '.', begins with a letter or a digit, and does not end in .toml, .json or .py"


class LayerDefinition(Section):
    """One step of a model's forward pass."""

    name: str = Field(min_length=1)
    """Name in plans and reports; no two layers have the same."""
    kind: LayerKind = LayerKind.OTHER
    """What it computes; some strategies treat fully connected layers in their own way."""
    tensors: dict[str, Shape] = Field(default_factory=dict)
    """Trainable tensors in creation order, each with its shape or its number of parameters: `{ weights = [768, 3072], bias = 3072 }`."""
    flops: Flops = Field(ge=0)
    """Operations of the forward pass for one sample. Layers share the time of an iteration in proportion to them."""
    inputs: list[str] | None = None
    """Names of the layers that it reads; by default, the layer before it. An empty list: the samples themselves."""
    untrained: int = Field(0, ge=0, le=MOST_SAMPLES)
    """Variables that are never sent, such as moving averages. They take their turn where variables are placed round robin."""
    elements_in: float = Field(0, ge=0, le=MOST_ELEMENTS)
    """Numbers that it reads for one sample. With `elements_out` of all layers, a device with a memory rate times the model by kind of
    layer."""
    elements_out: float = Field(0, ge=0, le=MOST_ELEMENTS)
    """Numbers that it yields for one sample."""


class ModelDefinition(Section):
    """A model of your own, as a model file says it; the key `name` of the file stands in the heading here."""

    batch: int = Field(ge=1, le=MOST_SAMPLES)
    """Samples that a worker processes in an iteration, unless the scenario says otherwise."""
    source: str = Field(min_length=1)
    """Who printed the model, or where its numbers come from."""
    layers: tuple[LayerDefinition, ...]
    """Layers in forward order."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = [layer.name for layer in self.layers]
        if len(set(names)) < len(names):
            raise ValueError(f"layers: two are called '{Counter(names).most_common(1)[0][0]}'")
        if not any(layer.flops for layer in self.layers):
            raise ValueError("layers: none has any flops, by which they share an iteration's time")
        if not any(layer.tensors for layer in self.layers):
            raise ValueError("layers: none has tensors, so there is nothing to communicate")
        earlier: dict[str, None] = {}
        for number, layer in enumerate(self.layers):
            empty = [name for name, shape in layer.tensors.items() if not shape]
            if empty:
                raise ValueError(f"layers.{number}.tensors.{empty[0]} = []: a shape has at least one number")
            unknown = [name for name in layer.inputs or () if name not in earlier]
            if unknown:
                known = ", ".join(earlier) or "none"
                raise ValueError(
                    f"layers.{number}.inputs: '{layer.name}' reads '{unknown[0]}', which is not an earlier layer; earlier ones: {known}"
                )
            earlier[layer.name] = None
        return self


class FactDefinition(Section):
    """A measured or printed time of a model on the device."""

    model: str = Field(min_length=1)
    """The model's name."""
    batch: int = Field(ge=1, le=MOST_SAMPLES)
    """Samples of the iteration that was timed."""
    iteration_time: DurationS | None = Field(None, gt=0)
    """Time of an iteration of one device alone, forward and backward pass; or give the two passes."""
    forward_time: DurationS | None = Field(None, gt=0)
    """Time of the forward pass."""
    backward_time: DurationS | None = Field(None, gt=0)
    """Time of the backward pass."""
    source: str = Field(min_length=1)
    """Who measured it, and how."""
    fitted_on: str | None = Field(None, min_length=1)
    """The printed value that the time was inferred from, which is then marked as fitted and never counted as predicted."""
    first_backward_free: bool = False
    """Whether the source leaves out the layer that the backward pass starts with."""

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        passes = (self.forward_time, self.backward_time)
        whole = self.iteration_time is not None and passes == (None, None)
        if not whole and (self.iteration_time is not None or None in passes):
            raise ValueError("iteration_time: write either this, or both forward_time and backward_time")
        return self


class PeakDefinition(Section):
    """What the device can do at most, and how much of it training reaches: the times of all models without a fact."""

    rate: FlopsPerS = Field(gt=0)
    """Peak rate of operations, by the data sheet."""
    efficiency: float = Field(gt=0, le=1)
    """Share of the peak rate that training reaches."""
    source: str = Field(min_length=1)
    """Where the efficiency comes from."""
    memory_rate: BytesPerS | None = Field(None, gt=0)
    """Rate of its memory, by the data sheet. With it, models go by kind of layer, with the shares that layers reach on an H100, and the
    efficiency is used where by_kind leaves a model out, or a model does not say what its layers move."""
    by_kind: ByKind = ByKind.CONVOLUTIONAL
    """Which models go by kind of layer: `convolutional` ones, or `all`."""


class DeviceDefinition(Section):
    """A device of your own, as a device file says it; the key `name` of the file stands in the heading here."""

    description: str = Field(min_length=1)
    """What it is, and how it was used."""
    memory: SizeBytes | None = Field(None, ge=1)
    """Its memory. A model that does not fit is warned of."""
    link: BytesPerS | None = Field(None, gt=0)
    """Rate of its link to the other devices of a machine, in each direction, such as NVLink's. A scenario whose machines have several
    workers says it again, as costs.local_rate."""
    peak: PeakDefinition | None = None
    """Peak rate and efficiency."""
    facts: tuple[FactDefinition, ...] = ()
    """Times of models."""
    alike: dict[str, str] = Field(default_factory=dict)
    """For models without a fact, the model whose seconds per operation they take: `{ vgg19 = "vgg16" }`."""

    @model_validator(mode="after")
    def _has_times(self) -> Self:
        if not self.facts and self.peak is None:
            raise ValueError("facts: missing; a device needs times of models, or a [peak] rate")
        known = {fact.model for fact in self.facts}
        for name, other in self.alike.items():
            if other not in known:
                raise ValueError(
                    f"alike.{name} = '{other}': must be a model with a fact here: {', '.join(sorted(known)) or 'none'}"
                )
        return self


class _Named(Section):
    name: str
    """Name in scenarios and tables."""

    @model_validator(mode="after")
    def _name_is_one(self) -> Self:
        if defect := name_defect(self.name):
            raise ValueError(f"name = '{self.name}': {defect}")
        return self


class ModelFile(ModelDefinition, _Named):
    """A model file."""


class DeviceFile(DeviceDefinition, _Named):
    """A device file."""


class ControllerDefinition(Section):
    """A controller of your own: its code stays where it is."""

    file: str
    """Path of its file."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Hash of the file."""


class DefinedSection(Section):
    """Models, devices and strategies of your own, by the names that the rest of the scenario uses.

    The copy of a scenario in a run folder has here what the files that it names said when it ran.
    """

    models: dict[str, ModelDefinition] = Field(default_factory=dict)
    """What model files say, by the models' names."""
    devices: dict[str, DeviceDefinition] = Field(default_factory=dict)
    """What device files say, by the devices' names."""
    strategies: dict[str, str] = Field(default_factory=dict)
    """Paths of strategies' files, by the strategies' names."""
    networks: dict[str, NetworkDefinition] = Field(default_factory=dict)
    """What files of networks say, by the networks' names."""
    routes: dict[str, RoutesDefinition] = Field(default_factory=dict)
    """What tables of routes say, by the tables' names."""

    controllers: dict[str, ControllerDefinition] = Field(default_factory=dict)
    """Where controllers of your own are, by the controllers' names."""

    def in_words(self) -> dict[str, str]:
        """Describes each definition in a few words, by its dotted key."""
        return {
            **{
                f"models.{name}": f"{len(definition.layers)} layers: {definition.source}"
                for name, definition in self.models.items()
            },
            **{f"devices.{name}": definition.description for name, definition in self.devices.items()},
            **{f"strategies.{name}": path for name, path in self.strategies.items()},
            **{
                f"networks.{name}": f"{len(definition.switches)} switches, {len(definition.hosts)} hosts, {len(definition.links)} links"
                for name, definition in self.networks.items()
            },
            **{f"controllers.{name}": definition.file for name, definition in self.controllers.items()},
            **{f"routes.{name}": f"{len(definition.route)} rows" for name, definition in self.routes.items()},
        }

    @model_validator(mode="after")
    def _names_are_names(self) -> Self:
        for table in ("models", "devices", "strategies", "networks", "routes", "controllers"):
            for name in getattr(self, table):
                if defect := name_defect(name):
                    raise ValueError(f"{table}: the name '{name}' {defect}")
        return self
