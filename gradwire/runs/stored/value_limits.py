"""Limits of the numbers and texts in files of runs, which others may have written: what lies beyond them, no run has."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

LARGEST = 2**60
"""Largest count, size or time in ns of a run: 36 years, or an exabyte. Several still add up in 64 bits."""
LARGEST_INTEGER = 2**63 - 1
"""Largest value of any integer in a message: a time since 1970 is larger than LARGEST."""
LARGEST_REAL = 1e18
LONGEST_TEXT = 1 << 20
"""Characters: a hundred times the longest verdict of the papers' runs."""
SHOWN = 40


def refuse_absurd(message: object) -> None:
    """Raises ValueError, with the place, for a number or a text in a message that no run has."""
    for place, value in _values(msgspec.to_builtins(message), ""):
        if isinstance(value, bool):
            continue
        if isinstance(value, int) and not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
            raise ValueError(f"{place} has more digits than any run's numbers have")
        if isinstance(value, float) and not (math.isfinite(value) and abs(value) <= LARGEST_REAL):
            raise ValueError(f"{place} = {value:g}")
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise ValueError(f"{place} has {len(value):,} characters")


def refuse_outside(place: str, value: float, least: float, most: float = LARGEST) -> None:
    """Raises ValueError for a number that is not in a range, both ends of which belong to it."""
    if not least <= value <= most:
        raise ValueError(f"{place} = {value}: must be {least} to {most}")


def refuse_values_outside(place: str, values: npt.NDArray[np.generic], least: int, most: int = LARGEST) -> None:
    """Raises ValueError for a column with a value outside of `least` to `most`. The column may be empty."""
    if len(values) and not (least <= values.min() and values.max() <= most):
        raise ValueError(f"{place}: {values.min()} or {values.max()}, and it must be {least} to {most}")


def refuse_large_sum(place: str, values: npt.NDArray[np.int64]) -> None:
    """Raises ValueError where a column adds up to more than a run has."""
    if values.sum(dtype=np.float64) > LARGEST:
        raise ValueError(f"{place}: add up to more than any run has")


def refuse_negative(message: object, *names: str) -> None:
    """Raises ValueError for counts below zero among these fields of a message."""
    for name in names:
        refuse_outside(name, getattr(message, name), 0)


def refuse_negative_numbers(message: Any) -> None:
    """Raises ValueError for a whole number below zero in any field of frozen data, so that no new field is forgotten."""
    refuse_negative(message, *(each.name for each in fields(message) if isinstance(getattr(message, each.name), int)))


def shown(text: str) -> str:
    """A text out of a file, as a message repeats it."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def _values(value: object, place: str) -> Iterable[tuple[str, object]]:
    """All numbers and texts in a message, with their places."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str) and len(key) > LONGEST_TEXT:
                yield f"a name in {place or 'it'}", key
            yield from _values(item, f"{place}.{str(key)[:SHOWN]}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _values(item, f"{place}[{number}]")
    else:
        yield place, value
