"""Language models of other sizes: transformers with fewer blocks, of which each costs and sends the same, and
samples that are longer or shorter sequences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.models.compute_times import ComputeTime
from gradwire.workloads.models.profile import Layer, Profile

BLOCK = re.compile(r"block(\d+)/")
"""Pattern of the names that models give the layers of a transformer's blocks."""
SCORES = "/attend"
"""Ending of the names of layers that compare every token with every other."""


def block_count(profile: Profile) -> int:
    """Blocks of a transformer; 0 for a model without."""
    return len(_blocks(profile))


def shortened(profile: Profile, blocks: int) -> Profile:
    """The model with so many of its blocks, evenly spaced, so that blocks of several kinds stay in proportion.

    Raises InputFault for a model that does not have as many.
    """
    kept = kept_layers(profile, blocks)
    # What read a block that is left out reads what that block read: all of them go along one path.
    kept_number = (np.searchsorted(kept, np.arange(len(profile.layers)), side="right") - 1).tolist()
    number_of = {old: new for new, old in enumerate(_blocks(profile, kept))}
    layers = [_renumber(profile.layers[number], kept_number, number_of) for number in kept]
    return replace(profile, name=f"{profile.name} with {blocks} blocks", layers=tuple(layers))


def shortened_time(time: ComputeTime, profile: Profile, blocks: int) -> ComputeTime:
    """The times of the layers that `shortened` keeps. profile: the model with all its blocks."""
    kept = kept_layers(profile, blocks)
    return replace(
        time,
        forward_s=tuple(time.forward_s[number] for number in kept),
        backward_s=tuple(time.backward_s[number] for number in kept),
    )


def kept_layers(profile: Profile, blocks: int) -> list[int]:
    """Numbers of the layers that are in no block, or in one that is kept.

    Raises InputFault if there are not as many blocks.
    """
    numbers = _blocks(profile)
    if not 1 <= blocks <= len(numbers):
        has = f"has {len(numbers)} blocks" if numbers else "has no blocks of attention and feed-forward layers"
        raise InputFault(f"model.blocks = {blocks}: '{profile.name}' {has}")
    chosen = {numbers[(2 * index + 1) * len(numbers) // (2 * blocks)] for index in range(blocks)}
    matches = [BLOCK.match(layer.name) for layer in profile.layers]
    return [number for number, match in enumerate(matches) if match is None or int(match[1]) in chosen]


def _blocks(profile: Profile, layers: Sequence[int] | None = None) -> list[int]:
    """Returns the numbers of the model's blocks, or of the blocks that these layers are in."""
    chosen = profile.layers if layers is None else [profile.layers[number] for number in layers]
    return sorted({int(match[1]) for layer in chosen if (match := BLOCK.match(layer.name))})


def _renumber(layer: Layer, kept_number: Sequence[int], number_of: Mapping[int, int]) -> Layer:
    name = BLOCK.sub(lambda match: f"block{number_of[int(match[1])]}/", layer.name)
    return replace(layer, name=name, inputs=tuple(dict.fromkeys(kept_number[number] for number in layer.inputs)))


def sample_tokens(profile: Profile) -> int:
    """Tokens of a sample: a product has two operations for each token and parameter. Raises InputFault for a model that
    is not a transformer."""
    for layer in profile.layers:
        if layer.name.endswith("/proj") and layer.tensors:
            weights = max(layer.tensors, key=lambda tensor: tensor.parameters)
            return round(layer.flops / (2 * weights.parameters))
    raise InputFault(f"model '{profile.name}': has no blocks with attention, whose samples have a length")


def with_tokens(profile: Profile, tokens: int) -> Profile:
    """The model on samples of so many tokens: operations grow as tokens do, and those of attention's scores as their
    square. A table of learned positions stays as it is. Raises InputFault as `sample_tokens` does."""
    ratio = tokens / sample_tokens(profile)
    if ratio == 1:
        return profile

    def scaled(layer: Layer) -> Layer:
        return replace(
            layer,
            flops=layer.flops * (ratio * ratio if layer.name.endswith(SCORES) else ratio),
            elements_in=layer.elements_in * ratio,
            elements_out=layer.elements_out * ratio,
        )

    return replace(
        profile,
        name=f"{profile.name}-{tokens}-tokens",
        layers=tuple(map(scaled, profile.layers)),
        source=f"{profile.source}; with samples of {tokens} tokens",
    )
