"""The report of a captured port: charts of its use over time, its bins, and a table by iteration, checked against the
port's counters.

The charts are in the style of P3's Figs. 8 and 9 and, with computation, of Geryon's Fig. 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradwire.analysis.iterations import (
    iteration_ends_ns,
    iteration_times_s,
    timed_workers,
    worker_periods_s,
    worker_times_s,
)
from gradwire.analysis.packets.capture_files import Capture
from gradwire.analysis.packets.captures import location_of
from gradwire.analysis.packets.line_use import (
    Float64,
    UseSummary,
    Utilisation,
    by_iteration,
    compute_share,
    received_while_idle,
    summary,
    utilisation,
)
from gradwire.analysis.point_frames import write_frame
from gradwire.analysis.report.charts import PALETTE, STYLE, entitle, save_chart
from gradwire.analysis.report.text_table import TextTable
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.records import Int64, OpLog, PointRecord
from gradwire.faults import InputFault
from gradwire.network.fabric import PREAMBLE_FCS_GAP_BYTES, Fabric

OUTBOUND_COLOR, INBOUND_COLOR, COMPUTE_COLOR = PALETTE[0], PALETTE[1], PALETTE[2]
HEADERS = (
    "iteration",
    "all (s)",
    "here (s)",
    "packets (s)",
    "out %",
    "in %",
    "idle out %",
    "idle in %",
    "both %",
    "overlap %",
)
GIVES_WAY = ("overlap %", "both %", "packets (s)", "here (s)")
"""Columns that a narrow terminal leaves out, in this order."""


def utilisation_chart(used: Utilisation, compute: Float64 | None, edges_ns: Int64, title: str) -> Figure:
    """Chart of each direction over time, with thin lines between iterations,
    above the share of time that GPUs compute, if given."""
    with mpl.rc_context(STYLE):
        rows = 2 if compute is None else 3
        figure = Figure(figsize=(8.0, 1.0 + 1.35 * rows), layout="constrained")
        panels = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
        entitle(figure, title)
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
    write_frame(path, pd.DataFrame({name: map(form.format, values) for name, (values, form) in columns.items()}))


@dataclass(frozen=True)
class ShownUse:
    """The use of a port over the measured iterations."""

    #: Interface name.
    port: str
    #: Use in bins.
    used: Utilisation
    #: Share of each bin in which its host's workers compute; None if it has none.
    compute: Float64 | None
    #: A summary of each measured iteration.
    iterations: tuple[UseSummary, ...]
    #: Line bytes by packets over those by the ports' counters, in the whole replay, outbound and inbound.
    counted_share: tuple[float, float]


def port_use(
    plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord, captures: Sequence[Capture], port: str, bin_s: float
) -> ShownUse:
    """Use of a captured port. Raises InputFault if it was not captured, has no line rate, or no bin fits into an
    iteration."""
    ports = [about.port for about in record.captures]
    if not ports:
        raise InputFault("no port of this point was captured: run it with --set run.capture=h1 or another host")
    if port not in ports:
        raise InputFault(f"port {port!r} was not captured in this run; captured were {', '.join(ports)}")
    packets = captures[ports.index(port)].packets
    location = location_of(fabric, port)
    rate_bps = next(rate for end, rate in fabric.ports() if end.interface == port)
    if np.isinf(rate_bps):
        raise InputFault(f"port {port} has no line rate, so no part of it is used: it is an aggregator's")
    edges_ns = iteration_ends_ns(plan, log, record.iterations)[record.warmup :]
    used = utilisation(packets, rate_bps, edges_ns[0] / 1e9, edges_ns[-1] / 1e9, bin_s)
    workers = np.flatnonzero((plan.rank_role == Role.WORKER) & (plan.rank_host == location.endpoint)).tolist()
    compute = compute_share(plan, log, workers, used.edges_s) if workers else None
    iterations = by_iteration(packets, rate_bps, edges_ns, bin_s)
    counted = (_bytes_counted(record, location.port), _bytes_counted(record, location.far_port))
    captured = (int(packets.line_bytes[packets.outbound].sum()), int(packets.line_bytes[~packets.outbound].sum()))
    shares = tuple(mine / max(1, theirs) for mine, theirs in zip(captured, counted, strict=True))
    return ShownUse(port, used, compute, tuple(iterations), (shares[0], shares[1]))


def _bytes_counted(record: PointRecord, port: str) -> int:
    """Line bytes by a port's counters: tc counts frames and their bytes without preamble, FCS and gap."""
    bands = [band for band in record.counts.bands if band.port == port]
    return sum(band.bytes_sent + PREAMBLE_FCS_GAP_BYTES * band.packets_sent for band in bands)


def use_table(
    use: ShownUse, plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord, capture: Capture
) -> TextTable:
    """One row per measured iteration, and one for all of them.

    Each row has three times: from barrier to barrier of all workers, of the port's own workers by their agents' logs,
    and of the same workers by packets alone.
    """
    times_s = iteration_times_s(plan, log, record.iterations)
    ranks = timed_workers(plan, location_of(fabric, use.port).endpoint or 0, capture.messages)
    own_s = worker_times_s(plan, log, record.iterations)[:, np.searchsorted(plan.workers, ranks)]
    captured_s = np.full_like(own_s, np.nan)
    captured_s[1:] = worker_periods_s(capture.messages, ranks, record.iterations)
    rows = [
        _row(str(number), (times_s[number], _mean(own_s[number]), _mean(captured_s[number])), part)
        for number, part in enumerate(use.iterations, record.warmup)
    ]
    measured = slice(record.warmup, None)
    means = times_s[measured].mean(), _mean(own_s[measured]), _mean(captured_s[measured])
    rows.append(_row("all", means, summary(use.used)))
    foot = [
        "times: of all workers, of those at this port, and theirs by packets alone; both: neither direction is used",
        f"line bytes by packets over those by counters: out {use.counted_share[0]:.4f}, in {use.counted_share[1]:.4f}",
    ]
    if use.compute is not None:
        idle = received_while_idle(use.used, use.compute)
        foot.append(f"GPU busy {use.compute.mean():.1%}; {idle:.1%} of inbound traffic came while it idled")
    about = (
        f"Use of {use.port} at {use.used.rate_bps / 1e9:g} Gbit/s; idle: bins of {use.used.bin_s * 1e3:g} ms below 1 %"
    )
    return TextTable(about, HEADERS, tuple(rows), 1, ("",) * len(rows), "; ".join(foot), GIVES_WAY)


def _mean(seconds: Float64) -> float:
    """The mean; NaN of an empty array."""
    return float(seconds.mean()) if seconds.size else math.nan


def _row(name: str, times_s: tuple[float, ...], part: UseSummary) -> tuple[str, ...]:
    out, into = part.outbound, part.inbound
    shares = (out.mean, into.mean, out.idle, into.idle, part.both_idle, part.overlap)
    return (
        name,
        *("" if math.isnan(time_s) else f"{time_s:.4f}" for time_s in times_s),
        *(f"{100 * share:.1f}" for share in shares),
    )


def save_use(use: ShownUse, plan: Plan, log: OpLog, record: PointRecord, folder: Path, title: str) -> Path:
    """Writes utilisation-<port>.png, .svg and .csv into `folder`; returns the chart's path."""
    name = f"utilisation-{use.port}"
    edges_ns = iteration_ends_ns(plan, log, record.iterations)
    save_chart(utilisation_chart(use.used, use.compute, edges_ns, title), folder, name)
    write_utilisation(folder / f"{name}.csv", use.used, use.compute)
    return folder / f"{name}.png"
