"""The output of `gradwire estimate`: a table, JSON and rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from gradwire.analysis.report.request_words import estimated_requests
from gradwire.analysis.report.text_table import TextTable
from gradwire.csv_files import write_csv
from gradwire.faults import InputFault
from gradwire.runs.estimation import MODEL_NOT_RUN, RESULT_COLUMNS, PointEstimate, result_columns

OF_JOBS = " x alone: over the job's time with the network for itself."


def estimates_table(
    title: str, estimates: Sequence[PointEstimate], took_s: float, last_line: str = "", conclusion: str = ""
) -> TextTable:
    """One row per point, and below it that none of this was run, and what it shows.

    last_line: that of `free_and_assumed`. conclusion: of `findings_of`, in words.
    """
    keys = _varied(estimates)
    of_jobs = any(point.alone_time_s is not None for point in estimates)
    headers = (*keys, "time (s)", "bound (s)", "x bound", *(("x alone",) if of_jobs else ()), "bound by")
    rows = tuple(
        (
            *(point.parameters.get(key, "") for key in keys),
            f"{point.iteration_time_s:.4g}",
            f"{point.lower_bound_s:.4g}",
            f"{point.x_bound:.3f}",
            *((f"{point.iteration_time_s / point.alone_time_s:.3f}" if point.alone_time_s else "",) if of_jobs else ()),
            point.lower_bound_kind,
        )
        for point in estimates
    )
    unsteady = sum(not point.period for point in estimates)
    all_of_them = f"All {len(estimates)} points" if len(estimates) > 1 else "The point"
    foot = f"{MODEL_NOT_RUN}{OF_JOBS if of_jobs else ''} {all_of_them} took {took_s:.1f} s."
    if unsteady:
        which = "The schedule of 1 point" if unsteady == 1 else f"The schedules of {unsteady} points"
        foot += f" {which} did not repeat: means over many iterations are shown."
    foot += "".join(f" Not in them: {text}." for text in dict.fromkeys(point.left_out for point in estimates) if text)
    foot += _not_ranked(estimates, keys)
    foot += "".join(f"\n{line}" for line in _request_lines(estimates, keys))
    foot += "".join(f"\n{line}" for line in (last_line, conclusion) if line)
    return TextTable(title, headers, rows, len(keys), ("",) * len(rows), foot, ("bound (s)", "bound by", "x alone"))


def _not_ranked(estimates: Sequence[PointEstimate], keys: Sequence[str]) -> str:
    """Sentence that names the points that estimates do not rank; "" if all are ranked."""
    told = [
        f"{', '.join(filter(None, (point.parameters.get(key, '') for key in keys)))} ({abs(point.by_queues):.1%})"
        for point in estimates
        if not point.is_ranked
    ]
    if not told:
        return ""
    return (
        f" An estimate does not rank {'; '.join(told)}: so much depends on how much queues hold. Run what is to be "
        "compared with it."
    )


def _request_lines(estimates: Sequence[PointEstimate], keys: Sequence[str]) -> Iterator[str]:
    """A line on the requests of each point that serves some."""
    for point in estimates:
        if point.requests is not None:
            label = ", ".join(filter(None, (point.parameters.get(key, "") for key in keys)))
            yield f"{label}: {estimated_requests(*point.requests)}"


def _varied(estimates: Sequence[PointEstimate]) -> list[str]:
    """Parameters that take more than one value, in order of appearance; all if none does."""
    keys = list(dict.fromkeys(key for point in estimates for key in point.parameters))
    return [key for key in keys if len({point.parameters.get(key) for point in estimates}) > 1] or keys


def estimates_json(
    estimates: Sequence[PointEstimate],
    took_s: float,
    warnings: Sequence[str] = (),
    last_line: str = "",
    conclusion: str = "",
) -> dict[str, object]:
    """Estimates as JSON. warnings: those of `without_effect`; last_line: that of `free_and_assumed`; conclusion: of
    `findings_of`, in words."""
    return {
        "model": MODEL_NOT_RUN,
        "warnings": list(warnings),
        "free_and_assumed": last_line,
        "conclusion": conclusion,
        "took_s": took_s,
        "points": [_as_told(point) for point in estimates],
    }


def _as_told(point: PointEstimate) -> dict[str, object]:
    told = {**asdict(point), "x_bound": point.x_bound, "is_ranked": point.is_ranked}
    del told["warnings"]
    if point.alone_time_s is None:
        del told["alone_time_s"]
    requests = told.pop("requests")
    if requests is not None:
        told["requests"] = dict(zip(("on_the_network", "by_computation_alone"), requests, strict=True))
    # JSON has no number for what is none, such as the efficiency of a point that computes nothing.
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in told.items()}


def write_estimates_csv(path: Path, estimates: Sequence[PointEstimate]) -> None:
    """Writes one row per point: the swept parameters, then RESULT_COLUMNS. Raises InputFault if a parameter has the
    name of a result."""
    keys = list(dict.fromkeys(key for point in estimates for key in point.parameters))
    if clash := sorted(set(keys) & set(RESULT_COLUMNS)):
        raise InputFault(
            f"the swept parameter '{clash[0]}' has the name of a column of the estimates; sweep another key"
        )
    results = result_columns(estimates)
    rows = (
        [*(point.parameters.get(key, "") for key in keys), *(getattr(point, name) for name in results)]
        for point in estimates
    )
    write_csv(path, [*keys, *results], rows)
