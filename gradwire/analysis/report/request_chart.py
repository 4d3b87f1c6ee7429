"""The chart of a run that serves requests: how long their first and their later tokens take at each setting."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.figure import Figure

from gradwire.analysis.findings.findings import RequestsServed
from gradwire.analysis.report.charts import PALETTE, STYLE, Labels, entitle
from gradwire.analysis.report.value_words import ValueWords
from gradwire.analysis.request_times import RequestSpread

ROW_INCHES, AROUND_INCHES, WIDTH_INCHES = 0.55, 1.5, 8.5
HEIGHT = 0.36
ROOM = 1.25
"""Width of a panel over its longest bar: numbers stand behind bars."""
MS_PER_S = 1e3
NAMES = {"first_token": "time to first token", "between_tokens": "between tokens"}


def request_chart(served: RequestsServed, title: str, write: Labels) -> Figure:
    """Two panels, of first and of later tokens, with a bar for each setting: up to the median, and in a lighter shade up to
    the 99th percentile."""
    words, places = ValueWords(write), range(len(served.at))
    with mpl.rc_context(STYLE):
        size = (WIDTH_INCHES, AROUND_INCHES + ROW_INCHES * len(served.at))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, len(NAMES), sharey=True)
        for axes, (name, label), colour in zip(panels, NAMES.items(), PALETTE, strict=False):
            for place, at in zip(places, served.at, strict=True):
                spread: RequestSpread | None = getattr(at.observed.requests, name)
                if spread is None:
                    continue
                median_ms, tail_ms = spread.median_s * MS_PER_S, spread.tail_s * MS_PER_S
                axes.barh(place, tail_ms, HEIGHT, color=colour, alpha=0.35)
                axes.barh(place, median_ms, HEIGHT, color=colour)
                text = f"{median_ms:.4g}, {tail_ms:.4g}"
                axes.annotate(text, (tail_ms, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
            axes.set_xlabel(f"{label[:1].upper()}{label[1:]} (ms): median, 99th percentile")
            axes.set_xlim(0, ROOM * axes.get_xlim()[1])
        panels[0].set_yticks(places, [words.where(at.where) for at in served.at])
        panels[0].invert_yaxis()
        entitle(figure, title)
        return figure
