"""Samples of other lengths: a language model on longer or shorter sequences."""

from __future__ import annotations

from dataclasses import replace

from gradwire.faults import InputFault
from gradwire.workloads.models.profile import Layer, Profile

SCORES = "/attend"
"""What the layers are called that look from every token at every other."""


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
        return replace(layer, flops=layer.flops * (ratio * ratio if layer.name.endswith(SCORES) else ratio))

    return replace(
        profile,
        name=f"{profile.name}-{tokens}-tokens",
        layers=tuple(map(scaled, profile.layers)),
        source=f"{profile.source}; with samples of {tokens} tokens",
    )
