"""Limits on the size of a scenario, a model file or a device file. Without limits, a file of a few kilobytes would take
minutes or gigabytes.

These limits count the entries of a file; ranges of values are checked when they are validated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradwire.faults import InputFault

MOST_PARTS = 32
"""Largest number of parts of a dotted key, and of tables in tables. The deepest key of all has seven; tomllib takes 18
GB for one of 100,000."""
MOST_VALUES = 500_000
"""In a file. DeepSeek-V3, whose 45,000 tensors are the most of the models that come with gradwire, has 141,000 as a model file."""
LONGEST_TEXT = 100_000
"""Characters of a text, such as a command's."""
LONGEST_SHOWN = 200
"""Characters of a key in a message."""
MOST_ENTRIES = 20_000
"""Largest number of entries of a list or a table that has no limit of its own, such as a model's layers: Llama 3 405B
has 1,137."""
MOST_POINTS = 10_000
"""Ten times the points of all papers together."""
MOST_SWEPT_KEYS = 100
"""Ten times the most that a scenario sweeps."""
MOST_OF: Mapping[str, int] = {
    "title": 1_000,
    "notes": 1_000,
    "printed": 2_000,
    "printed_claims": 1_000,
    "labels": 10_000,
    "left_out": 1_000,
    "fault": 1_000,
    "program": 1_000,
    "strategy.options": 1_000,
    "sweep": MOST_SWEPT_KEYS,
    "cases": MOST_POINTS,
    "model.layers.inputs": 1_000,
    "layers.inputs": 1_000,
}
"""Characters of a text, and entries of a list or a table, by its key without numbers. Each is ten times what any scenario that comes with
gradwire has, or more; a fault or a program is a command inside the machine, and takes milliseconds there."""
_NAME = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_.-]){_NAME}(?:[ \t]*+\.[ \t]*+{_NAME}){{{MOST_PARTS},}}+")


def refuse_long_keys(text: str) -> None:
    """Raises InputFault for a key of so many parts that reading the text as TOML would take all memory."""
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise InputFault(f"line {line} has a key of more than {MOST_PARTS} parts, beginning with {found[0][:40]}")


def refuse_too_much(document: Mapping[str, object]) -> None:
    """Raises InputFault, with the key, for more than a file may say."""
    for number, (place, value) in enumerate(_all_values(document)):
        if number >= MOST_VALUES:
            raise InputFault(f"has more than {MOST_VALUES:,} values; divide it into several files")
        if isinstance(value, str | list | dict):
            _refuse_long(place, value)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a value. Its dotted key is made only when a message needs it: keys of many values may be long."""

    above: _Place | None
    name: str | int
    depth: int
    #: The dotted key without numbers, as MOST_OF has it; a longer one is cut off.
    plain: str

    @property
    def key(self) -> str:
        """The dotted key for messages."""
        parts: list[str] = []
        here: _Place | None = self
        while here is not None and here.above is not None:
            parts.append(str(here.name)[:LONGEST_SHOWN])
            here = here.above
        return ".".join(reversed(parts))[:LONGEST_SHOWN]

    def below(self, name: str | int) -> _Place:
        """The place of a value in this one."""
        if isinstance(name, int) or name.isdecimal():
            plain = self.plain
        else:
            plain = f"{self.plain}.{name[:LONGEST_SHOWN]}".lstrip(".")[:LONGEST_SHOWN]
        return _Place(self, name, self.depth + 1, plain)


def _refuse_long(place: _Place, value: str | list[object] | dict[str, object]) -> None:
    most = MOST_OF.get(place.plain, LONGEST_TEXT if isinstance(value, str) else MOST_ENTRIES)
    if len(value) > most:
        what = "characters" if isinstance(value, str) else "entries"
        where = f"{place.key}: " if place.key else ""
        raise InputFault(f"{where}has {len(value):,} {what}; must be at most {most:,}")


def _all_values(document: object) -> Iterator[tuple[_Place, object]]:
    """Every table, list and value, with its place. Nothing calls itself, for tables may be nested deeper than Python allows calls."""
    waiting: list[tuple[_Place, object]] = [(_Place(None, "", 0, ""), document)]
    while waiting:
        place, value = waiting.pop()
        yield place, value
        if place.depth > MOST_PARTS:
            raise InputFault(f"{place.key}: tables are nested deeper than {MOST_PARTS}")
        if isinstance(value, dict):
            for name in value:
                if len(name) > LONGEST_TEXT:
                    raise InputFault(f"{place.key or 'it'}: has a key of {len(name):,} characters")
            waiting += [(place.below(name), item) for name, item in value.items()]
        elif isinstance(value, list):
            waiting += [(place.below(number), item) for number, item in enumerate(value)]


def count_of(value: object) -> int:
    """Number of tables, lists and values in a value, itself included."""
    return sum(1 for _ in _all_values(value))
