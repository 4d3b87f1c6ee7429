"""Named predicates over series: what a sentence like "peaks in between" or "overtakes from 4 workers on" means in
numbers.

A series is pairs (x, y) with rising x. `slack` is the share of a value by which a step may go the wrong way and still
count as level: 1 % by default, the grain of the emulation (its calibration patterns come within 1 % of their ideal
times).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Series = Sequence[tuple[float, float]]

SLACK = 0.01
VISIBLE = 0.02
"""By how much an extremum must stand out to be seen in a printed figure: twice the slack."""


def increasing(series: Series, slack: float = SLACK) -> bool:
    """No step falls by more than the slack, and the last value is above the first by more than it."""
    return non_decreasing(series, slack) and series[-1][1] > series[0][1] + slack * abs(series[0][1])


def decreasing(series: Series, slack: float = SLACK) -> bool:
    """No step rises by more than the slack, and the last value is below the first by more than it."""
    return non_increasing(series, slack) and series[-1][1] < series[0][1] - slack * abs(series[0][1])


def non_decreasing(series: Series, slack: float = SLACK) -> bool:
    """No value is below an earlier one by more than the slack."""
    highest = series[0][1]
    for _, y in series[1:]:
        if y < highest - slack * abs(highest):
            return False
        highest = max(highest, y)
    return True


def non_increasing(series: Series, slack: float = SLACK) -> bool:
    """No value is above an earlier one by more than the slack."""
    return non_decreasing([(x, -y) for x, y in series], slack)


def level(series: Series, within_share: float = SLACK) -> bool:
    """The largest and the smallest value are that close, as a share of the largest."""
    values = [y for _, y in series]
    return max(values) - min(values) <= within_share * max(abs(value) for value in values)


def interior_maximum(series: Series, by: float = VISIBLE) -> bool:
    """The largest value is at neither end, and above both ends by at least this share of itself."""
    values = [y for _, y in series]
    peak_at = values.index(max(values))
    return 0 < peak_at < len(values) - 1 and all(
        max(values) - end >= by * abs(max(values)) for end in (values[0], values[-1])
    )


def interior_minimum(series: Series, by: float = VISIBLE) -> bool:
    """The smallest value is at neither end, and below both ends by at least this share of itself."""
    values = [y for _, y in series]
    lowest_at = values.index(min(values))
    return 0 < lowest_at < len(values) - 1 and all(
        end - min(values) >= by * abs(min(values)) for end in (values[0], values[-1])
    )


def unimodal(series: Series, slack: float = SLACK) -> bool:
    """Rises to its largest value and falls after it, each step within the slack."""
    at = max(range(len(series)), key=lambda index: series[index][1])
    return non_decreasing(series[: at + 1], slack) and non_increasing(series[at:], slack)


def peak_x(series: Series) -> float:
    """Where the largest value is, the first of equals."""
    return max(series, key=lambda pair: pair[1])[0]


def knee_x(series: Series, share: float = 0.05) -> float:
    """From where on the series stays within `share` of its last value: where a curve that saturates stops to rise or
    to fall.

    Between two samples it is taken to run straight. 5 %: what can be distinguished in a printed figure.
    """
    last = series[-1][1]
    allowed = share * abs(last)
    for index in reversed(range(len(series) - 1)):
        x, y = series[index]
        if abs(y - last) > allowed:
            next_x, next_y = series[index + 1]
            edge = last + allowed if y > last else last - allowed
            return x + (next_x - x) * (edge - y) / (next_y - y)
    return series[0][0]


def crossing_x(first: Series, second: Series) -> float | None:
    """Where `first` goes from at most `second` to above it, between samples in a straight line; None if it never does.

    Both have the same x. A series that is above from the start overtakes at the first x.
    """
    gaps = [(x, y - other) for (x, y), (_, other) in zip(_align(first, second), second, strict=True)]
    if gaps[0][1] > 0:
        return gaps[0][0]
    for (x, gap), (next_x, next_gap) in pairwise(gaps):
        if gap <= 0 < next_gap:
            return x + (next_x - x) * -gap / (next_gap - gap)
    return None


def dominates(first: Series, second: Series, slack: float = SLACK) -> bool:
    """`first` is nowhere below `second` by more than the slack. Both have the same x."""
    pairs = zip(_align(first, second), second, strict=True)
    return all(y >= other - slack * abs(other) for (_, y), (_, other) in pairs)


def near_linear(series: Series, share: float = 0.10) -> bool:
    """y grows in proportion to x from the first point on, short of it by at most `share` at any x.

    10 %: Geryon calls 91.5 to 95.7 % of linear "near-linear".
    """
    first_x, first_y = series[0]
    return all(abs(y * first_x / (x * first_y) - 1) <= share for x, y in series)


def straight(series: Series, share: float = 0.10) -> bool:
    """Every value is within `share` of the whole rise or fall from the straight line between the first and the last.

    10 %, as for `near_linear`, which asks for a line through the origin.
    """
    (first_x, first_y), (last_x, last_y) = series[0], series[-1]
    slope = (last_y - first_y) / (last_x - first_x)
    return all(abs(y - first_y - slope * (x - first_x)) <= share * abs(last_y - first_y) for x, y in series)


def close(measured: float, expected: float, share: float) -> bool:
    """Whether a number is within `share` of what a formula says."""
    return abs(measured - expected) <= share * abs(expected)


def all_close(measured: Series, expected: Series, share: float) -> bool:
    """Whether a series follows a formula at every x. Both have the same x."""
    pairs = zip(_align(measured, expected), expected, strict=True)
    return all(close(y, other, share) for (_, y), (_, other) in pairs)


def _align(first: Series, second: Series) -> Series:
    if [x for x, _ in first] != [x for x, _ in second]:
        raise ValueError(f"series at different x: {[x for x, _ in first]} and {[x for x, _ in second]}")
    return first
