"""The settings that a point uses in the end: those of its file, of sweeps and of the command line, and the defaults of all others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from gradwire.scenario.explanations import OPTIONS_KEY
from gradwire.scenario.schema import OF_JOBS, PointSection
from gradwire.workloads.fields import ValueKind, kind_at
from gradwire.workloads.strategy import Options

UNSET = "unset"


def used_settings(section: PointSection, options: Options, *, defaults: bool = True) -> dict[str, str]:
    """Every setting of a point by its dotted key, each value in the form of a scenario; "unset" for keys without a
    value. defaults: also settings that are as they would be by default."""
    settings: dict[str, str] = {}
    for key, text in _settings(section, "", defaults=defaults):
        if key.startswith("defined.") or (key == "job" and not section.job):
            continue
        if section.job and key.startswith(tuple(f"{table}." for table in OF_JOBS)):
            continue  # those of the first job
        if key != OPTIONS_KEY:
            settings[key] = text
    settings |= dict(_settings(options, f"{OPTIONS_KEY}.", defaults=defaults))
    return settings | {f"defined.{key}": text for key, text in section.defined.in_words().items()}


def common_settings(points: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The settings with the same value in all points."""
    first, *others = points
    return {key: text for key, text in first.items() if all(other.get(key) == text for other in others)}


def _settings(section: BaseModel, prefix: str, *, defaults: bool) -> Iterator[tuple[str, str]]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _settings(value, f"{prefix}{name}.", defaults=defaults)
        elif defaults or field.is_required() or value != field.get_default(call_default_factory=True):
            yield f"{prefix}{name}", value_text(value, kind_at(type(section), [name]), defaults=defaults)


def value_text(value: Any, kind: ValueKind | None, *, defaults: bool = True) -> str:
    """A value as a scenario may say it; UNSET for None. defaults: whether tables have what is as it would be by default."""
    if value is None:
        return UNSET
    if kind is not None and not isinstance(value, str) and (quantity := kind.of_numbers) is not None:
        return quantity.text(value)
    element = kind.element if kind and (kind.is_list or kind.is_table) else None
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(each, element, defaults=defaults) for each in value)}]"
    if isinstance(value, BaseModel):
        return _table(_settings(value, "", defaults=defaults))
    if isinstance(value, dict):
        return _table((key, value_text(each, element, defaults=defaults)) for key, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _table(settings: Iterable[tuple[str, str]]) -> str:
    listed = ", ".join(f"{key} = {text}" for key, text in settings)
    return f"{{ {listed} }}" if listed else "{}"
