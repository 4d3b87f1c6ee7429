"""Model files and device files as text, so that what gradwire brings can be read, changed and used under another name.

Every number is written so that reading it gives the very same number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tomli_w
from pydantic import BaseModel

from gradwire.workloads.definitions.schema import DeviceFile, ModelFile
from gradwire.workloads.scenario.expectations import kind_at
from gradwire.workloads.scenario.units import DURATION, SIZE, exact_text

UNITS = {DURATION.name: ("s", "ms", "us"), SIZE.name: ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")}
"""Units to write quantities in; a quantity that is not here is written exactly by its own `text`."""


def model_text(model: ModelFile) -> str:
    """A model file's text."""
    return "\n".join([*_pairs(model, ("name", "batch", "source")), *_blocks("[[layers]]", model.layers)]) + "\n"


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
    said = {key: value for key, value in table if key in keys and value != _default(table, key)}
    for key in (key for key in keys if key in said):
        yield f"{key} = {_value(_with_unit(table, key, said[key]))}"


def _default(table: BaseModel, key: str) -> Any:
    return type(table).model_fields[key].get_default(call_default_factory=True)


def _with_unit(table: BaseModel, key: str, value: Any) -> Any:
    kind = kind_at(type(table), [key])
    if kind is None or kind.quantity is None:
        return value
    units = UNITS.get(kind.quantity.name)
    return exact_text(value, kind.quantity, units) if units else kind.quantity.text(value)


def _value(value: Any) -> str:
    """A value in one line, lists and tables too."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())} }}"
    if isinstance(value, tuple) and len(value) == 1:  # a vector's shape
        return str(value[0])
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return tomli_w.dumps({"key": value}).removeprefix("key = ").rstrip("\n")


def _key(key: str) -> str:
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")
