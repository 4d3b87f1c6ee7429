"""How a captured port of a run was used: the chart and the table, from what the run left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradwire.analysis.report.tables import TextTable
from gradwire.analysis.utilisation.line_use import BIN_S
from gradwire.analysis.utilisation.report import PortUse as CapturedUse
from gradwire.analysis.utilisation.report import port_use, save_use, use_table
from gradwire.runner.stored.files import fitting
from gradwire.runner.stored.stored_run import StoredRun


def captured_use(stored: StoredRun, port: str = "", bin_s: float = BIN_S) -> CapturedUse:
    """How a captured port was used, the first one if `port` is "". Raises InputFault if it was not captured."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    chosen = port or next((capture.port for capture in record.captures), "")
    with fitting(stored.folder):
        return port_use(plan, fabric, log, record, stored.captures(fabric, record), chosen, bin_s)


@dataclass(frozen=True)
class PortUse:
    """What was made of a port's packets."""

    table: TextTable
    #: The chart as PNG; an SVG and the bins as CSV lie beside it.
    chart: Path


def write_port_use(stored: StoredRun, port: str, bin_s: float) -> PortUse:
    """Charts a captured port into the run's folder, the first port if `port` is "". Raises InputFault if it was not captured."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    captures = stored.captures(fabric, record)
    names = [capture.port for capture in record.captures]
    chosen = port or next(iter(names), "")
    with fitting(stored.folder):
        use = port_use(plan, fabric, log, record, captures, chosen, bin_s)
        chart = save_use(use, plan, log, record, stored.folder, f"{stored.label}: {chosen}")
        return PortUse(use_table(use, plan, fabric, log, record, captures[names.index(chosen)]), chart)
