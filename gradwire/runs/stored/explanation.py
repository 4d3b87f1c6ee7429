"""Explains each point of a report: where an iteration's time went, and how a captured port was used; with a chart of
the port."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gradwire.analysis.fault_effects import MeansAroundFaults
from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.job_times import logged_edges_s
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.packets.line_use import BIN_S
from gradwire.analysis.report.charts import svg_text
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.report.time_charts import BINS, MOST_LINES, MOST_PANELS, over_time_chart
from gradwire.analysis.report.utilisation import ShownUse as CapturedUse
from gradwire.analysis.report.utilisation import port_use, save_use, use_table, utilisation_chart
from gradwire.analysis.timeline.critical_path import CriticalPath, critical_path
from gradwire.analysis.timeline.line_traffic import LineTraffic
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import Int64, OpLog
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
    #: Chart of the busiest lines over time, and of iteration times where there were faults, as SVG; "" if it was not asked for.
    over_time: str = ""
    #: Mean iteration times before, during and after faults in words; "" without faults.
    fault_times: str = ""


def path_of(stored: StoredRun, iteration: int | None) -> CriticalPath:
    """The critical path of an iteration of a run, by default the slowest measured one. Raises InputFault for an iteration that it does not
    have, and for a file that cannot be read."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    with fitting(stored.folder):
        chosen = chosen_iteration(iteration, stored.label, plan, log, record)
        return critical_path(plan, log, chosen, fabric, record.faults, stored.short_windows(), Spines(fabric).spine_of)


def explain(stored: StoredRun, *, charted: bool = True) -> Explanation:
    """Explains a run that came to its end. charted: whether to draw it over time. Raises InputFault for a file that cannot be read, or does
    not belong to the others."""
    with fitting(stored.folder):
        found = _explained(stored)
        return replace(found, over_time=_over_time(stored) if charted else "", fault_times=_fault_times(stored))


def edges_of_jobs(plan: Plan, log: OpLog, iterations: int) -> dict[str, Int64]:
    """Times at which iterations began and ended, in nanoseconds, by job; "" stands for the only one."""
    if not plan.jobs:
        return {"": iteration_ends_ns(plan, log, iterations)}
    edges_s = logged_edges_s(plan, log, iterations)
    return {job.name: np.rint(edges * 1e9).astype(np.int64) for job, edges in zip(plan.jobs, edges_s, strict=True)}


def _over_time(stored: StoredRun) -> str:
    """The chart of a run over time as SVG; "" where nothing crossed the network and no fault happened."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    traffic = LineTraffic(LoggedOps.of(plan, log, record.faults), fabric, Spines(fabric).spine_of, record.faults)
    ends_ns = iteration_ends_ns(plan, log, record.iterations)
    first_ns, last_ns = int(ends_ns[0]), int(ends_ns[-1])
    bins_ns = np.unique(np.linspace(first_ns, last_ns, BINS + 1).astype(np.int64))
    busiest = traffic.busiest(first_ns, last_ns, fabric.hosts * 2 + 2 * len(fabric.trunk_links()))
    shown = busiest[:MOST_LINES]
    at_faults = set(traffic.lines_at_faults())
    for line in busiest[MOST_LINES:]:
        link = traffic.titles[line].partition(" ")[0]
        if line in at_faults and not any(traffic.titles[other].startswith(f"{link} ") for other in shown):
            shown.append(line)
    if not shown:
        return ""
    loads = [traffic.load(line, bins_ns) for line in shown[:MOST_PANELS]]
    edges_ns = edges_of_jobs(plan, log, record.iterations)
    return svg_text(over_time_chart(edges_ns, record.faults, loads, bins_ns))


def _fault_times(stored: StoredRun) -> str:
    record = stored.record()
    if not record.faults:
        return ""
    plan, words = stored.plan(), []
    for job, edges_ns in edges_of_jobs(plan, stored.log(), record.iterations).items():
        each = next((of_plan.iterations for of_plan in plan.jobs if of_plan.name == job), 1)
        times = MeansAroundFaults.of(edges_ns, record.warmup * each, record.faults)
        if times is not None:
            words.append(f"{f'job {job}: ' if job else ''}{times.in_words()}")
    return "; ".join(words)


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
