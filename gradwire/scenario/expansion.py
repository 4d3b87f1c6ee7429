"""Expands a scenario's content to the documents of its points, sweeps merged in, and collects everything in it that is
wrong.

Every value is checked in its own place, even if each point overrides it. Defects that depend on several values, such as
a missing key or keys that contradict one another, are checked for each point.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.scenario.explanations import explain, is_of_section, validated, value_at
from gradwire.scenario.limits import MOST_POINTS, MOST_SWEPT_KEYS, count_of
from gradwire.scenario.overrides import flattened, merge_key
from gradwire.scenario.schema import AboutSection, PointTables

About = TypeVar("About", bound=AboutSection)
Tables = TypeVar("Tables", bound=PointTables)
MOST_VALUES_OF_POINTS = 5_000_000
"""Largest number of values of all points together, each of which has those of the whole file: a minute to resolve. The
largest scenario of a paper has 19,440."""


@dataclass(frozen=True)
class ScenarioPart:
    """A part of a scenario that gives values to points: the file's own tables, or one value of a sweep."""

    #: Goes before keys in messages: "", "sweep." or "cases.N.".
    prefix: str
    #: The values in the tables that they belong in.
    document: DocumentTable


@dataclass(frozen=True)
class Sweep:
    """A product of swept keys: the file's `sweep`, with a case on top if there are cases."""

    #: Values by dotted key. The first key varies slowest.
    values: Mapping[str, list[DocumentValue]]
    #: Prefix of each key's place, as in `ScenarioPart.prefix`.
    prefixes: Mapping[str, str]

    def parts(self) -> Iterator[ScenarioPart]:
        """Every value by itself."""
        for key, values in self.values.items():
            for value in values:
                document: Document = {}
                merge_key(document, key, copy.deepcopy(value))
                yield ScenarioPart(self.prefixes[key], document)

    def points(self, common: DocumentTable) -> Iterator[tuple[Document, Document]]:
        """Every point's document, merged from `common` and swept values, and these values.

        Keys that sweep tables come last, sorted by name, because TOML writers put tables wherever they like. Where both a table and a key
        inside it are swept, the key is set after the table. Raises InputFault for a key inside what is a plain value.
        """
        tables = sorted(key for key, values in self.values.items() if any(isinstance(value, dict) for value in values))
        keys = [*(key for key in self.values if key not in tables), *tables]
        outer_first = sorted(keys, key=lambda key: key.count("."))
        for values in itertools.product(*(self.values[key] for key in keys)):
            document = copy.deepcopy(dict(common))
            swept = dict(zip(keys, values, strict=True))
            for key in outer_first:
                merge_key(document, key, copy.deepcopy(swept[key]))
            yield document, swept

    def without_effect(self) -> Iterator[str]:
        """Describes values in swept tables that another key of the same sweep replaces."""
        for outer, inner in itertools.permutations(self.values, 2):
            rest = inner.removeprefix(f"{outer}.").split(".")
            if inner.startswith(f"{outer}.") and any(
                _overlaps(value_at(table, rest), value) for table in self.values[outer] for value in self.values[inner]
            ):
                yield (
                    f"{self.prefixes[outer]}{outer}: {'.'.join(rest)} has no effect here, because {self.prefixes[inner]}{inner} replaces "
                    "it; leave it out of one of the two"
                )


class Expansion(Generic[About, Tables]):
    """The expanded content of a scenario: the keys of the file, the points, and their defects.

    about: section with the keys of the file itself. tables: section with the keys of its points.
    """

    def __init__(self, content: DocumentTable, about: type[About], tables: type[Tables]) -> None:
        self._kinds = about, tables
        #: Keys of the file that are for points, outside its sweeps.
        self.common = {key: value for key, value in content.items() if key not in about.model_fields}
        #: Defects of the keys of the file, sweeps included.
        self.file_defects: list[str] = []
        #: The keys of the file, if they are valid.
        self.about = self._about(content)
        self._sweeps = list(_sweeps(self.about)) if self.about else []
        self.file_defects += _too_many(self.common, self._sweeps)
        if self.file_defects:
            self._sweeps = []  # not even their values are looked at
        self.file_defects += _empty_or_idle(self.about, self._sweeps) if self.about else []

    @cached_property
    def parts(self) -> list[ScenarioPart]:
        """All parts that give values to points."""
        swept = (part for sweep in self._sweeps for part in sweep.parts())
        return [ScenarioPart("", self.common), *swept]

    @cached_property
    def points(self) -> list[tuple[Document, Document]]:
        """Every point's document and its swept values; none if the file's own keys are wrong."""
        if self.file_defects:
            return []
        try:
            return [point for sweep in self._sweeps for point in sweep.points(self.common)]
        except InputFault as fault:
            self.file_defects.append(str(fault))
            return []

    def value_defects(self) -> Iterator[str]:
        """Describes every key that does not exist and every value that is wrong by itself."""
        _, tables = self._kinds
        for part in self.parts:
            for defect in _errors(tables, part.document):
                if not _of_several_values(tables, defect, part.document):
                    yield from explain(tables, defect, part.document, part.prefix)

    def sections(self) -> tuple[list[tuple[Tables, Document]], list[str]]:
        """Validates the points. Returns the valid ones with their swept values, and lines on missing or contradictory
        keys in the others."""
        _, tables = self._kinds
        found, lines = [], []
        for document, swept in self.points:
            try:
                found.append((validated(tables, tables.completed(document)), swept))
            except ValidationError as error:
                for defect in _written(tables, error, document):
                    if _of_several_values(tables, defect, document):
                        lines += explain(tables, defect, document)
        return found, lines

    def _about(self, content: DocumentTable) -> About | None:
        about, _ = self._kinds
        keys = {key: value for key, value in content.items() if key in about.model_fields}
        try:
            if "sweep" in keys:
                keys["sweep"] = flattened(keys["sweep"])
            cases = keys.get("cases")
            if isinstance(cases, list):
                keys["cases"] = [flattened(case, "cases") for case in cases]
        except InputFault as fault:
            self.file_defects.append(str(fault))
            return None
        try:
            return validated(about, keys)
        except ValidationError as error:
            for defect in error.errors():
                self.file_defects += explain(about, defect, keys)
        return None


