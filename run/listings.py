"""What the commands that only tell something show: plans, strategies, calibrations, what a machine lacks, and critical paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gradwire.analysis.path.critical_path import critical_path
from gradwire.analysis.path.tables import MOST_LINES, contributions_table, parts_table, path_table
from gradwire.analysis.report.tables import rich_table
from gradwire.faults import InputFault
from gradwire.run.calibrate import Calibration
from gradwire.run.outcome import Prepared
from gradwire.run.stored.named_point import StoredPoint
from gradwire.vm.doctor import Finding
from gradwire.workloads.registry import strategy, strategy_names, strategy_origins
from gradwire.workloads.summary import summary_lines


def plan_lines(prepared: Prepared) -> Iterator[str]:
    """A point and its compiled plans, in rich's markup."""
    chosen, job = prepared.compiled.strategy, prepared.compiled.job
    yield f"[bold]{escape(prepared.label)}[/bold]  {escape(chosen.summary)} [dim]({escape(chosen.source)})[/dim]"
    yield f"  compute {job.compute_s:.4f} s an iteration: {escape(job.compute.source)}"
    for label, compiled in prepared.plans.items():
        yield f"  plan '{escape(label)}', digest {compiled.digest()}"
        for line in summary_lines(compiled, prepared.fabric):
            yield f"    {escape(line)}"


def strategy_lines() -> Iterator[str]:
    """Every strategy with its origin and options, in rich's markup. Raises InputFault after them for all that do not load."""
    faults = []
    for name in strategy_names():
        origin = ", ".join(strategy_origins(name))
        try:
            found = strategy(name)
        except InputFault as fault:
            faults.append(str(fault))
            continue
        fields = found.options.model_fields.items()
        options = (f"{key} unset" if f.default is None else f"{key} = {json.dumps(f.default)}" for key, f in fields)
        yield f"[bold]{escape(name)}[/bold]  {escape(found.summary)}"
        yield f"  [dim]{escape(found.source)}; from {escape(origin)}[/dim]"
        yield f"  options: {escape(', '.join(options) or 'none')}"
    if faults:
        raise InputFault("\n".join(faults))


def calibration_table(result: Calibration) -> Table:
    """Measured beside ideal times, and what a low class gets beside a high one."""
    table = Table(title=f"{result.hosts} hosts, {result.rate_bps / 1e9:g} Gbit/s, {result.clock} clock")
    for column in ("pattern", "measured", "ideal", "ratio"):
        table.add_column(column, justify="left" if column == "pattern" else "right")
    for name, pattern in result.patterns.items():
        table.add_row(name, f"{pattern.measured_s:.6f} s", f"{pattern.ideal_s:.6f} s", f"{pattern.ratio:.4f}")
    for name, share in result.low_share.items():
        table.add_row(f"priority at a {name}", f"low class {share:.4%}", "0 %", "")
    return table


def findings_table(findings: Sequence[Finding]) -> Table:
    """What is there and what is missing, with the commands that mend it."""
    table = Table()
    for column in ("", "what", "found", "to mend"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        missing = "[red]✗[/red]" if finding.required else "[yellow]-[/yellow]"
        table.add_row("[green]✓[/green]" if finding.ok else missing, finding.name, finding.detail, finding.mend)
    return table


def invalid_notice(stored: StoredPoint) -> Iterator[Text]:
    """One line if the point's verdict is not valid, to be told before any of its numbers."""
    if not stored.verdict.valid:
        yield Text(f"{stored.verdict.summary}: its times are no results", style="red")


def critical_path_shown(stored: StoredPoint, iteration: int | None, *, every: bool) -> Iterator[RenderableType]:
    """An iteration's critical path, its parts and what contributes most; `every` segment or the longest.

    Without an iteration it is the slowest that was measured. Raises InputFault for one that there is not.
    """
    path = critical_path(stored.plan, stored.log, stored.iteration(iteration), stored.fabric)
    slowest = ", the slowest that was measured" if path.iteration == stored.slowest_iteration() else ""
    yield Text(f"{stored.label}: iteration {path.iteration}{slowest}, {path.duration_ns / 1e9:.6f} s", style="bold")
    yield from invalid_notice(stored)
    for table in (parts_table(path), contributions_table(path), path_table(path, None if every else MOST_LINES)):
        yield rich_table(table)
    yield Text(path.sentence(), style="bold")
