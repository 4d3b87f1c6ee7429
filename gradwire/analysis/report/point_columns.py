"""The columns of the table of points, besides those of swept parameters: one entry each, with all that is said of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradwire.analysis.points import INVALID, PointResult
from gradwire.analysis.printed import ComparedCell
from gradwire.analysis.printed_cells import EFFICIENCY

ABSENT = "–"


@dataclass(frozen=True)
class ShownPoints:
    """All points of a table, as far as they decide which columns it has."""

    results: Sequence[PointResult]
    #: The printed metric that stands beside the measured one; "" where nothing is printed.
    printed_metric: str


@dataclass(frozen=True)
class PointColumn:
    """A column of the table of points."""

    header: str
    #: What it means, for whoever points at its header.
    meaning: str
    #: Its text for a point, beside what is printed of it.
    text: Callable[[PointResult, ComparedCell | None], str]
    #: When a narrow terminal leaves it out: first the column with 1. 0 for one that always stays.
    gives_way: int = 0
    #: Whether a table of these points has it.
    is_shown: Callable[[ShownPoints], bool] = lambda _points: True


def _of_valid(text: Callable[[PointResult], str], otherwise: str = ABSENT) -> Callable[[PointResult, object], str]:
    """The text of a point's own number; of an invalid point, which shows no number, something else."""
    return lambda point, _compared: text(point) if point.valid else otherwise


def _ratio(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _percent(share: float) -> str:
    return ABSENT if math.isnan(share) else f"{share * 100:.1f}"


def _interval(point: PointResult) -> str:
    return ABSENT if point.ci95_s is None else spread_beside(plain(point.iteration_time_s, 4), point.ci95_s)


def _over_bound(point: PointResult) -> str:
    return plain(point.iteration_time_s / point.lower_bound_s, 3) if point.lower_bound_s else ABSENT


def _printed(_point: PointResult, compared: ComparedCell | None) -> str:
    if compared is None:
        return ""
    value, mark = compared.cell.value, "*" if compared.cell.fitted else ""
    scaled = f"{value * 100:.1f}" if compared.cell.metric == EFFICIENCY else plain(value, 4)
    return scaled + mark


def _difference(_point: PointResult, compared: ComparedCell | None) -> str:
    return "" if compared is None else difference_text(compared)


POINT_COLUMNS = (
    PointColumn(
        "time (s)",
        "Iteration time: from the slowest worker's end of one iteration to that of the next, mean of the measured ones",
        _of_valid(lambda point: plain(point.iteration_time_s, 4), INVALID),
    ),
    PointColumn(
        "± 95 %",
        "Half of the 95 % confidence interval of the mean, over seeds, or over iterations where there is one seed",
        _of_valid(_interval),
        gives_way=1,
    ),
    PointColumn(
        "samples/s",
        "Samples that all workers process per second",
        _of_valid(lambda point: plain(point.throughput_per_s, 4)),
        gives_way=3,
    ),
    PointColumn(
        "eff. %",
        "Scaling efficiency: computing time of an iteration over its time; 100 means that the network costs nothing",
        _of_valid(lambda point: _percent(point.scaling_efficiency)),
        gives_way=4,
    ),
    PointColumn(
        "printed",
        "What the paper prints; * marks values that a constant was fitted on",
        _printed,
        gives_way=7,
        is_shown=lambda points: bool(points.printed_metric),
    ),
    PointColumn(
        "diff.",
        "Measured minus printed, in percentage points",
        _difference,
        gives_way=8,
        is_shown=lambda points: points.printed_metric == EFFICIENCY,
    ),
    PointColumn(
        "diff. %",
        "Measured minus printed, in per cent of the printed value",
        _difference,
        gives_way=9,
        is_shown=lambda points: points.printed_metric not in ("", EFFICIENCY),
    ),
    PointColumn(
        "x bound",
        "Iteration time over its closed-form lower bound: 1 is the best that the plan permits",
        _of_valid(_over_bound),
        gives_way=5,
    ),
    PointColumn(
        "x fluid",
        "Iteration time over that of the same iterations on an ideal network, by the fluid engine: 1 says that both agree",
        lambda point, _compared: _ratio(point.fluid_ratio),
        gives_way=2,
    ),
    PointColumn(
        "x alone",
        "Iteration time over the job's on an ideal network that it has for itself",
        lambda point, _compared: _ratio(point.alone_ratio),
        gives_way=6,
        is_shown=lambda points: any(point.alone_time_s is not None for point in points.results),
    ),
    PointColumn(
        "verdict",
        "valid: all checks passed, as listed below for each point; unexplained: they passed, and no known cause explains how far "
        "the time is from an ideal network's, so check the point before you trust it; invalid: the numbers are not results",
        lambda point, _compared: point.state,
    ),
)
GIVES_WAY = tuple(
    column.header for column in sorted(POINT_COLUMNS, key=lambda column: column.gives_way) if column.gives_way
)
"""Columns that a narrow terminal leaves out, in this order. Swept parameters, the time and the verdict always stay."""


def columns_of(points: ShownPoints) -> list[PointColumn]:
    """Returns the columns of a table of these points, from left to right."""
    return [column for column in POINT_COLUMNS if column.is_shown(points)]


def difference_text(compared: ComparedCell) -> str:
    """Measured minus printed: percentage points for an efficiency, per cent of the printed value for other metrics."""
    if compared.difference is None:
        return compared.status.value
    return f"{compared.difference * 100:+z.1f}"  # z: no "-0.0"


def spread_beside(time: str, half_s: float) -> str:
    """Half of an interval, with as many decimals as the time that it belongs to. If it is too small for them, the text
    says that it is less than one of the last decimal."""
    decimals = len(time.partition(".")[2])
    last = 10.0**-decimals
    return f"<{last:.{decimals}f}" if 0 < half_s < last / 2 else f"{half_s:.{decimals}f}"


def plain(value: float, digits: int) -> str:
    """Returns a number with so many significant digits, without a power of ten."""
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:#.{digits}g}".rstrip(".")
