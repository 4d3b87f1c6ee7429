"""Charts of a port's use over time, in the style of P3's Figs. 8 and 9, and with computation, of Geryon's Fig. 2."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradwire.analysis.frames.csv_files import write_csv
from gradwire.analysis.report.charts import PALETTE, STYLE
from gradwire.analysis.utilisation.line_use import Float64, Utilisation
from gradwire.datatypes.records import Int64

OUTBOUND_COLOR, INBOUND_COLOR, COMPUTE_COLOR = PALETTE[0], PALETTE[1], PALETTE[2]


def utilisation_chart(used: Utilisation, compute: Float64 | None, edges_ns: Int64, title: str) -> Figure:
    """Chart of each direction over time, with thin lines between iterations, above the share of time that GPUs compute, if given."""
    with mpl.rc_context(STYLE):
        rows = 2 if compute is None else 3
        figure = Figure(figsize=(8.0, 1.0 + 1.35 * rows), layout="constrained")
        panels = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
        figure.suptitle(title, fontsize=11, fontweight="bold")
        _traffic(panels[0], used, used.outbound_bps, "Outbound", OUTBOUND_COLOR)
        _traffic(panels[1], used, used.inbound_bps, "Inbound", INBOUND_COLOR)
        if compute is not None:
            _area(panels[2], used.edges_s, 100 * compute, COMPUTE_COLOR)
            panels[2].set_ylabel("GPU (%)")
            panels[2].set_ylim(0, 108)
        for axes in panels:
            _mark_iterations(axes, used, edges_ns / 1e9)
        panels[-1].set_xlabel(f"Time (s), in bins of {used.bin_s * 1e3:g} ms; thin lines: ends of iterations")
        panels[-1].set_xlim(used.edges_s[0], used.edges_s[-1])
    return figure


def draw_utilisation(axes: Axes, used: Utilisation, edges_ns: Int64) -> None:
    """Draws both directions of a port over time into axes that are given, with thin lines between iterations."""
    for values_bps, name, color in (
        (used.outbound_bps, "outbound", OUTBOUND_COLOR),
        (used.inbound_bps, "inbound", INBOUND_COLOR),
    ):
        axes.stairs(values_bps / 1e9, used.edges_s, color=color, linewidth=1.1, label=name)
    axes.axhline(used.rate_bps / 1e9, color="#777777", linewidth=0.8, linestyle="--", label="line rate")
    _mark_iterations(axes, used, edges_ns / 1e9)
    axes.set_ylabel("Port (Gbit/s)")
    axes.set_ylim(0, 1.08 * used.rate_bps / 1e9)
    axes.set_xlabel(f"Time (s), in bins of {used.bin_s * 1e3:g} ms; thin lines: ends of iterations")
    axes.set_xlim(used.edges_s[0], used.edges_s[-1])
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)


def _traffic(axes: Axes, used: Utilisation, values_bps: Float64, name: str, color: str) -> None:
    _area(axes, used.edges_s, values_bps / 1e9, color)
    axes.axhline(used.rate_bps / 1e9, color="#777777", linewidth=0.8, linestyle="--")
    axes.set_ylabel(f"{name}\n(Gbit/s)")
    axes.set_ylim(0, 1.08 * used.rate_bps / 1e9)


def _area(axes: Axes, edges_s: Float64, values: Float64, color: str) -> None:
    axes.stairs(values, edges_s, color=color, alpha=0.3, fill=True)
    axes.stairs(values, edges_s, color=color, linewidth=0.9)


def _mark_iterations(axes: Axes, used: Utilisation, edges_s: Float64) -> None:
    inside = edges_s[(edges_s > used.edges_s[0]) & (edges_s < used.edges_s[-1])]
    for edge_s in np.asarray(inside).tolist():
        axes.axvline(edge_s, color="#999999", linewidth=0.6)


def write_utilisation(path: Path, used: Utilisation, compute: Float64 | None) -> None:
    """Writes the bins as CSV."""
    columns = {
        "start_s": (used.edges_s[:-1], "{:.6f}"),
        "inbound_bps": (used.inbound_bps, "{:.0f}"),
        "outbound_bps": (used.outbound_bps, "{:.0f}"),
    }
    if compute is not None:
        columns["gpu_share"] = (compute, "{:.4f}")
    write_csv(path, pd.DataFrame({name: map(form.format, values) for name, (values, form) in columns.items()}))
