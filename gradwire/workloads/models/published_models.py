"""The published transformers that gradwire comes with: those of published_models.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

from gradwire.workloads.models.families import shape_of
from gradwire.workloads.models.family_table import FAMILIES
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.transformer_layers import transformer_profile
from gradwire.workloads.models.transformer_shapes import Transformer

PUBLISHED: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    (files(__package__) / "published_models.toml").read_text(encoding="utf-8")
)


def published_shape(name: str) -> Transformer | None:
    """The shape of a published model; None for another name."""
    row = PUBLISHED.get(name)
    if row is None:
        return None
    family = FAMILIES[row["model_type"]]
    shape = shape_of(family, row["config"], next(iter(family.heads.values())))
    return replace(shape, tokens=row.get("tokens", shape.tokens), **row.get("shape", {}))


def _profile(name: str) -> Profile:
    shape, row = published_shape(name), PUBLISHED[name]
    assert shape is not None  # it has a row
    return transformer_profile(name, shape, row.get("batch", 1), row["source"])


TRANSFORMERS: Mapping[str, Callable[[], Profile]] = {name: partial(_profile, name) for name in PUBLISHED}
