"""Charts of findings that no iteration time says: how long tokens of requests take, and what faults cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure

from gradwire.analysis.fault_effects import FaultEffect
from gradwire.analysis.findings.axes import Where
from gradwire.analysis.findings.findings import FaultEffects, Finding, RequestsServed
from gradwire.analysis.report.charts import PALETTE, STYLE, Labels, entitle
from gradwire.analysis.report.value_words import ValueWords
from gradwire.analysis.request_times import RequestSpread

ROW_INCHES, AROUND_INCHES, WIDTH_INCHES = 0.55, 1.5, 8.5
HEIGHT = 0.36
ROOM = 1.25
"""Width of a panel over its longest bar: numbers stand behind bars."""
MS_PER_S = 1e3


@dataclass(frozen=True)
class _Panel:
    label: str
    #: Lengths of the bars of each setting, which lie upon one another; empty where there is nothing to draw.
    lengths: tuple[tuple[float, ...], ...]


def finding_chart(findings: Sequence[Finding], title: str, write: Labels) -> Figure | None:
    """The chart of what was found of requests, or of faults at several settings; None where nothing of the kind was."""
    for found in findings:
        if isinstance(found, RequestsServed):
            of_requests = [each.observed.requests for each in found.at if each.observed.requests is not None]
            first = _Panel("Time to first token (ms)", tuple(_of_spread(each.first_token) for each in of_requests))
            later = _Panel("Between tokens (ms)", tuple(_of_spread(each.between_tokens) for each in of_requests))
            return _drawn([each.where for each in found.at], (first, later), "median, 99th percentile", title, write)
        if isinstance(found, FaultEffects) and len(found.at) > 1:
            effects = [each.observed.fault_effect for each in found.at if each.observed.fault_effect is not None]
            return _drawn([each.where for each in found.at], (_of_faults(effects),), "", title, write)
    return None


def _of_spread(spread: RequestSpread | None) -> tuple[float, ...]:
    return () if spread is None else (spread.median_s * MS_PER_S, spread.tail_s * MS_PER_S)


def _of_faults(effects: Sequence[FaultEffect]) -> _Panel:
    lost_s = [effect.lost_s for effect in effects if effect.lost_s is not None]
    if len(lost_s) == len(effects):
        return _Panel("Time that the fault costs (s)", tuple((each_s,) for each_s in lost_s))
    label = "Iterations with the fault, over those without"
    return _Panel(label, tuple((effect.slowdown,) for effect in effects))


def _drawn(wheres: Sequence[Where], panels: Sequence[_Panel], bars: str, title: str, write: Labels) -> Figure:
    """Panels with a row for each setting; of several bars of a row, the first is in front, and the others are lighter."""
    words, places = ValueWords(write), range(len(wheres))
    with mpl.rc_context(STYLE):
        size = (WIDTH_INCHES, AROUND_INCHES + ROW_INCHES * len(wheres))
        figure = Figure(figsize=size, layout="constrained")
        drawn = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, panel, colour in zip(drawn, panels, PALETTE, strict=False):
            for place, lengths in zip(places, panel.lengths, strict=True):
                for number, length in reversed(list(enumerate(lengths))):
                    axes.barh(place, length, HEIGHT, color=colour, alpha=0.35 if number else 1.0)
                text = ", ".join(f"{length:.4g}" for length in lengths)
                end = (max(lengths, default=0.0), place)
                axes.annotate(text, end, (4, 0), textcoords="offset points", va="center", fontsize=8)
            axes.set_xlabel(f"{panel.label}{f': {bars}' if bars else ''}")
            axes.set_xlim(0, ROOM * max((max(each, default=0.0) for each in panel.lengths), default=0.0) or 1.0)
        drawn[0].set_yticks(places, [words.where(where) for where in wheres])
        drawn[0].invert_yaxis()
        entitle(figure, title)
        return figure
