"""Wrong scenarios drawn from the schema: for every key a value of another type, of another unit, out of range, and the key misspelled or
in another section; the same for the options of every strategy. A new key is covered without a line here."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from gradwire.scenario.schema import FileSection, PointSection
from gradwire.workloads.fields import ValueKind, kind_at
from gradwire.workloads.strategy_registry import BUILT_IN, strategy
from gradwire.workloads.units import BYTE_RATE, DURATION, RATE, SHARE, SIZE

RIGHT: dict[str, Any] = {
    "title": "A test",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "vanilla"},
}
UNITS = {RATE: "7ms", SIZE: "7gbit", BYTE_RATE: "7ms", DURATION: "7gbit", SHARE: "7gbit"}
"""A right value of another kind, by the kind that is wanted."""
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Wrong:
    """A scenario with one mistake."""

    #: What is wrong, for the test's name.
    mistake: str
    #: The dotted key that the message has to name.
    key: str
    document: dict[str, Any]


def wrong_inputs() -> list[Wrong]:
    """All of them, none twice."""
    distinct = {repr((wrong.key, wrong.document)): wrong for wrong in _drawn()}
    return list(distinct.values())


def _drawn() -> Iterator[Wrong]:
    for kind in (PointSection, FileSection):
        yield from _of_section(kind, (), RIGHT)
    for name in BUILT_IN:
        base = put(RIGHT, ("strategy",), {"name": name})
        yield from _of_section(strategy(name).options, ("strategy", "options"), base)
        yield _unknown(base, ("strategy", "options", "nonsense"), f"{name}, unknown option")


def put(document: dict[str, Any], place: Sequence[str | int], value: Any) -> dict[str, Any]:
    """A copy of the document with the value at a place. A 0 in the place is the only element of a list."""
    changed = copy.deepcopy(document)
    at: Any = changed
    for step, following in itertools.pairwise(place):
        if isinstance(at, list):
            at = at[0]
        elif following == 0:
            at = at.setdefault(step, [{}])
        else:
            at = at.setdefault(step, {})
    at[place[-1]] = value
    return changed


def _of_section(section: type[BaseModel], place: Place, base: dict[str, Any]) -> Iterator[Wrong]:
    names = list(section.model_fields)
    for name in names:
        kind = kind_at(section, [name])
        assert kind is not None
        yield from _of_key((*place, name), kind, base)
        yield _unknown(base, (*place, f"{name[:-1]}{name[-1]}x"), "misspelled")
    if place and isinstance(section, type) and not issubclass(section, PointSection):
        foreign = next(key for key in ("rate", "workers", "title") if key not in names)
        yield _unknown(base, (*place, foreign), "in another section")
    if not place:
        yield from (_unknown(base, (key,), "in no section") for key in ("rate", "workers", "device", "options"))


def _unknown(base: dict[str, Any], place: Place, mistake: str) -> Wrong:
    return Wrong(mistake, _dotted(place), put(base, place, 1))


def _of_key(place: Place, kind: ValueKind, base: dict[str, Any]) -> Iterator[Wrong]:
    for value in _of_another_type(kind):
        yield Wrong(f"type {type(value).__name__}", _dotted(place), put(base, place, value))
    if kind.quantity is not None:
        for text in (UNITS[kind.quantity], "7", "7 parsec", "-7s", "fast"):
            yield Wrong(f"unit {text}", _dotted(place), put(base, place, text))
    yield from (Wrong(f"range {value}", _dotted(place), put(base, place, value)) for value in _out_of_range(kind))
    if kind.choices:
        yield Wrong("choice", _dotted(place), put(base, place, f"{kind.choices[0]}x"))
    if kind.section is not None:
        yield from _of_section(kind.section, place, base)
    elif kind.is_list and kind.element.section is not None:
        yield from _of_section(kind.element.section, (*place, 0), base)
    elif kind.is_list and kind.element.words:
        for value in _of_another_type(kind.element):
            yield Wrong(f"element {type(value).__name__}", _dotted(place), put(base, place, [value]))
    elif kind.is_table and kind.keys:
        yield Wrong("free key", _dotted((*place, "nonsense")), put(base, place, {"nonsense": 1}))


def _of_another_type(kind: ValueKind) -> Iterator[Any]:
    """Values that are none of the kind, with true for numbers and numbers in quotation marks among them."""
    if not kind.words:
        return
    is_number, is_text = kind.annotation in (int, float) and kind.quantity is None, kind.annotation is str
    if not is_text and not kind.is_list:
        yield "8"
    if not is_number or kind.annotation is int:
        yield 8.5
    if kind.annotation is not bool:
        yield True
    if not kind.is_list:
        yield [8]
    if kind.section is None and not kind.is_table:
        yield {"nonsense": 8}


def _out_of_range(kind: ValueKind) -> Iterator[Any]:
    least, above, most, below = (kind.bound(name) for name in ("ge", "gt", "le", "lt"))
    values = [
        *([least / 2 if kind.quantity and least else least - 1] if least is not None else []),
        *([above] if above is not None else []),
        *([most * 2 + 1] if most is not None else []),
        *([below] if below is not None else []),
    ]
    for value in values:
        if kind.quantity is None:
            yield int(value) if kind.annotation is int else float(value)
        elif value >= 0:
            yield kind.quantity.text(value)


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))
