"""What commands show that run no points: settings and compiled plans, calibrations, what a machine lacks, and critical paths."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gradwire.analysis.congestion.told import congestion_lines
from gradwire.analysis.path.critical_path import critical_path
from gradwire.analysis.path.tables import MOST_LINES, contributions_table, parts_table, path_table
from gradwire.analysis.quantities import quantity
from gradwire.analysis.report.tables import rich_table
from gradwire.runs.calibrate import Calibration
from gradwire.runs.judged import verdict_of
from gradwire.runs.planned import PlannedRun
from gradwire.runs.stored.files import fitting
from gradwire.runs.stored.run_folder import chosen_iteration, slowest_iteration
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.scenario.effective import common_settings, used_settings
from gradwire.scenario.loading import Point, origin_named
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.vm.doctor import Finding
from gradwire.workloads.summary import summary_lines
from gradwire.workloads.values.units import SIZE


def calibration_table(result: Calibration) -> Table:
    """Measured and ideal times, and what a low class gets beside a high one."""
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


def invalid_notice(stored: StoredRun) -> Iterator[Text]:
    """One line if the run's verdict is not valid, to be shown before any of its numbers."""
    verdict = verdict_of(stored)
    if not verdict.valid:
        yield Text(f"{verdict.summary}: its times are not results", style="red")


def critical_path_shown(stored: StoredRun, iteration: int | None, *, every: bool) -> Iterator[RenderableType]:
    """An iteration's critical path, its parts and its largest contributions; `every` segment of the path, or the longest.

    The default is the slowest measured iteration. Raises InputFault for a number that the run does not have.
    """
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    with fitting(stored.folder):
        chosen = chosen_iteration(iteration, stored.label, plan, log, record)
        path = critical_path(plan, log, chosen, fabric, record.faults, stored.short_windows())
        slowest = ", the slowest that was measured" if path.iteration == slowest_iteration(plan, log, record) else ""
        notice = list(invalid_notice(stored))
        tables = [parts_table(path), contributions_table(path), path_table(path, None if every else MOST_LINES)]
        queues = list(congestion_lines(fabric, record, stored.queues()))
        sentence = path.sentence()
    yield Text(f"{stored.label}: iteration {path.iteration}{slowest}, {path.duration_ns / 1e9:.6f} s", style="bold")
    yield from notice
    yield from map(rich_table, tables)
    yield Text(sentence, style="bold")
    yield from map(Text, queues)


def shared_settings(points: Sequence[Point]) -> dict[str, str]:
    """The settings that all points have alike, defaults included. Raises InputFault for options that their strategy does not take."""
    return common_settings([_used_by(point) for point in points])


def _used_by(point: Point) -> dict[str, str]:
    with origin_named(point):
        return _used(point.resolved)


def _used(point: ResolvedPoint) -> dict[str, str]:
    """Every setting of a point, with the buffer of its sockets where the scenario leaves that to its network."""
    used = used_settings(point.section, point.options)
    return (
        used | {"transport.buffer": SIZE.text(point.buffer_bytes)} if point.section.transport.buffer is None else used
    )


def settings_lines(shared: Mapping[str, str], points: int) -> Iterator[str]:
    """The settings that all points share, a line for each section, in rich's markup."""
    whose = "the point" if points == 1 else f"all {points} points"
    yield f"[bold]settings of {whose}[/bold], defaults included"
    for section, members in itertools.groupby(shared.items(), key=lambda setting: setting[0].partition(".")[0]):
        yield f"  {escape(f'[{section}]')} {escape(_listed((key.partition('.')[2], text) for key, text in members))}"


def _listed(settings: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{key} = {text}" for key, text in settings)


def _senders(unsent_bytes: int | None) -> str:
    """When SENDs end, whoever says so."""
    if unsent_bytes is None:
        return "a message is sent when its last byte has left the host"
    return f"a message is sent when no more than {quantity(unsent_bytes, 'bytes')} of its connection wait unsent"


def plan_lines(planned: PlannedRun, shared: Mapping[str, str]) -> Iterator[str]:
    """A point with the settings that not all points share, and its compiled plans, in rich's markup."""
    resolved = planned.point.resolved
    chosen, job = resolved.strategy, resolved.job
    used = _used(resolved)
    own = {key: text for key, text in used.items() if key not in shared}
    yield f"[bold]{escape(planned.label)}[/bold]  {escape(chosen.summary)} [dim]({escape(chosen.source)})[/dim]"
    if own:
        yield f"  its own settings: {escape(_listed(own.items()))}"
    yield f"  compute {job.compute_s:.4f} s per iteration: {escape(job.compute.source)}"
    yield f"  {escape(_senders(planned.unsent_bytes))}"
    yield f"  iterations: {planned.window.warmup} of warm-up, {planned.window.iterations} measured"
    if planned.division.number > 1:
        yield f"  bytes and rates are divided by {planned.division.number}: off by up to {planned.division.error:.2%} of the iteration time"
    for label, plan in planned.plans.items():
        yield f"  plan '{escape(label)}', digest {plan.digest()}"
        for line in summary_lines(plan, planned.fabric):
            yield f"    {escape(line)}"
