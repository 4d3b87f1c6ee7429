"""Error messages for scenarios, and for options of strategies, that fail validation. Each names the key and the values
that would be right."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault, reason_of
from gradwire.nearest_names import BEGUN, MOST_MEANT, did_you_mean, nearest_names
from gradwire.scenario.schema import PointTables
from gradwire.scenario.synonyms import meant_by
from gradwire.workloads.fields import ValueKind, kind_at
from gradwire.workloads.strategy import Options, Strategy

OPTIONS_KEY = "strategy.options"
OUT_OF_RANGE = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
LONGEST_SHOWN = 60
"""Characters of a wrong value that are shown."""


def explain(kind: type[BaseModel], defect: ErrorDetails, document: DocumentTable, prefix: str = "") -> list[str]:
    """Describes one defect of a `kind` of section, an entry of pydantic's `errors()`: the key, and the values that
    would be right.

    document: what was validated. prefix: goes before the key.
    """
    place = _place_in(kind, document, defect["loc"])
    key, value = prefix + ".".join(map(str, place)), value_at(document, place)
    if defect["type"] == "extra_forbidden":
        names = [str(step) for step in place]
        inside = [_hint(kind, [*names, below]) for below in value] if isinstance(value, dict) else []
        hint = next(filter(None, [_hint(kind, names), *inside]), "")
        return [_unknown(key, hint, _known_at(kind, names[:-1]))]
    if is_of_section(kind, defect, document):
        # Messages of a section's own validator begin with one of its keys.
        return [f"{key}{'.' if key else ''}{line}" for line in reason_of(defect).splitlines()]
    expected = kind_at(kind, place)
    if isinstance(value, dict) and expected and expected.table and not _is_of_table(expected, defect):
        return []  # it is not a word or a size either: what is wrong with the table is told
    words = expected.words if expected else ""
    if defect["type"] == "missing":
        return [f"{key}: missing; write {words}" if words else f"{key}: missing"]
    table = kind_at(kind, place[:-1])
    if table and table.keys and str(place[-1]) not in table.keys:
        return [_unknown(key, close(str(place[-1]), table.keys), table.keys)]
    if expected and expected.section and not isinstance(value, dict):
        line = _no_table(key, value, list(expected.section.model_fields))
    else:
        line = f"{key} = {shown(value)}: {requirement(expected, defect, value, may_be_swept=issubclass(kind, PointTables))}"
    return [line]


def requirement(expected: ValueKind | None, defect: ErrorDetails, value: DocumentValue, *, may_be_swept: bool) -> str:
    """Requirement on a value, in words, without its key.

    `may_be_swept` says whether the key may be swept, in which case a list means several values.
    """
    if expected and may_be_swept and expected.is_list and not expected.given_words and not isinstance(value, list):
        text = json.dumps(value, default=str)
        return (
            f"must be a list, like [{text}]; where lists are swept, in --set and [sweep], one list is set by [[{text}]]"
        )
    if expected and expected.quantity and isinstance(value, str) and defect["type"] == "value_error":
        return reason_of(defect)
    words = expected.words if expected else ""
    if not words:
        return reason_of(defect)
    if defect["type"] == "finite_number":
        return f"must be {words}, and finite"
    near = close(value, [str(choice) for choice in expected.choices]) if expected and isinstance(value, str) else ""
    because = expected.because if expected and defect["type"] in OUT_OF_RANGE else ""
    return f"must be {words}{because}" + (f"; {near.rstrip()}" if near else "")


def shown(value: object) -> str:
    """A value as it may have been written, cut if it is long."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def is_of_section(kind: type[BaseModel], defect: ErrorDetails, document: DocumentTable) -> bool:
    """Returns whether a defect is of a whole section, whose keys contradict one another, and not of one of its
    values."""
    place = _place_in(kind, document, defect["loc"])
    expected = kind_at(kind, place)
    return defect["type"] == "value_error" and expected is not None and _is_of_table(expected, defect)


