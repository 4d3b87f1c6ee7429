"""What a report says of each point beside its numbers: where an iteration's time went, and how a captured port was used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.path.critical_path import critical_path
from gradwire.analysis.report.charts import svg_text
from gradwire.analysis.utilisation.chart import utilisation_chart
from gradwire.analysis.utilisation.line_use import BIN_S
from gradwire.analysis.utilisation.report import port_use
from gradwire.runner.stored.named_run import slowest_iteration
from gradwire.runner.stored.stored_run import StoredRun


@dataclass(frozen=True)
class Explanation:
    """What is known of a run that came to its end."""

    #: One sentence on the critical path of the slowest iteration.
    why: str = ""
    #: Chart of a captured port as SVG, and the port's name; both "" where none was captured.
    drawing: str = ""
    port: str = ""


def explain(stored: StoredRun) -> Explanation:
    """Explains a run that came to its end. Raises InputFault for a file that cannot be read."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    slowest = slowest_iteration(plan, log, record)
    why = critical_path(plan, log, slowest, fabric, record.faults, stored.short_windows()).sentence()
    rates = {end.interface: rate_bps for end, rate_bps in fabric.ports()}
    # An aggregator's port has no line rate, and so no use to draw.
    ports = [about.port for about in record.captures if np.isfinite(rates[about.port])]
    if not ports:
        return Explanation(why)
    captures = stored.captures(fabric, record)
    use = port_use(plan, fabric, log, record, captures, ports[0], BIN_S)
    edges_ns = iteration_ends_ns(plan, log, record.iterations)
    return Explanation(why, svg_text(utilisation_chart(use.used, use.compute, edges_ns, "")), ports[0])
