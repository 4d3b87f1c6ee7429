"""Charts of a run over time: how long iterations took, with faults shaded, and how busy the busiest lines of its network were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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


@dataclass(frozen=True)
class FaultSpan:
    """A fault in a chart over time."""

    name: str
    begin_s: float
    end_s: float


def fault_spans(faults: Sequence[FaultRecord], last_ns: int) -> list[FaultSpan]:
    """When each fault that happened was there, in seconds; until the run's end for one that was never undone."""
    return [
        FaultSpan(
            f"fault.{record.fault.name}",
            record.begun_ns / 1e9,
            (last_ns if record.ended_ns < 0 else min(record.ended_ns, last_ns)) / 1e9,
        )
        for record in faults
        if 0 <= record.begun_ns < last_ns
    ]


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


@dataclass(frozen=True)
class MeansAroundFaults:
    """Mean time of iterations before, during and after all faults of a run, in seconds; None where there are none."""

    before_s: float | None
    during_s: float | None
    after_s: float | None

    @staticmethod
    def of(edges_ns: Int64, warmup: int, faults: Sequence[FaultRecord]) -> MeansAroundFaults | None:
        """The means over the iterations after the first `warmup` ones; None if no fault happened. An iteration that a fault was there for
        a part of is during it."""
        spans = fault_spans(faults, int(edges_ns[-1]))
        if not spans:
            return None
        begins_s, ends_s, times_s = edges_ns[:-1] / 1e9, edges_ns[1:] / 1e9, np.diff(edges_ns) / 1e9
        measured = np.arange(len(times_s)) >= warmup
        during = np.zeros(len(times_s), np.bool_)
        for span in spans:
            during |= (begins_s < span.end_s) & (ends_s > span.begin_s)
        first_s, last_s = min(span.begin_s for span in spans), max(span.end_s for span in spans)
        parts = (measured & (ends_s <= first_s), measured & during, measured & (begins_s >= last_s))
        means = [float(times_s[part].mean()) if part.any() else None for part in parts]
        return MeansAroundFaults(*means)

    def in_words(self) -> str:
        """The means in words: "0.1200 s before the fault, 0.2400 s during it, 0.1200 s after it"."""
        named = ((self.before_s, "before"), (self.during_s, "during"), (self.after_s, "after"))
        said = [f"{mean_s:#.4g} s {when}" for mean_s, when in named if mean_s is not None]
        missing = [when for mean_s, when in named if mean_s is None]
        return f"{', '.join(said)} faults" + (f" (no measured iteration {' or '.join(missing)})" if missing else "")
