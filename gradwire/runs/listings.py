"""Output of commands that run no points: calibrations, a machine's deficiencies, critical paths, and the timeline of an
iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from gradwire.analysis.congestion_report import congestion_lines
from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.pause_report import pause_events
from gradwire.analysis.report.terminal_tables import TerminalTable
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.timeline.critical_path import critical_path
from gradwire.analysis.timeline.path_tables import MOST_LINES, contributions_table, parts_table, path_table
from gradwire.analysis.timeline.trace import Event, network_process, trace_events, write_trace
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.runs.calibrate import Calibration
from gradwire.runs.judged import verdict_of
from gradwire.runs.stored.files import fitting
from gradwire.runs.stored.run_folder import chosen_iteration, slowest_iteration
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.vm.doctor import Finding


def calibration_table(result: Calibration) -> TextTable:
    """Measured and ideal times, and the share that a low class gets while a high one sends."""
    rows = (
        *(
            (name, f"{pattern.measured_s:.6f} s", f"{pattern.ideal_s:.6f} s", f"{pattern.ratio:.4f}")
            for name, pattern in result.patterns.items()
        ),
        *((f"priority at a {name}", f"low class {share:.4%}", "0 %", "") for name, share in result.low_share.items()),
    )
    title = f"{result.hosts} hosts, {result.rate_bps / 1e9:g} Gbit/s, {result.clock} clock"
    return TextTable(title, ("pattern", "measured", "ideal", "ratio"), rows, 1, ("",) * len(rows))


FINDING_MARKS = {"good": "✓", "bad": "✗", "doubtful": "-"}
"""Marks of findings, by their tone."""


def findings_table(findings: Sequence[Finding]) -> TextTable:
    """Table of what a machine has and lacks, with the commands that fix it."""
    tones = tuple("good" if found.ok else "bad" if found.required else "doubtful" for found in findings)
    rows = tuple(
        (FINDING_MARKS[tone], found.name, found.detail, found.mend) for tone, found in zip(tones, findings, strict=True)
    )
    return TextTable("", ("", "what", "found", "to fix"), rows, 4, tones, toned=0)


def invalid_notice(stored: StoredRun) -> Iterator[Text]:
    """One line if the run's verdict is not valid, to be shown before any of its numbers."""
    return unless_valid(verdict_of(stored))


def unless_valid(verdict: Verdict) -> Iterator[Text]:
    """One line if a verdict is not valid."""
    if not verdict.valid:
        yield Text(f"{verdict.summary}: its times are not results", style="red")


def critical_path_shown(stored: StoredRun, iteration: int | None, *, every: bool) -> Iterator[RenderableType]:
    """An iteration's critical path, its parts and its largest contributions; `every` segment of the path, or the
    longest.

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
    yield from map(TerminalTable, tables)
    yield Text(sentence, style="bold")
    yield from map(Text, queues)


@dataclass(frozen=True)
class Timeline:
    """The events of an iteration in the trace event format; or those of programs, which have no iterations."""

    label: str
    iteration: int | None
    #: Summary of the run's verdict.
    verdict: str
    events: Sequence[Event]

    def write(self, path: Path) -> None:
        """Writes the timeline as JSON, compressed if the name ends in .gz."""
        iteration = {} if self.iteration is None else {"iteration": str(self.iteration)}
        write_trace(path, self.events, {"point": self.label, **iteration, "verdict": self.verdict})

    @property
    def file_name(self) -> str:
        """Default name of the file."""
        return "trace.json" if self.iteration is None else f"trace-{self.iteration}.json"

    @property
    def what(self) -> str:
        """Name of the iteration or of the point, in words."""
        return self.label if self.iteration is None else f"iteration {self.iteration} of {self.label}"


def timeline_of(stored: StoredRun, iteration: int | None) -> Timeline:
    """The timeline of an iteration, by default the slowest measured one. Raises InputFault for a number that the run
    does not have."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    with fitting(stored.folder):
        verdict = verdict_of(stored)
        chosen = chosen_iteration(iteration, stored.label, plan, log, record)
        events = trace_events(plan, log, chosen, fabric, Spines(fabric).spine_of, faults=record.faults)
        if (pauses := stored.pauses()) is not None:
            begin_ns, end_ns = iteration_ends_ns(plan, log, chosen + 1)[chosen:].tolist()
            events += pause_events(pauses, fabric, begin_ns, end_ns, network_process(plan))
    return Timeline(stored.label, chosen, verdict.summary, events)
