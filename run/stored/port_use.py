"""How a captured port of a point that has run was used: the chart and the table, from what the point's folder holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradwire.analysis.report.tables import TextTable
from gradwire.analysis.utilisation.report import port_use, save_use, use_table
from gradwire.run.stored.files import load_captures
from gradwire.run.stored.named_point import StoredPoint


@dataclass(frozen=True)
class Shown:
    """What was made. chart: the PNG; an SVG and the bins as CSV are beside it."""

    table: TextTable
    chart: Path


def use_of_port(stored: StoredPoint, port: str, bin_s: float) -> Shown:
    """Charts a captured port of a point, the first one if `port` is "". Raises InputFault if it was not captured."""
    plan, log, record = stored.plan, stored.log, stored.record
    captures = load_captures(stored.folder, stored.fabric, record)
    names = [about.port for about in record.captures]
    chosen = port or next(iter(names), "")
    use = port_use(plan, stored.fabric, log, record, captures, chosen, bin_s)
    chart = save_use(use, plan, log, record, stored.folder, f"{stored.label}: {chosen}")
    return Shown(use_table(use, plan, stored.fabric, log, record, captures[names.index(chosen)]), chart)
