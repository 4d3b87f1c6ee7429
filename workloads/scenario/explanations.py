"""Error messages for scenarios that fail validation. Each names the key and says what would be right."""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from gradwire.validation import key_of, reason_of
from gradwire.workloads.scenario.schema import FileSection, PointSection

NO_LIST = ("list_type", "tuple_type")
MOST_HINTS = 3
"""With more candidates than this, no key is suggested."""


def explain(kind: type[BaseModel], defect: Any) -> str:
    """Describes one defect of a `kind` of section, an entry of pydantic's `errors()`: the key, and what would be right."""
    place = [str(step) for step in defect["loc"]]
    key, value = key_of(defect), defect["input"]
    if defect["type"] == "extra_forbidden":
        return _unknown(key, _hint(kind, place), _known_at(kind, place[:-1]))
    if defect["type"] == "missing":
        return f"{key}: missing"
    if defect["type"] == "model_type":
        return _no_table(key, value, keys_at(kind, place))
    if place[-1] == "[key]":
        allowed = re.findall(r"'([^']+)'", defect["ctx"]["expected"])
        return _unknown(".".join(place[:-1]), _close(place[-2], allowed), allowed)
    if defect["type"] == "value_error" and isinstance(value, dict):
        return f"{key}.{reason(defect)}"  # messages of a section's own validator begin with one of its keys
    return f"{key} = {value!r}: {reason(defect, may_be_swept=kind is PointSection)}"


def reason(defect: Any, *, may_be_swept: bool = True) -> str:
    """Describes what is wrong with a value, without its key.

    `may_be_swept` says whether the key may be swept, in which case a list means several values.
    """
    if may_be_swept and defect["type"] in NO_LIST:
        value = json.dumps(defect["input"], default=str)
        return f"must be a list, like [{value}]; where lists are swept, in --set and [sweep], one list is set by [[{value}]]"
    if defect["type"] == "dict_type":
        return "must be a table of keys"
    return reason_of(defect)


def keys_at(kind: type[BaseModel], place: Sequence[str]) -> list[str]:
    """Returns the keys that the section at `place` takes."""
    for step in place:
        if step.isdigit():  # the index in a list of sections
            continue
        field = kind.model_fields.get(step)
        section = _section_of(field.annotation) if field else None
        if section is None:
            return []
        kind = section
    return list(kind.model_fields)


def dotted_keys(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yields the dotted keys of a section and of the sections nested in it, except those in lists of sections."""
    for name, field in kind.model_fields.items():
        yield f"{prefix}{name}"
        section = None if get_origin(field.annotation) is list else _section_of(field.annotation)
        if section is not None:
            yield from dotted_keys(section, f"{prefix}{name}.")


def _unknown(key: str, hint: str, allowed: Sequence[str]) -> str:
    return f"{key}: unknown key; {hint}Known here: {', '.join(allowed)}"


def _hint(kind: type[BaseModel], place: Sequence[str]) -> str:
    """Suggests the key that was meant: the same name in another section, a similar one in this section, or a similar one elsewhere."""
    by_last_part: dict[str, list[str]] = {}
    for key in dotted_keys(kind):
        by_last_part.setdefault(key.rpartition(".")[2], []).append(key)
    name = place[-1]
    if name in by_last_part:
        return _did_you_mean(by_last_part[name])
    return _close(name, _known_at(kind, place[:-1])) or _did_you_mean(
        [key for near in difflib.get_close_matches(name, by_last_part, n=1) for key in by_last_part[near]]
    )


def _close(name: str, allowed: Sequence[str]) -> str:
    return _did_you_mean(difflib.get_close_matches(name, allowed, n=1))


def _did_you_mean(keys: Sequence[str]) -> str:
    if not keys or len(keys) > MOST_HINTS:
        return ""
    suggestions = " or ".join(f"'{key}'" for key in keys)
    return f"did you mean {suggestions}? "


def _known_at(kind: type[BaseModel], place: Sequence[str]) -> list[str]:
    """Returns what `keys_at` does; at the top level, the keys of the file come after the sections of a point."""
    keys = keys_at(kind, place)
    return [*keys, *FileSection.model_fields] if kind is PointSection and not place else keys


def _no_table(key: str, value: Any, allowed: Sequence[str]) -> str:
    if "source" in allowed:
        return f'{key}: write where it comes from as well, like {{ value = {json.dumps(value)}, source = "measured" }}'
    if "name" in allowed and isinstance(value, str):
        return f"{key} = {value!r}: is a table of keys, not a value: write {key}.name={value}"
    return f"{key} = {value!r}: is a table of keys, not a value. Known here: {', '.join(allowed)}"


def _section_of(annotation: Any) -> type[BaseModel] | None:
    if get_origin(annotation) in (Union, types.UnionType, list):
        return next((section for section in map(_section_of, get_args(annotation)) if section), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