def _is_of_table(expected: ValueKind, defect: ErrorDetails) -> bool:
    """Returns whether pydantic tried the table that a value is or may be, and not another kind that it may be."""
    if expected.section is not None or expected.table is None:
        return expected.section is not None
    return any(expected.table.__name__ in str(step) for step in defect["loc"])


def value_at(document: DocumentValue, place: Sequence[str | int]) -> DocumentValue:
    """The value at a place in a document, or None."""
    for step in place:
        if isinstance(document, dict):
            document = document.get(step) if isinstance(step, str) else None
        elif isinstance(document, list):
            document = document[step] if isinstance(step, int) and step < len(document) else None
        else:
            return None
    return document


def _place_in(kind: type[BaseModel], document: DocumentValue, location: Sequence[str | int]) -> list[str | int]:
    """The part of pydantic's location that is in the document, or one step beyond: not the branches of unions that it tried."""
    place: list[str | int] = []
    for step in location:
        expected = kind_at(kind, place)
        if not isinstance(document, dict | list) or (expected is not None and expected.is_scalar):
            break
        if not _is_branch(step, document, expected):
            place.append(step)
            document = value_at(document, [step])
    return place


def _is_branch(step: str | int, document: list[DocumentValue] | Document, expected: ValueKind | None) -> bool:
    """Returns whether a step of pydantic's location names a branch of a union of a table and something else, and not a
    part of the document."""
    if isinstance(document, list):
        return not isinstance(step, int)
    table = expected.table if expected else None
    return table is not None and step not in document and step not in table.model_fields


