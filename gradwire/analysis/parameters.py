"""Parameters of points: matching, reading and describing them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gradwire.network.fabric import BITS_PER_S

Value = str | int | float
Where = Mapping[str, Value]
"""Parameters that select points; the names are those in points.csv."""


def describe(where: Where) -> str:
    """Parameters as "key=value" text."""
    return ", ".join(f"{key}={value}" for key, value in where.items())


def as_number(text: Value | None) -> float | None:
    """A value as a number; None if it is not one."""
    try:
        return None if text is None else float(text)
    except (ValueError, OverflowError):  # a whole number of 310 digits
        return None


def parameter_number(text: str) -> float | None:
    """A parameter's value as a number, in bit/s for rates like "10gbit"; None for words."""
    rate = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kmgt]?bit)(/s)?", text.strip().lower())
    return float(rate[1]) * BITS_PER_S[rate[2]] if rate else as_number(text)


def fits(parameters: Mapping[str, str], where: Where) -> bool:
    """Returns whether a point has all these parameters. Two values that are numbers are compared as such: "8.0" equals
    8."""
    return all(_equal(parameters.get(key), value) for key, value in where.items())


def _equal(actual: str | None, wanted: Value) -> bool:
    left, right = as_number(actual), as_number(wanted)
    return left == right if left is not None and right is not None else actual == str(wanted)
