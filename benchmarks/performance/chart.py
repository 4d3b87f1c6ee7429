"""The chart of docs/performance.md: what traffic costs over hosts, rates, bytes and messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.performance.cost import Cost, Figures
from gradwire.analysis.report.charts import PALETTE, STYLE

CHART = Path(__file__).resolve().parents[2] / "docs" / "performance.svg"


def draw(figures: Figures) -> None:
    """Writes the chart: CPU seconds and wall seconds of one iteration in four panels."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 5.6), layout="constrained")
        panels = figure.subplots(2, 2).flat
        _panel(next(panels), figures.hosts, "Hosts in a ring, 64 MB each", "hosts")
        _panel(next(panels), figures.rates, "8 hosts, all-to-all of 1.8 GB", "line rate (Gbit/s)")
        _panel(next(panels), figures.sizes, "8 hosts, all-to-all at 10 Gbit/s", "MB a flow, of 56 flows")
        _panel(next(panels), figures.messages, "8 hosts, 0.8 GB round a ring", "messages")
        figure.savefig(CHART, metadata={"Date": None})


def _panel(axes: Axes, costs: Sequence[Cost], title: str, label: str) -> None:
    at = [cost.at for cost in costs]
    for number, (name, spreads) in enumerate(
        {"CPU time": [cost.cpu_s for cost in costs], "wall time": [cost.wall_s for cost in costs]}.items()
    ):
        low = [spread.median - spread.least for spread in spreads]
        high = [spread.most - spread.median for spread in spreads]
        axes.errorbar(
            at,
            [spread.median for spread in spreads],
            (low, high),
            color=PALETTE[number],
            marker="os"[number],
            markersize=4,
            capsize=3,
            label=name,
        )
    axes.set_title(title)
    axes.set_xlabel(label)
    axes.set_ylabel("seconds an iteration")
    axes.set_xscale("log", base=2 if label == "hosts" else 10)
    axes.set_yscale("log")
    # Whole decades: an axis without a label at its end makes little of much, and much of little.
    seconds = [value for cost in costs for spread in (cost.cpu_s, cost.wall_s) for value in (spread.least, spread.most)]
    axes.set_ylim(10 ** math.floor(math.log10(min(seconds))), 10 ** math.ceil(math.log10(max(seconds))))
    axes.set_xticks(at, [f"{each:,.0f}" for each in at])
    axes.minorticks_off()
    axes.grid(visible=True, axis="y", linewidth=0.4, alpha=0.6)
    axes.legend(frameon=False)
