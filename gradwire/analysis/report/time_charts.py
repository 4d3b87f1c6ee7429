"""Charts of a run over time: how long iterations took, with faults shaded, and how busy the busiest lines of its network were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradwire.analysis.fault_effects import FaultSpan, fault_spans
from gradwire.analysis.iterations import Float64
from gradwire.analysis.link_loads import LinkLoad
from gradwire.analysis.report.charts import PALETTE, STYLE
from gradwire.datatypes.records import FaultRecord, Int64

MOST_LINES = 3
"""Lines that are drawn because they were busiest; besides, one of each link that had a fault."""
MOST_PANELS = 6
"""Lines of a chart, however many links had faults."""
BINS = 300
"""Bins of a run: as many as a chart has room for."""
LINE_COLOR, FAULT_COLOR = PALETTE[0], PALETTE[5]
TIME_COLORS = PALETTE[2:5]
MOST_MARKED = 200
"""Ends of iterations that are marked; more would be a grey area."""
ROOM = 1.35
"""Height of the panel of iteration times over the longest one: faults' names stand above it."""
PANEL_INCHES, FIRST_INCHES = 0.95, 1.6
LETTERS_PT = 8


def over_time_chart(
    edges_of_jobs: Mapping[str, Int64], faults: Sequence[FaultRecord], loads: Sequence[LinkLoad], bins_ns: Int64
) -> Figure:
    """Chart of a run from its first iteration to its last: with faults a panel of iteration times, then one for each load.

    edges_of_jobs: of each job, by its name, or "" where there is one: when its iterations begin, and at last when the last one ends.
    bins_ns: edges of the loads' bins.
    """
    first_ns, last_ns = int(bins_ns[0]), int(bins_ns[-1])
    spans = fault_spans(faults, last_ns)
    panels = len(loads) + bool(spans)
    with mpl.rc_context(STYLE):
        heights = [FIRST_INCHES] * bool(spans) + [PANEL_INCHES] * len(loads)
        figure = Figure(figsize=(8.0, 0.7 + sum(heights)), layout="constrained")
        axes = figure.subplots(panels, 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
        if spans:
            _iteration_times(axes[0], edges_of_jobs)
        for panel, load in zip(axes[bool(spans) :], loads, strict=True):
            _load(panel, load, bins_ns / 1e9)
        alone = next(iter(edges_of_jobs.values())) if len(edges_of_jobs) == 1 else bins_ns[:0]
        for number, panel in enumerate(axes):
            _mark(panel, alone[:MOST_MARKED] / 1e9, spans, named=number == 0)
        axes[-1].set_xlabel("Time (s)" + ("; thin lines: ends of iterations" if len(alone) else ""))
        axes[-1].set_xlim(first_ns / 1e9, last_ns / 1e9)
    return figure


def _iteration_times(axes: Axes, edges_of_jobs: Mapping[str, Int64]) -> None:
    """Each iteration as a step of the height of its time; of several jobs, each in a colour of its own."""
    longest_s = 0.0
    for number, (job, edges_ns) in enumerate(edges_of_jobs.items()):
        times_s, color = np.diff(edges_ns) / 1e9, TIME_COLORS[number % len(TIME_COLORS)]
        axes.stairs(
            times_s, edges_ns / 1e9, color=color, linewidth=1.6, baseline=None, label=f"job {job}" if job else None
        )
        if not job:
            axes.stairs(times_s, edges_ns / 1e9, color=color, alpha=0.25, fill=True)
        longest_s = max(longest_s, float(times_s.max()))
    if len(edges_of_jobs) > 1:
        axes.legend(loc="lower right", ncols=4, frameon=False, fontsize=LETTERS_PT)
    axes.set_ylabel("Iteration\ntime (s)")
    axes.set_ylim(0, ROOM * longest_s)


def _load(axes: Axes, load: LinkLoad, edges_s: Float64) -> None:
    axes.stairs(100 * load.share, edges_s, color=LINE_COLOR, alpha=0.3, fill=True)
    axes.stairs(100 * load.share, edges_s, color=LINE_COLOR, linewidth=0.7)
    axes.set_ylim(0, 108)
    axes.set_yticks([0, 50, 100])
    axes.set_ylabel("busy (%)")
    title = f"{load.name}, {load.rate_bps / 1e9:g} Gbit/s: {load.share.mean():.0%} on average"
    axes.set_title(title, loc="left", fontsize=LETTERS_PT, fontweight="normal", pad=2)


def _mark(axes: Axes, edges_s: Float64, spans: Sequence[FaultSpan], *, named: bool) -> None:
    for edge_s in np.asarray(edges_s[1:-1]).tolist():
        axes.axvline(edge_s, color="#999999", linewidth=0.5)
    for number, span in enumerate(spans):
        axes.axvspan(span.begin_s, span.end_s, color=FAULT_COLOR, alpha=0.2, linewidth=0)
        if named:
            height = 0.97 - 0.13 * (number % 3)  # those that are there together stand below one another
            axes.text(
                span.begin_s,
                height,
                f" {span.name}",
                transform=axes.get_xaxis_transform(),
                va="top",
                fontsize=LETTERS_PT,
            )
