"""Models with modules added, as NetOps (Sec. 8.5) projects future networks from Inception-v3.

A name such as `inception-v3-netops+25compute` means 25 more modules of 35x35x288, `+25network` 25 more of 17x17x768.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from gradwire.faults import InputFault
from gradwire.workloads.models.inception import module_17, module_35
from gradwire.workloads.models.profile import Layer, LayerKind, Profile
from gradwire.workloads.models.shapes import Network, Node


@dataclass(frozen=True)
class Module:
    """A module whose output has the shape of its input, so that any number of them fit in a row."""

    #: (channels, height, width) of input and output.
    shape: tuple[int, int, int]
    #: The stage of the base model after which modules are inserted.
    after: str
    build: Callable[[Network, Node, str], Node]


MODULES = {
    "compute": Module((288, 35, 35), "mixed_5d", module_35),
    "network": Module((768, 17, 17), "mixed_6e", module_17),
}
"""NetOps' compute-intensive (1225 MACs per parameter) and network-intensive (289) modules."""
_ADDED = re.compile(rf"(?P<count>[1-9]\d*)(?P<kind>{'|'.join(MODULES)})")


MOST_MODULES = 1_000
"""The most modules of a kind: five times as many as NetOps adds at most. Each has some 20 layers."""
PREFIX = "added_"
"""Prefix of the names of added modules' layers."""


def base_name(name: str) -> str:
    """Returns the name of the model that `name` adds modules to, which is `name` itself if it adds none."""
    return name.partition("+")[0]


def parse_added(name: str) -> list[tuple[str, int]]:
    """Parses the (kind, count) pairs after the base name.

    Raises InputFault if a part is not `<count>compute` or `<count>network`.
    """
    added = []
    for part in name.split("+")[1:]:
        match = _ADDED.fullmatch(part)
        if match is None:
            example = f"{base_name(name)}+25compute"
            raise InputFault(
                f"model '{name}': '+{part}' must be a count and one of {', '.join(MODULES)}, as in '{example}'"
            )
        if len(match["count"]) > len(str(MOST_MODULES)) or int(match["count"]) > MOST_MODULES:
            raise InputFault(f"model '{name}': '+{part}': must be at most {MOST_MODULES:,} modules")
        added.append((match["kind"], int(match["count"])))
    return added


def add_modules(base: Profile, kind: str, count: int) -> Profile:
    """Inserts `count` modules of a `kind` of MODULES into `base`, after the stage of the same shape.

    Raises InputFault if the kind is unknown or the base model has no such stage.
    """
    if kind not in MODULES:
        raise InputFault(f"module '{kind}' is not known; known: {', '.join(MODULES)}")
    module = MODULES[kind]
    stage = [index for index, layer in enumerate(base.layers) if layer.name.startswith(f"{module.after}/")]
    if not stage:
        shape = "x".join(map(str, (*module.shape[1:], module.shape[0])))
        raise InputFault(
            f"model {base.name} has no stage {module.after} of {shape}: only Inception v3 takes '{kind}' modules"
        )
    at = stage[-1] + 1
    outputs = _outputs(base.layers, stage)
    added: list[Layer] = []
    reads = outputs
    for index in range(1, count + 1):
        net = Network(*module.shape, norm_tensors=_norm_tensors(base.layers, stage))
        last = module.build(net, net.sample, f"{PREFIX}{kind}{index}")
        offset = at + len(added)
        added += [_move(layer, reads, offset) for layer in net.layers]
        reads = tuple(read + offset for read in last.reads)
    behind = [_behind(layer, at, len(added), outputs, reads) for layer in base.layers[at:]]
    return Profile(
        f"{base.name}+{count}{kind}",
        (*base.layers[:at], *added, *behind),
        base.batch,
        f"{base.source}; {count} {kind}-intensive modules added as in NetOps Sec. 8.5",
    )


def _outputs(layers: tuple[Layer, ...], stage: list[int]) -> tuple[int, ...]:
    """Finds the layers of the stage that later layers read."""
    read = {i for layer in layers[stage[-1] + 1 :] for i in layer.inputs}
    return tuple(index for index in stage if index in read)


def _norm_tensors(layers: tuple[Layer, ...], stage: list[int]) -> tuple[str, ...]:
    """Returns the tensors that normalisations of the stage train, so that those of added modules train the same."""
    norm = next(layers[index] for index in stage if layers[index].kind is LayerKind.NORM)
    return tuple(tensor.name.rpartition("/")[2] for tensor in norm.tensors)


def _move(layer: Layer, source: tuple[int, ...], offset: int) -> Layer:
    """Moves a layer of a module to its place in the whole model. A layer that read the sample now reads `source`."""
    return replace(layer, inputs=tuple(i + offset for i in layer.inputs) or source)


def _behind(layer: Layer, at: int, added: int, old: tuple[int, ...], new: tuple[int, ...]) -> Layer:
    """Adapts a layer after the insertion: indices move up, and a layer that read the stage's outputs `old` now reads
    `new`."""
    kept = [i + added if i >= at else i for i in layer.inputs if i not in old]
    joined = [*kept, *new] if set(old) & set(layer.inputs) else kept
    return replace(layer, inputs=tuple(sorted(joined)))
