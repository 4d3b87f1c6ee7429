"""The page of the printed values: the score, the error chart, and each row with its cause."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from gradwire.analysis.report.tables import escaped, markdown_table
from gradwire.analysis.report.text_table import TextTable
from reproduction.world.cells import RIGHT_WITHIN, By, Source
from reproduction.world.scored import Score, ScoredRow, Status, scores

CHART = "error.svg"
QUESTION = "# Held against the real world\n\nHow far is gradwire from real hardware?"
RULES = f"""\
Others have printed what they measured on real hardware. Here is what gradwire predicts for the same set-ups, and how far it is off
(written by `gradwire reproduce world --pages docs`).

- **Rule.** In each source, at most one row fixes the compute time, and at most one what a host does: its rate, its time
  for a message or a call, or its pause between calls. These rows are marked as fitted and not counted. All else follows from the
  set-up and from constants that are listed with their sources.
- **By series.** Where a source has several programs or machines, a second prediction takes the compute time or the rate
  from one row of the same series (the same program, another number of GPUs). It has a separate column, breaks the rule
  above, and is not counted: it tells how well the network alone is predicted.
- **Cause.** An error beyond {RIGHT_WITHIN:.0%} has a cause only if another run, with one thing changed, comes within
  {RIGHT_WITHIN:.0%} of the printed value. Otherwise it is unexplained, and the changes that were tried are named.
- **Not given.** Cells of the same tables whose printed values are not known here are predicted as well, in the folded
  tables. They will be compared with what the sources print."""


def world_page(rows: Sequence[ScoredRow], sources: Sequence[Source], facts: Sequence[str]) -> str:
    """The page as Markdown, of the sources that have rows."""
    parts = [
        _answer(scores(rows)[-1]),
        RULES,
        "## Score",
        "\n".join(f"- {escaped(line)}" for line in (*summary(rows, sources), *facts)),
    ]
    parts.append(markdown_table(score_table(scores(rows))))
    parts.append(f"![Predicted over printed values, a panel for each source, logarithmic axes](world/{CHART})")
    for source in sources:
        own = [row for row in rows if row.source == source.name]
        if own:
            parts += _source(source, own)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _answer(every: Score) -> str:
    """The page's question, and the answer of all sources, where there is one."""
    if every.median is None or every.worst is None:
        return QUESTION
    return (
        f"{QUESTION} Of {every.predicted} printed measurements that it predicts, {every.right} are within {RIGHT_WITHIN:.0%}; "
        f"the median error is {every.median:.1%}, the worst {every.worst:.0%}."
    )


def summary(rows: Sequence[ScoredRow], sources: Sequence[Source]) -> list[str]:
    """The score in sentences."""
    every = scores(rows)[-1]
    lines = [
        f"{every.given} printed values: {every.predicted} predicted, {every.fitted} fitted, {every.not_run} not run, "
        f"{every.not_expressible} not expressible, {every.invalid} invalid"
    ]
    if every.median is not None and every.worst is not None:
        lines.append(
            f"predictions: median error {every.median:.1%}, worst {every.worst:.0%}; {every.right} of {every.predicted} "
            f"within {RIGHT_WITHIN:.0%}; {every.unexplained} unexplained"
        )
    if decided := network_errors(rows, sources):
        lines.append(
            f"what the network decides: median error {statistics.median(decided):.1%} over {len(decided)} rows, those of calls as "
            "predicted, and those of training by series"
        )
    of_programs = scores([row for row in rows if row.by == By.PROGRAMS])[-1]
    if of_programs.median is not None and of_programs.worst is not None:
        lines.append(
            f"real programs alone: {of_programs.predicted} predicted, median error {of_programs.median:.1%}, worst "
            f"{of_programs.worst:.1%}"
        )
    if every.series_median is not None:
        lines.append(
            f"with one fitted row per series: median error {every.series_median:.1%} over {every.series_rows} rows that "
            "are not that row"
        )
    further = sum(row.printed is None and (row.predicted is not None or row.by_series is not None) for row in rows)
    lines.append(f"{further} further cells of the same tables predicted, whose printed values are not given")
    return lines


def network_errors(rows: Sequence[ScoredRow], sources: Sequence[Source]) -> list[float]:
    """Errors of the predictions that count as far as the network decides them: of calls, and of training with the compute time of
    the row's own series, which leaves out rows without one."""
    computes = {source.name: source.computes for source in sources}
    counted = [row for row in rows if row.printed is not None and row.status is Status.PREDICTED]
    found = [row.series_error if computes[row.source](row.what) else row.error for row in counted]
    return [abs(error) for error in found if error is not None]