def _sweeps(about: AboutSection) -> Iterator[Sweep]:
    common = dict.fromkeys(about.sweep, "sweep.")
    if not about.cases:
        yield Sweep(about.sweep, common)
    for number, case in enumerate(about.cases):
        yield Sweep({**about.sweep, **case}, {**common, **dict.fromkeys(case, f"cases.{number}.")})


def _empty_or_idle(about: AboutSection, sweeps: Sequence[Sweep]) -> list[str]:
    """Describes lists without values, values without effect, and sweeps that are too large."""
    lines = [
        f"sweep.{key}: the list of values is empty"
        for sweep in sweeps
        for key, values in sweep.values.items()
        if not values
    ]
    lines += [
        f"sweep.{key}: has no effect, because every case sweeps {key} itself; leave it out"
        for key in about.sweep
        if about.cases and all(key in case for case in about.cases)
    ]
    lines += [line for sweep in sweeps for line in sweep.without_effect()]
    return list(dict.fromkeys(lines))


def _too_many(common: DocumentTable, sweeps: Sequence[Sweep]) -> list[str]:
    """Describes sweeps that make more points than can be resolved."""
    points = sum(math.prod(len(values) for values in sweep.values.values()) for sweep in sweeps)
    if points > MOST_POINTS:
        return [f"sweep: makes {points:,} points; must be at most {MOST_POINTS:,}: sweep fewer keys or values at once"]
    keys = max((len(sweep.values) for sweep in sweeps), default=0)
    if keys > MOST_SWEPT_KEYS:
        return [f"sweep: has {keys:,} keys; must be at most {MOST_SWEPT_KEYS}"]
    values = points * count_of(common) + sum(_values_of(sweep) for sweep in sweeps)
    if values > MOST_VALUES_OF_POINTS:
        return [
            f"sweep: makes {points:,} points, which have {values:,} values together; must be at most {MOST_VALUES_OF_POINTS:,}: sweep "
            "less, or give models as files"
        ]
    return []


def _values_of(sweep: Sweep) -> int:
    """Number of values that the sweep gives its points, all together."""
    points = math.prod(len(values) for values in sweep.values.values())
    return sum(points // len(values) * count_of(values) for values in sweep.values.values() if values)


def _overlaps(table_value: DocumentValue, value: DocumentValue) -> bool:
    if isinstance(table_value, dict) and isinstance(value, dict):
        return any(_overlaps(table_value[key], value[key]) for key in table_value.keys() & value.keys())
    return table_value is not None


def _errors(kind: type[PointTables], document: DocumentTable) -> list[ErrorDetails]:
    try:
        validated(kind, kind.completed(document))
    except ValidationError as error:
        return _written(kind, error, document)
    return []


def _written(kind: type[PointTables], error: ValidationError, document: DocumentTable) -> list[ErrorDetails]:
    """Errors of a document, without those of tables that only its completed form has. With several jobs, the tables of
    one are in that form twice."""
    is_whole = kind.completed(document) is document
    return [each for each in error.errors() if is_whole or not each["loc"] or each["loc"][0] in document]


def _of_several_values(tables: type[PointTables], defect: ErrorDetails, document: DocumentTable) -> bool:
    """Returns whether a defect shows only in a whole point: another part may give what is missing, or resolve a
    contradiction."""
    return defect["type"] == "missing" or is_of_section(tables, defect, document)
