"""Explains each point of a report: where an iteration's time went, and how a captured port was used; with a chart of
the port."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.packets.line_use import BIN_S
from gradwire.analysis.report.charts import svg_text
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.report.utilisation import ShownUse as CapturedUse
from gradwire.analysis.report.utilisation import port_use, save_use, use_table, utilisation_chart
from gradwire.analysis.timeline.critical_path import CriticalPath, critical_path
from gradwire.runs.stored.run_files import fitting
from gradwire.runs.stored.run_folder import chosen_iteration, slowest_iteration
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import StoredRun


@dataclass(frozen=True)
class Explanation:
    """The explanation of a run that came to its end."""

    #: One sentence on the critical path of the slowest iteration.
    why: str = ""
    #: Chart of a captured port as SVG, and the port's name; both "" where none was captured.
    drawing: str = ""
    port: str = ""


def path_of(stored: StoredRun, iteration: int | None) -> CriticalPath:
    """The critical path of an iteration of a run, by default the slowest measured one. Raises InputFault for an iteration that it does not
    have, and for a file that cannot be read."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    with fitting(stored.folder):
        chosen = chosen_iteration(iteration, stored.label, plan, log, record)
        return critical_path(plan, log, chosen, fabric, record.faults, stored.short_windows(), Spines(fabric).spine_of)


def explain(stored: StoredRun) -> Explanation:
    """Explains a run that came to its end. Raises InputFault for a file that cannot be read, or does not belong to the
    others."""
    with fitting(stored.folder):
        return _explained(stored)


def _explained(stored: StoredRun) -> Explanation:
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    why = path_of(stored, slowest_iteration(plan, log, record)).sentence()
    rates = {end.interface: rate_bps for end, rate_bps in fabric.ports()}
    # An aggregator's port has no line rate, and so no use to draw.
    ports = [about.port for about in record.captures if np.isfinite(rates[about.port])]
    if not ports:
        return Explanation(why)
    captures = stored.captures(fabric, record)
    use = port_use(plan, fabric, log, record, captures, ports[0], BIN_S)
    edges_ns = iteration_ends_ns(plan, log, record.iterations)
    return Explanation(why, svg_text(utilisation_chart(use.used, use.compute, edges_ns, "")), ports[0])


def captured_use(stored: StoredRun, port: str = "", bin_s: float = BIN_S) -> CapturedUse:
    """Use of a captured port, the first one if `port` is "". Raises InputFault if it was not captured."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    chosen = port or next((capture.port for capture in record.captures), "")
    with fitting(stored.folder):
        return port_use(plan, fabric, log, record, stored.captures(fabric, record), chosen, bin_s)


@dataclass(frozen=True)
class PortUse:
    """Table and chart of a port's packets."""

    table: TextTable
    #: The chart as PNG; an SVG and the bins as CSV lie beside it.
    chart: Path


def write_port_use(stored: StoredRun, port: str, bin_s: float) -> PortUse:
    """Charts a captured port into the run's folder, the first port if `port` is "". Raises InputFault if it was not
    captured."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    captures = stored.captures(fabric, record)
    names = [capture.port for capture in record.captures]
    chosen = port or next(iter(names), "")
    with fitting(stored.folder):
        use = port_use(plan, fabric, log, record, captures, chosen, bin_s)
        chart = save_use(use, plan, log, record, stored.folder, f"{stored.label}: {chosen}")
        return PortUse(use_table(use, plan, fabric, log, record, captures[names.index(chosen)]), chart)