def score_table(found: Sequence[Score]) -> TextTable:
    """A line for each source."""
    headers = (
        *("source", "given", "predicted", "within 10 %", "median", "worst", "fitted", "not run"),
        *("not expressible", "unexplained", "by series"),
    )
    rows = tuple(
        (
            score.name,
            *(str(number) for number in (score.given, score.predicted, score.right)),
            _share(score.median),
            _share(score.worst),
            *(str(number) for number in (score.fitted, score.not_run, score.not_expressible, score.unexplained)),
            _share(score.series_median),
        )
        for score in found
    )
    foot = (
        "Errors are of predictions that nothing was fitted to. 'By series' takes the compute time or rate from one row "
        "of the same series, so it is shown but not scored."
    )
    gives_way = ("by series", "not expressible", "fitted", "not run", "worst")
    return TextTable("Score", headers, rows, 1, ("",) * len(rows), foot, gives_way)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _source(source: Source, rows: Sequence[ScoredRow]) -> list[str]:
    given = [row for row in rows if row.printed is not None]
    further = [row for row in rows if row.printed is None and (row.predicted is not None or row.by_series is not None)]
    parts = [
        f"## {source.name}: {escaped(source.title)}",
        escaped(source.set_up),
        f"Not emulated: {escaped(source.not_emulated)}.",
        "\n".join(f"- {escaped(line)}" for line in source.constants),
        markdown_table(_given_table(given)) if given else "",
        _notes(given),
        "What was measured of the errors:\n\n" + "\n".join(f"- {line}" for line in source.examined)
        if source.examined
        else "",
    ]
    if further:
        folded = markdown_table(_further_table(further)).strip("\n")
        left = sum(row.printed is None and row.status is Status.NOT_RUN for row in rows)
        told = f"{len(further)} cells that are not given, predicted{f', and {left} that have not been run' if left else ''}"
        parts.append(f"<details><summary>{told}</summary>\n\n{folded}\n\n</details>")
    return [part for part in parts if part]


def _given_table(rows: Sequence[ScoredRow]) -> TextTable:
    has_series = any(row.by_series is not None for row in rows)
    headers = ("what", "setting", "printed", "predicted", "error", *(("by series",) if has_series else ()), "unit", "")
    cells = tuple(
        (
            row.what,
            row.setting,
            _number(row.printed),
            _number(row.predicted),
            "–" if row.error is None else f"{row.error:+.1%}",
            *((("–" if row.series_error is None else f"{row.series_error:+.1%}"),) if has_series else ()),
            row.unit,
            _remark(row),
        )
        for row in rows
    )
    return TextTable("Given", headers, cells, 2, ("",) * len(cells), "")


def _remark(row: ScoredRow) -> str:
    if row.status is Status.FITTED:
        return f"fitted: {row.fitted}"
    if row.status is not Status.PREDICTED:
        return str(row.status)
    return ", ".join(part for part in (row.cause.split(";")[0], row.by if row.by != By.PACKETS else "") if part)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _notes(rows: Sequence[ScoredRow]) -> str:
    """Each reason once, with the rows that it is of: what is not emulated, why there is no prediction, and causes."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        name = f"{row.what}, {row.setting}"
        if row.status in (Status.NOT_RUN, Status.NOT_EXPRESSIBLE, Status.INVALID):
            lines.setdefault(f"{row.status}: {row.seen}", []).append(name)
        elif row.cause:
            lines.setdefault(f"error {row.error:+.1%}: {row.cause}; {row.seen}", []).append(name)
        if row.not_emulated:
            lines.setdefault(f"not emulated: {row.not_emulated}", []).append(name)
    return "\n".join(f"- {escaped(text)} ({_names(names)})" for text, names in lines.items())


MOST_NAMES = 3


def _names(names: Sequence[str]) -> str:
    shown = "; ".join(escaped(name) for name in names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown}; and {len(names) - MOST_NAMES} more"


def _further_table(rows: Sequence[ScoredRow]) -> TextTable:
    has_series = any(row.by_series is not None for row in rows)
    headers = ("what", "setting", "printed", "predicted", *(("by series",) if has_series else ()), "unit", "by")
    cells = tuple(
        (
            row.what,
            row.setting,
            "",
            _number(row.predicted),
            *((_number(row.by_series),) if has_series else ()),
            row.unit,
            row.by,
        )
        for row in rows
    )
    return TextTable("Further", headers, cells, 2, ("",) * len(cells), "")
