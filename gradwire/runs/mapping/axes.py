"""Axes of a map as they are written: KEY=A..B, KEY=A..B:STEPS, KEY=A..B:STEPS:linear, or KEY=A,B,C.

A range of rates for which nothing else is said has the rates of Ethernet."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from gradwire.analysis.winners.winner_map import Axis
from gradwire.faults import InputFault
from gradwire.scenario.toml_documents import key_by_first_names
from gradwire.workloads.units import (
    BYTE_RATE,
    DURATION,
    ETHERNET_BPS,
    FLOP_RATE,
    FLOPS,
    RATE,
    SHARE,
    SIZE,
    Quantity,
    rate_text,
)

STEPS = (20, 10)
"""Cells along the first axis and along the second of a range that is not of rates, where nothing else is said."""
MOST_STEPS = 200
FEWEST_RATES = 2
"""Rates of Ethernet between two rates, so that a range of rates has those; with fewer, it is divided like any other."""
WIDE = 8
"""A range whose end is so many times its beginning is divided by equal ratios, unless `linear` is said."""
LOGARITHMIC, LINEAR = "log", "linear"
KINDS: tuple[Quantity, ...] = (RATE, SIZE, DURATION, BYTE_RATE, SHARE, FLOPS, FLOP_RATE)
DIGITS = 3
"""Significant ones of a value between the ends of a range; more where two values would be the same."""
MOST_DIGITS = 12
ROUNDING = 1e-9
"""Rounding error of a number that is exactly 1."""
HOW = "write KEY=A..B, KEY=A..B:STEPS, KEY=A..B:STEPS:linear or KEY=A,B,C, like fabric.rate=1gbit..800gbit:20"
_NUMBER = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*(\D*?)\s*")


def parse_axes(written: Sequence[str]) -> tuple[Axis, Axis]:
    """The two axes of a map. Raises InputFault, with the right form."""
    if len(written) != len(STEPS):
        raise InputFault(f"--over is given {len(written)} times; a map has two axes, so give it twice: {HOW}")
    x, y = (parse_axis(text, steps) for text, steps in zip(written, STEPS, strict=True))
    if x.key == y.key:
        raise InputFault(f"--over {written[1]}: {y.key} is the other axis already; give another key")
    return x, y


def parse_axis(text: str, steps: int) -> Axis:
    """An axis. steps: how many values a range has where the text does not say it. Raises InputFault."""
    key, equals, values = text.partition("=")
    key = key_by_first_names(key.strip())
    if not equals or not key or not values.strip():
        raise InputFault(f"--over {text}: {HOW}")
    try:
        return _range(key, values, steps) if ".." in values else _listed(key, values)
    except ValueError as error:
        raise InputFault(f"--over {text}: {error}; {HOW}") from error


def _listed(key: str, values: str) -> Axis:
    texts = [text.strip() for text in values.strip().removeprefix("[").removesuffix("]").split(",")]
    numbers = _numbers([text.strip("\"'") for text in texts])
    if len(numbers) < 2:
        raise ValueError("one value does not make an axis")
    if len(numbers) > MOST_STEPS:
        raise ValueError(f"{len(numbers)} values are more than {MOST_STEPS}")
    pairs = sorted(zip(numbers, (text.strip("\"'") for text in texts), strict=True))
    if any(low == high for (low, _), (high, _) in itertools.pairwise(pairs)):
        raise ValueError("a value is given twice")
    return Axis(
        key, tuple(text for _, text in pairs), tuple(number for number, _ in pairs), _is_wide(pairs[0][0], pairs[-1][0])
    )


def _range(key: str, values: str, steps: int) -> Axis:
    ends, *said = (each.strip() for each in values.split(":"))
    first, last = (each.strip() for each in ends.split("..", 1))
    asked, spacing = _said(said)
    low, high = _numbers([first, last])
    if not low < high:
        raise ValueError(f"{first} is not less than {last}")
    logarithmic = spacing == LOGARITHMIC or (not spacing and _is_wide(low, high))
    if logarithmic and low <= 0:
        raise ValueError("equal ratios cannot begin at 0; say linear")
    if first.isdigit() and last.isdigit():
        counts = _whole(int(first), int(last), asked, steps, logarithmic)
        return Axis(key, tuple(map(str, counts)), tuple(map(float, counts)), logarithmic)
    rates = [] if said else _rates_between(first, last, low, high)
    if len(rates) >= FEWEST_RATES:
        texts = (first, *map(rate_text, rates), last)
        return Axis(key, texts, tuple(_numbers(texts)), logarithmic)
    inner = _spaced(low, high, asked or steps, logarithmic)[1:-1]
    for digits in range(DIGITS, MOST_DIGITS):
        texts = (first, *(_written(number, first, last, low, high, digits) for number in inner), last)
        numbers = _numbers(texts)
        if all(one < other for one, other in itertools.pairwise(numbers)):
            return Axis(key, texts, tuple(numbers), logarithmic)
    raise ValueError("its steps are too small to be written")


def _rates_between(first: str, last: str, low: float, high: float) -> list[float]:
    """The rates of Ethernet between two ends; none where the ends are not rates of bits."""
    if not (first.lower().endswith("bit") and last.lower().endswith("bit")):
        return []
    return [rate_bps for rate_bps in ETHERNET_BPS if low < rate_bps < high]


def _said(words: Sequence[str]) -> tuple[int | None, str]:
    """The number of steps and the spacing in the words after a range; None and "" if they are not given."""
    asked, spacing = None, ""
    for word in words:
        if word in (LOGARITHMIC, LINEAR):
            spacing = word
        elif word.isdigit() and 2 <= int(word) <= MOST_STEPS:
            asked = int(word)
        else:
            raise ValueError(f"'{word}' must be a number of steps from 2 to {MOST_STEPS}, {LOGARITHMIC} or {LINEAR}")
    return asked, spacing


def _is_wide(low: float, high: float) -> bool:
    return low > 0 and high >= WIDE * low


def _spaced(low: float, high: float, steps: int, logarithmic: bool) -> list[float]:
    shares = [step / (steps - 1) for step in range(steps)]
    if logarithmic:
        return [low * (high / low) ** share for share in shares]
    return [low + (high - low) * share for share in shares]


def _whole(low: int, high: int, asked: int | None, steps: int, logarithmic: bool) -> list[int]:
    """Whole numbers: doubled where the range is so many doublings and no number of steps is asked for, since many
    algorithms want powers of two."""
    ratio = high // low if low else 0
    if asked is None and logarithmic and low * ratio == high and ratio & (ratio - 1) == 0:
        return [low << step for step in range(ratio.bit_length())]
    if asked and asked > high - low + 1:
        raise ValueError(
            f"there are only {high - low + 1} whole numbers from {low} to {high}; take fewer steps, or write "
            f"{low}.0..{high}.0 where fractions are allowed"
        )
    wanted = asked or min(steps, high - low + 1)
    # Small numbers that are rounded to the same one are one cell.
    return sorted({round(number) for number in _spaced(low, high, wanted, logarithmic)})


def _numbers(texts: Sequence[str]) -> list[float]:
    """Values in a common unit. Raises ValueError for texts that are not numbers, or of different kinds."""
    matches = [_NUMBER.fullmatch(text) for text in texts]
    for text, match in zip(texts, matches, strict=True):
        if match is None:
            raise ValueError(f"'{text}' is not a number, with or without a unit")
    if not any(match[2] for match in matches if match):
        return [float(match[1].replace("_", "")) for match in matches if match]
    for kind in KINDS:
        try:
            return [kind.parse(text) for text in texts]
        except ValueError:
            continue
    raise ValueError(f"{' and '.join(dict.fromkeys(texts))} are not of one kind, such as rates or sizes")


def _written(number: float, first: str, last: str, low: float, high: float, digits: int) -> str:
    """A number between two ends, in the unit of the greater one, or of the other where it would be less than 1."""
    of_last, unit = _in_unit_of(last, number / high)
    of_first, smaller = _in_unit_of(first, number / low) if low else (of_last, unit)
    value, unit = (of_last, unit) if of_last >= 1 - ROUNDING else (of_first, smaller)
    return f"{float(f'{value:.{digits}g}'):.15g}{unit}"


def _in_unit_of(text: str, ratio: float) -> tuple[float, str]:
    """Returns a multiple of a written value, and its unit."""
    match = _NUMBER.fullmatch(text)
    assert match is not None
    return float(match[1].replace("_", "")) * ratio, match[2]
