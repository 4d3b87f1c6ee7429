"""A transformer cut as tensor and pipeline parallelism cut it: into the halves of its blocks, between which workers exchange activations.

Source: Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, 2019, section 3 and Fig. 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

from gradwire.faults import InputFault
from gradwire.workloads.models.profile import Profile

HALF = re.compile(r"(block(\d+)/(?:attention|ffn))/")
"""How models name the layers of a transformer's blocks."""


@dataclass(frozen=True)
class Segment:
    """Layers that follow one another without an exchange of activations."""

    name: str
    #: Numbers of the layers, in forward order.
    layers: tuple[int, ...]
    #: Number of parameters.
    values: int
    #: Whether workers that share the layers sum its outputs in the forward pass, and the gradients of its inputs in the backward pass.
    sums_outputs: bool = True
    sums_gradients: bool = True


@dataclass(frozen=True)
class Cut:
    """A model in segments, by stage."""

    stages: tuple[tuple[Segment, ...], ...]
    #: Values that one sample's activations have between segments; 0 if the model is one segment.
    activation_values: int


def uncut(profile: Profile) -> Cut:
    """The whole model as one segment, for replicas of one worker each."""
    whole = Segment(profile.name, tuple(range(len(profile.layers))), profile.parameters, False, False)
    return Cut(((whole,),), 0)


def cut(profile: Profile, stages: int) -> Cut:
    """Halves of blocks, with what is before the first block (the embedding) and behind the last one (the output) as segments of their own.

    Blocks are divided evenly; the first stage has the embedding as well and the last one the output. Workers that share the embedding
    sum its outputs, and those that share the output its inputs' gradients.

    Raises InputFault for a model that is no transformer, and for blocks that the stages do not divide.
    """
    matches = [HALF.match(layer.name) for layer in profile.layers]
    blocks = sorted({int(match[2]) for match in matches if match})
    if not blocks:
        raise InputFault(
            f"model.name = '{profile.name}': has no blocks of attention and feed-forward layers, which tensor and pipeline parallelism "
            "divide; take a transformer, such as llama3-8b, or strategy.options.tensor = 1 and stages = 1"
        )
    if len(blocks) % stages:
        raise InputFault(
            f"strategy.options.stages = {stages}: must divide the {len(blocks)} blocks of '{profile.name}'"
        )
    found: list[list[Segment]] = [[] for _ in range(stages)]
    numbered = groupby(enumerate(matches), key=lambda pair: pair[1][1] if pair[1] else "")
    for name, members in numbered:
        layers = tuple(number for number, _ in members)
        values = sum(profile.layers[layer].parameters for layer in layers)
        match = matches[layers[0]]
        is_first = layers[0] == 0
        stage = int(match[2]) * stages // len(blocks) if match else 0 if is_first else stages - 1
        found[stage].append(
            Segment(
                name or profile.layers[layers[0]].name,
                layers,
                values,
                sums_outputs=bool(match) or is_first,
                sums_gradients=bool(match) or not is_first,
            )
        )
    return Cut(tuple(map(tuple, found)), _activation_values(profile))


def _activation_values(profile: Profile) -> int:
    """Those of the first residual sum, which costs one operation for each."""
    return next(
        round(layer.flops) for layer in profile.layers if HALF.match(layer.name) and layer.name.endswith("/add")
    )
