"""`set=` of the functions: what `--set` is on the command line, as text or as a mapping."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from gradwire.faults import InputFault

Settings = Mapping[str, Any] | Sequence[str]


def settings_of(given: Settings) -> tuple[str, ...]:
    """Settings as `key=value` texts, from such texts or from a mapping of dotted keys to values. Raises InputFault for
    anything else."""
    if isinstance(given, Mapping):
        return tuple(f"{key}={_setting_text(value)}" for key, value in given.items())
    if isinstance(given, str):
        raise InputFault(f"set={given!r}: give a mapping, like {{'fabric.rate': '25gbit'}}, or a list of texts")
    return tuple(given)


def _setting_text(value: Any) -> str:
    """A value as `--set` takes it. A text that is not TOML by itself stays as it is, since titles and folders say what
    was set."""
    if isinstance(value, str) and value == value.strip() and value.isprintable() and not _is_toml(value):
        return value
    return _toml(value)


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return False
    return True


def _toml(value: Any) -> str:
    """A value as TOML, in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    item = getattr(value, "item", None)  # numpy's scalars
    try:
        return json.dumps(item() if item else value, ensure_ascii=False)
    except TypeError as error:
        raise InputFault(f"set: {value!r} is a {type(value).__name__}, and no value of a scenario") from error
