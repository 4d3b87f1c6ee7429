"""Rows with their predictions, as a table that is kept, and the score of each source."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from gradwire.csv_files import read_csv, write_records
from gradwire.faults import InputFault
from reproduction.world.cells import RIGHT_WITHIN, Called, Cell, Planned, Programs, Row, Unexpressed
from reproduction.world.predicting import Predicted


class Status(StrEnum):
    """What became of a row."""

    PREDICTED = "predicted"
    FITTED = "fitted"
    """A constant was chosen to meet it: shown, and never counted."""
    NOT_RUN = "not run"
    """It is of a real program, and a scenario of programs has not run."""
    NOT_EXPRESSIBLE = "not expressible"
    INVALID = "invalid"
    """The run is not a result."""


@dataclass(frozen=True)
class ScoredRow:
    """A row of `world.csv`."""

    source: str
    what: str
    setting: str
    quantity: str
    unit: str
    printed: float | None
    predicted: float | None
    status: Status
    #: What is fitted on it.
    fitted: str
    #: With the compute time or the host's rate of a row of the same series, in place of the source's.
    by_series: float | None
    #: Of an error beyond RIGHT_WITHIN: what a run has shown; "unexplained" where none has.
    cause: str
    #: Where the time of the run goes; or why there is no prediction.
    seen: str
    not_emulated: str
    #: "packets", "estimate", "programs" or "ccl".
    by: str
    command: str

    @property
    def error(self) -> float | None:
        """Predicted over printed, less 1."""
        return _error(self.predicted, self.printed)

    @property
    def series_error(self) -> float | None:
        """The same of the prediction by the row's series."""
        return _error(self.by_series, self.printed)


UNEXPLAINED = "unexplained"


def _error(predicted: float | None, printed: float | None) -> float | None:
    return None if predicted is None or not printed else predicted / printed - 1


def misses(predicted: float | None, printed: float | None) -> bool:
    """Whether an error asks for a cause."""
    error = _error(predicted, printed)
    return error is not None and abs(error) > RIGHT_WITHIN


Found = Mapping[Planned | Programs | Called, Predicted]
WITHOUT_PYTHON = "needs a Python with PyTorch: `gradwire reproduce world --python PYTHON`"


def score_row(row: Row, cell: Cell, found: Found) -> ScoredRow:
    """A row with what was found; of what-ifs, those that have been carried out. Programs may not have run."""
    same = {"source": row.source, "what": row.what, "setting": row.setting, "quantity": row.quantity, "unit": row.unit}
    series = [found[what_if.planned].value for what_if in cell.what_ifs if what_if.of_series]
    by_series = series[0] if series else None
    planned = cell.planned
    if isinstance(planned, Programs) and planned not in found:
        planned = Unexpressed(WITHOUT_PYTHON, program=True, command=planned.command())
    if isinstance(planned, Unexpressed):
        status = Status.NOT_RUN if planned.program else Status.NOT_EXPRESSIBLE
        return ScoredRow(
            **same, printed=row.printed, predicted=None, status=status, fitted="", by_series=by_series, cause="",
            seen=planned.why, not_emulated=cell.not_emulated, by="", command=planned.command,
        )  # fmt: skip
    main = found[planned]
    status = Status.FITTED if cell.fitted else Status.PREDICTED
    return ScoredRow(
        **same,
        printed=row.printed,
        predicted=main.value,
        status=Status.INVALID if main.value is None else status,
        fitted=cell.fitted,
        by_series=by_series,
        cause=_cause(row, cell, found) if status is Status.PREDICTED else "",
        seen=main.seen,
        not_emulated=cell.not_emulated,
        by=str(planned.by),
        command=planned.command(),
    )


def _cause(row: Row, cell: Cell, found: Found) -> str:
    """Of a row that misses: the first changed thing with which a run meets the printed value, or that none does."""
    assert not isinstance(cell.planned, Unexpressed)
    if not misses(found[cell.planned].value, row.printed):
        return ""
    tried = []
    for what_if in cell.what_ifs:
        other = found.get(what_if.planned)
        error = _error(other.value, row.printed) if other else None
        if error is None:
            continue
        if abs(error) <= RIGHT_WITHIN:
            return f"with {what_if.changed}, {error:+.1%}"
        tried.append(f"with {what_if.changed}, {error:+.1%}")
    return "; ".join([UNEXPLAINED, *tried])


@dataclass(frozen=True)
class Score:
    """The score of a source, or of all."""

    name: str
    given: int
    predicted: int
    fitted: int
    not_run: int
    not_expressible: int
    invalid: int
    #: Over the predicted ones; None without any.
    median: float | None
    worst: float | None
    #: Predicted within RIGHT_WITHIN.
    right: int
    unexplained: int
    #: Median over the rows that have a prediction by their series and are not that series' own fitted row.
    series_median: float | None
    series_rows: int


def score_of(name: str, rows: Sequence[ScoredRow]) -> Score:
    """The score over the rows that are given."""
    given = [row for row in rows if row.printed is not None]
    counted = [row for row in given if row.status is Status.PREDICTED]
    errors = [abs(row.error) for row in counted if row.error is not None]
    by_series = [abs(row.series_error) for row in counted if row.series_error is not None]
    numbers = {status: sum(row.status is status for row in given) for status in Status}
    return Score(
        name,
        len(given),
        len(errors),
        numbers[Status.FITTED],
        numbers[Status.NOT_RUN],
        numbers[Status.NOT_EXPRESSIBLE],
        numbers[Status.INVALID],
        statistics.median(errors) if errors else None,
        max(errors, default=None),
        sum(error <= RIGHT_WITHIN for error in errors),
        sum(row.cause.startswith(UNEXPLAINED) for row in counted),
        statistics.median(by_series) if by_series else None,
        len(by_series),
    )


def scores(rows: Sequence[ScoredRow]) -> list[Score]:
    """The score of each source, and of all."""
    names = list(dict.fromkeys(row.source for row in rows))
    return [*(score_of(name, [row for row in rows if row.source == name]) for name in names), score_of("all", rows)]


COLUMNS = tuple(field.name for field in fields(ScoredRow))
NUMBERS = ("printed", "predicted", "by_series")
DIGITS = {"printed": 12, "predicted": 6, "by_series": 6}
"""Digits that are kept: what is printed as it is printed."""


def write_rows(path: Path, rows: Sequence[ScoredRow]) -> None:
    """Writes `world.csv`: a line for each row, with its error next to the prediction."""
    shown = (*COLUMNS[: COLUMNS.index("predicted") + 1], "error", *COLUMNS[COLUMNS.index("predicted") + 1 :])
    lines = []
    for row in rows:
        line: dict[str, Any] = {**asdict(row), "status": str(row.status)}
        line |= {name: "" if line[name] is None else f"{line[name]:.{DIGITS[name]}g}" for name in NUMBERS}
        line["error"] = "" if row.error is None else f"{row.error:.4f}"
        lines.append(line)
    write_records(path, lines, shown, end="\n")


def read_rows(path: Path) -> list[ScoredRow]:
    """What `write_rows` wrote. Raises InputFault for another file."""
    rows = []
    for line in read_csv(path):
        try:
            numbers = {name: float(line[name]) if line[name] else None for name in NUMBERS}
            texts = {name: line[name] for name in COLUMNS if name not in (*NUMBERS, "status")}
            rows.append(ScoredRow(**texts, **numbers, status=Status(line["status"])))  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError) as error:
            raise InputFault(
                f"{path}: is not a table that `gradwire reproduce world` wrote ({error!r}); remove it"
            ) from error
    return rows