def dotted_keys(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yields the dotted keys of a section and of the sections nested in it, except those in lists of sections."""
    for name, field in kind.model_fields.items():
        yield f"{prefix}{name}"
        section = None if get_origin(field.annotation) is list else _section_of(field.annotation)
        if section is not None:
            yield from dotted_keys(section, f"{prefix}{name}.")


ALMOST = 0.8
"""Least similarity of a key that is suggested as the right spelling: `delay` and `fidelity` have 0.62."""
ALMOST_HERE = 0.75
"""Least similarity of a key that is suggested as the right spelling in the section where it was written: `nmae` has as
much to `name`, `racks` 0.6 to `rails`."""


def _unknown(key: str, hint: str, allowed: Sequence[str]) -> str:
    return f"{key}: unknown key; {hint}Known here: {', '.join(allowed)}"


def _hint(kind: type[BaseModel], place: Sequence[str]) -> str:
    """Suggests the key that was meant, of this section before any other: what its name means elsewhere or in other
    tools, what it begins, and what it may be a typing error of. Says nothing of keys that are merely alike."""
    by_last_part: dict[str, list[str]] = {}
    for key in dotted_keys(kind):
        by_last_part.setdefault(key.rpartition(".")[2], []).append(key)
    *above, name = place
    here = _known_at(kind, above)
    meant = [key for key in meant_by(name) if kind_at(kind, key.split(".")) is not None]
    of_job = above[2:] if above[:1] == ["job"] else above  # a job's tables are those of a point
    if in_section := [key for key in here if ".".join([*of_job, key]) in meant]:
        return _did_you_mean(in_section)
    if above and (near := nearest_names(name, here, ALMOST)):
        return _did_you_mean(near)
    if exact := list(dict.fromkeys([*meant, *by_last_part.get(name, [])])):
        return _did_you_mean(exact)
    if begun := [key for key in here if _begins(name, key) or name.startswith(f"{key}_")]:
        return _did_you_mean(begun)
    elsewhere = nearest_names(name, by_last_part, ALMOST)
    near = nearest_names(name, here, ALMOST_HERE)
    return _did_you_mean(near or [key for alike in elsewhere for key in by_last_part[alike]])


def _begins(name: str, key: str) -> bool:
    return key.startswith(f"{name}_") or (len(name) >= BEGUN and key.startswith(name))


def close(name: str, allowed: Sequence[str]) -> str:
    """Asks whether the nearest of the allowed names is meant, if one is near, with a space behind the question."""
    return _did_you_mean(nearest_names(name, allowed))


def _did_you_mean(keys: Sequence[str]) -> str:
    if not keys or len(keys) > MOST_MEANT:
        return ""
    return f"{did_you_mean(keys)} "


def _known_at(kind: type[BaseModel], place: Sequence[str]) -> list[str]:
    """The keys that the section at `place` takes; at the top level, the keys of the file come after the sections of a point."""
    at = kind_at(kind, [int(step) if step.isdigit() else step for step in place])
    keys = list(at.table.model_fields) if at and at.table else []
    return [*keys, *kind.file_keys.model_fields] if issubclass(kind, PointTables) and not place else keys


def _no_table(key: str, value: DocumentValue, allowed: Sequence[str]) -> str:
    if "source" in allowed:
        return f'{key}: write where it comes from as well, like {{ value = {json.dumps(value, default=str)}, source = "measured" }}'
    if "name" in allowed and isinstance(value, str):
        return f"{key} = {shown(value)}: is a table of keys, not a value: write {key}.name={value}"
    return f"{key} = {shown(value)}: is a table of keys, not a value. Known here: {', '.join(allowed)}"


def _section_of(annotation: object) -> type[BaseModel] | None:
    if get_origin(annotation) in (Union, types.UnionType, list):
        return next((section for section in map(_section_of, get_args(annotation)) if section), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


Model = TypeVar("Model", bound=BaseModel)


def validated(kind: type[Model], table: DocumentValue) -> Model:
    """Validates a table: "8" and true are not numbers, and 1 is not true. Raises pydantic's ValidationError.

    That is how pydantic reads JSON strictly. Its strict reading of Python objects would also want enums and tuples, which no file has.
    """
    return kind.model_validate_json(json.dumps(table, default=str), strict=True)


def validated_options(chosen: Strategy, table: DocumentTable) -> Options:
    """The options of a strategy as its function takes them. Raises InputFault with one line per option that is wrong."""
    try:
        return validated(chosen.options, table)
    except ValidationError as error:
        raise InputFault("\n".join(_lines(chosen, table, error).values())) from error


def option_defects(chosen: Strategy, table: DocumentTable) -> dict[str, str]:
    """One line for each wrong option, by its name; the line at "" is about several options together."""
    try:
        validated(chosen.options, table)
    except ValidationError as error:
        return _lines(chosen, table, error)
    return {}


def _lines(chosen: Strategy, table: DocumentTable, error: ValidationError) -> dict[str, str]:
    lines: dict[str, str] = {}
    for defect in error.errors():
        name = str(defect["loc"][0]) if defect["loc"] else ""
        lines.setdefault(name, _line(chosen, table, name, defect))
    return lines


def _line(chosen: Strategy, table: DocumentTable, name: str, defect: ErrorDetails) -> str:
    if not name:
        return f"{OPTIONS_KEY} of '{chosen.name}': {reason_of(defect)}"
    path = _option_path(chosen, defect["loc"])
    key = f"{OPTIONS_KEY}.{'.'.join(path)}"
    if defect["type"] == "extra_forbidden":
        above = kind_at(chosen.options, path[:-1])
        known = list(above.section.model_fields) if above is not None and above.section is not None else []
        return f"{key}: '{chosen.name}' has no such option; {close(path[-1], known)}it has {', '.join(known) or 'none'}"
    expected = kind_at(chosen.options, path)
    if defect["type"] == "missing":
        return f"{key}: missing; '{chosen.name}' needs {expected.words if expected else 'it'}"
    value: DocumentValue = table
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    wanted = requirement(expected, defect, value, may_be_swept=True)
    return f"{key} = {shown(value)}: {wanted} (an option of '{chosen.name}')"


def _option_path(chosen: Strategy, place: Sequence[str | int]) -> list[str]:
    """The names that lead to a wrong option, which may be in a table of options."""
    path = [str(place[0])]
    for step in place[1:]:
        kind = kind_at(chosen.options, path)
        if kind is None or kind.section is None:
            break
        path.append(str(step))
    return path
