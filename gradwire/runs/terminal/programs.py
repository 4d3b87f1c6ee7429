"""What a terminal shows of points of programs while they run."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from gradwire.analysis.programs.results import ProgramResult
from gradwire.runs.program_points.planned import PlannedPrograms


def tell_ended(console: Console, point: PlannedPrograms, result: ProgramResult, reused: bool) -> None:
    """A line for a point that has ended."""
    if not result.valid:
        first_line, _, _ = result.verdict.summary.partition("\n")
        console.print(f"[red]✗[/red] {escape(point.label)}: {escape(first_line)}", highlight=False)
        return
    how = "already there" if reused else f"{result.wall_s:.0f} s of wall time"
    rows = f"{len(result.figures)} {'row' if len(result.figures) == 1 else 'rows'} of figures"
    console.print(
        f"[green]✓[/green] {escape(point.label)}: {result.duration_s or 0.0:.6f} s of virtual time, {rows} ({how})",
        highlight=False,
    )
