"""Fields of the tables in files: values with units and their ranges, and in words what the value of a key must be.

The words are taken from the pydantic field that validates the key.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from gradwire.workloads import units
from gradwire.workloads.units import Quantity

PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
BOUNDS = ("gt", "ge", "lt", "le")
MOST_WRITTEN_OUT = 1e6
"""Larger bounds are shown as powers of ten."""


@dataclass(frozen=True)
class Because:
    """A constraint of a field that says why the field has its bounds."""

    reason: str


@dataclass(frozen=True)
class InWords:
    """A constraint of a field that says in words what a value must be, if its type does not say it well."""

    words: str


class ValueKind:
    """The type of a value with its constraints, as a field declares them. `None` as a further value is left out."""

    def __init__(self, annotation: Any, metadata: Iterable[object] = ()) -> None:
        constraints = list(metadata)
        while True:
            if get_origin(annotation) is Annotated:
                annotation, *more = get_args(annotation)
                constraints += more
            elif len(some := self._without_none(annotation)) == 1 and some[0] is not annotation:
                annotation = some[0]
            else:
                break
        self.annotation = annotation
        self.constraints = [
            inner for constraint in constraints for inner in (constraint, *getattr(constraint, "metadata", ()))
        ]

    @staticmethod
    def _without_none(annotation: Any) -> list[object]:
        is_union = get_origin(annotation) in (Union, types.UnionType)
        return [arg for arg in get_args(annotation) if arg is not type(None)] if is_union else [annotation]

    @property
    def quantity(self) -> Quantity | None:
        """The kind of quantity that the value is, if it is written with a unit."""
        return next((constraint for constraint in self.constraints if isinstance(constraint, Quantity)), None)

    @property
    def of_numbers(self) -> Quantity | None:
        """Returns the kind of quantity that the value is or may be: it may also be a word, like "deep". None if it is
        none."""
        forms = [ValueKind(form) for form in self._without_none(self.annotation)]
        return self.quantity or next((form.quantity for form in forms if form.quantity is not None), None)

    @property
    def section(self) -> type[BaseModel] | None:
        """The model that validates the value, if it is a table of fixed keys."""
        annotation = self.annotation
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None

    @property
    def table(self) -> type[BaseModel] | None:
        """Returns the model that validates the value if it is a table of fixed keys; the value may also be something
        else, like a word."""
        forms = [ValueKind(form) for form in self._without_none(self.annotation)]
        return next((form.section for form in forms if form.section is not None), None)

    @property
    def is_list(self) -> bool:
        """Returns whether the value is a list."""
        return get_origin(self.annotation) in (list, tuple)

    @property
    def is_table(self) -> bool:
        """Returns whether the value is a table whose keys are free, or of a fixed set."""
        return get_origin(self.annotation) is dict

    @property
    def is_scalar(self) -> bool:
        """Returns whether the value holds no other values, in any of its forms."""
        forms = [ValueKind(form) for form in self._without_none(self.annotation)]
        return all(form.annotation in PLAIN or form.choices for form in forms)

    @property
    def keys(self) -> list[str]:
        """The keys that a table may have, if they are of a fixed set."""
        return [str(key) for key in ValueKind(get_args(self.annotation)[0]).choices] if self.is_table else []

    @property
    def element(self) -> ValueKind:
        """Returns the kind of the values in a list or a table."""
        arguments = get_args(self.annotation)
        return ValueKind(arguments[1] if self.is_table else arguments[0])

    @property
    def choices(self) -> list[object]:
        """All values there are, if they are few."""
        if get_origin(self.annotation) is Literal:
            return list(get_args(self.annotation))
        if isinstance(self.annotation, type) and issubclass(self.annotation, Enum):
            return [member.value for member in self.annotation]
        return []

    @property
    def because(self) -> str:
        """Returns the reason for the value's bounds, in brackets; "" if it goes without saying."""
        reason = next((constraint.reason for constraint in self.constraints if isinstance(constraint, Because)), "")
        return f" ({reason})" if reason else ""

    def bound(self, name: str) -> float | None:
        """A bound by pydantic's name for it: gt, ge, lt or le, min_length or max_length."""
        return next(
            (
                getattr(constraint, name)
                for constraint in self.constraints
                if getattr(constraint, name, None) is not None
            ),
            None,
        )

    @property
    def given_words(self) -> str:
        """Returns the field's own words for what the value must be; "" if it has none."""
        return next((constraint.words for constraint in self.constraints if isinstance(constraint, InWords)), "")

    @property
    def words(self) -> str:
        """Describes what the value must be; "" for kinds without a description."""
        if self.given_words:
            return self.given_words
        if self.choices:
            return _alternatives([json.dumps(choice) for choice in self.choices])
        if self.quantity is not None:
            return f"{self.quantity.name}{self._range()}, such as {self.quantity.examples}"
        if self.annotation in PLAIN:
            return f"{PLAIN[self.annotation]}{self._length('characters')}{self._range()}"
        several = self._without_none(self.annotation)
        return (
            _alternatives([ValueKind(alternative).words for alternative in several])
            if len(several) > 1
            else self._container_words()
        )

    def _container_words(self) -> str:
        if self.is_list:
            length = self._length("elements")
            return f"a list{length}, each element {self.element.words}" if self.element.words else f"a list{length}"
        if self.section is not None:
            return f"a table with the keys {', '.join(self.section.model_fields)}"
        return "a table of keys" if self.is_table else ""

    def _length(self, of: str) -> str:
        """Returns the words for how long a text or a list may be."""
        least, most = self.bound("min_length"), self.bound("max_length")
        if most is not None:
            return f" of {least or 0:.0f} to {most:,.0f} {of}"
        return " that is not empty" if least else ""

    def _range(self) -> str:
        above, least, below, most = (self._bound_text(name) for name in BOUNDS)
        if least and most:
            return f" of {least} to {most}"
        parts = [
            *([f"above {above}"] if above else []),
            *([f"of at least {least}"] if least else []),
            *([f"below {below}"] if below else []),
            *([f"of at most {most}"] if most else []),
        ]
        return f" {' and '.join(parts)}" if parts else ""

    def _bound_text(self, name: str) -> str:
        value = self.bound(name)
        if value is None:
            return ""
        if self.quantity is not None:
            return self.quantity.text(value)
        return f"{value:g}" if isinstance(value, float) or abs(value) > MOST_WRITTEN_OUT else f"{value}"


def kind_at(section: type[BaseModel], path: Sequence[str | int]) -> ValueKind | None:
    """Returns the kind of the value at a place in a section; None if the section does not say."""
    return _kind_at(section, tuple(path))


@lru_cache(maxsize=1024)
def _kind_at(section: type[BaseModel], path: tuple[str | int, ...]) -> ValueKind | None:
    """Does the work of `kind_at`; cached, because it is called for every one of thousands of layers and links."""
    kind = ValueKind(section)
    for step in path:
        if kind.table is not None and step in kind.table.model_fields:
            field = kind.table.model_fields[str(step)]
            kind = ValueKind(field.annotation, field.metadata)
        elif kind.is_list or kind.is_table:
            kind = kind.element
        else:
            return None
    return kind


def _alternatives(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def quantity(kind: units.Quantity, convert: Callable[[float], float] = float) -> BeforeValidator:
    """Parses strings only. A number has no unit: it is turned into a string, and fails as one without a unit."""
    return BeforeValidator(lambda value: convert(kind.parse(value if isinstance(value, str) else f"{value}")))


def _names(value: object) -> Any:
    """Splits a string at its commas. That is how --set gives several names, since a list there would be a sweep."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return tuple(value) if isinstance(value, list) else value


def _groups(value: object) -> object:
    """Splits a string at its commas, as `_names` does, into numbers or names; a number may stand by itself."""
    if isinstance(value, str):
        return tuple(int(name) if name.lstrip("-").isdecimal() else name for name in _names(value))
    if type(value) is int:
        return (value,)
    return tuple(value) if isinstance(value, list) else value


LOWEST_RATE_BPS, HIGHEST_RATE_BPS = 10e6, 10e12
"""Line rates that are accepted: from the first Ethernet's to six times that of the fastest (1.6 Tbit/s, IEEE
P802.3dj). At 3 Mbit/s a burst of 64 KiB takes so long that the probe of the rates is 8 % off; at both ends of the
range it is within the verdict's limit."""
LONGEST_S = 1e7
"""The longest duration accepted, four months: ops are timed in nanoseconds, in 64 bits."""
LARGEST_TENSOR_BYTES = 2**40
MOST_SAMPLES = 10**9
LARGEST_RATIO = 1e6
"""The largest factor between two speeds, and its inverse the smallest."""
MOST_WORKERS = 1024
"""Workers of a cluster, and servers besides. A network of 1,024 hosts was built in the kernel's default memory,
half a minute after its boot; 2,000 workers in a ring take gigabytes and minutes to compile."""
MOST_ESTIMATED_WORKERS = 65_536
"""Workers of a cluster that is estimated by classes of ranks (docs/thousands.md). The estimate of 16,384 takes seconds,
most of them for the ways of the fabric's hosts."""
OF_ETHERNET = Because("from the slowest Ethernet to beyond the fastest")
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_names),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Groups = Annotated[
    tuple[Literal["all-ranks"] | int, ...],
    BeforeValidator(_groups),
    WithJsonSchema({"anyOf": [{"type": ["string", "integer"]}, {"type": "array", "items": {"type": "integer"}}]}),
    InWords('"all-ranks", or a list of the numbers of groups, such as [2, 3]'),
]
"""Numbers of groups of ranks, or those of all ranks."""
RateBps = Annotated[
    float, quantity(units.RATE), units.RATE, Field(ge=LOWEST_RATE_BPS, le=HIGHEST_RATE_BPS), OF_ETHERNET
]
SizeBytes = Annotated[int, quantity(units.SIZE, round), units.SIZE]
BytesPerS = Annotated[float, quantity(units.BYTE_RATE), units.BYTE_RATE]
DurationS = Annotated[float, quantity(units.DURATION), units.DURATION, Field(le=LONGEST_S)]
Flops = Annotated[float, quantity(units.FLOPS), units.FLOPS]
Share = Annotated[float, quantity(units.SHARE), units.SHARE]
FlopsPerS = Annotated[float, quantity(units.FLOP_RATE), units.FLOP_RATE]


class Section(BaseModel):
    """Base of all tables. Rejects unknown keys. The text below a field is what users are shown of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
