"""The output of `gradwire why`: where an iteration's time went, and for programs, which have no plan, what the network carried while they
ran."""

from __future__ import annotations

from collections.abc import Iterator

from gradwire.analysis.busy_lines import busiest_line, line_in_words
from gradwire.analysis.congestion_report import congestion_lines
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.pause_report import pause_lines, paused_longest
from gradwire.analysis.port_traffic import ports_traffic
from gradwire.analysis.report.text_table import Part, TextLine
from gradwire.analysis.timeline.limits import sharers_table
from gradwire.analysis.timeline.path_tables import MOST_LINES, contributions_table, parts_table, path_table
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.cli.traffic_tables import BUSIEST_SHOWN, pauses_table, ports_table
from gradwire.inside.program_protocol import how_it_ended
from gradwire.programs.execution import ProgramRunSummary
from gradwire.runs.advice import advice_lines, advice_of
from gradwire.runs.judged import verdict_of
from gradwire.runs.ran_programs import RanPrograms
from gradwire.runs.stored.explanation import path_of
from gradwire.runs.stored.run_files import fitting
from gradwire.runs.stored.run_folder import SCENARIO_FILE, slowest_iteration
from gradwire.runs.stored.stored_run import StoredRun


def explain(found: StoredRun | RanPrograms, iteration: int | None, *, every: bool) -> Iterator[Part]:
    """Explains an iteration of a run that has a plan, by default the slowest measured one, and otherwise what the network carried.

    every: whether to show every segment of the path, or every port, and not only those that matter most. Raises
    InputFault for an iteration that the run does not have, and for a file that cannot be read.
    """
    if isinstance(found, StoredRun):
        yield from _explain_iteration(found, iteration, every=every)
    else:
        yield from _explain_traffic(found, every=every)


def warn_if_invalid(verdict: Verdict) -> Iterator[TextLine]:
    """Yields a line if a verdict is not valid, to be shown before any number of its run."""
    if not verdict.valid:
        yield TextLine(f"{verdict.summary}: its times are not results", "bad")


def _explain_iteration(stored: StoredRun, iteration: int | None, *, every: bool) -> Iterator[Part]:
    """Yields an iteration's critical path, its parts and its largest contributions."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    path = path_of(stored, iteration)
    with fitting(stored.folder):
        slowest = ", the slowest that was measured" if path.iteration == slowest_iteration(plan, log, record) else ""
        notice = list(warn_if_invalid(verdict_of(stored)))
        tables = [parts_table(path), contributions_table(path), path_table(path, None if every else MOST_LINES)]
        if path.waited is not None and len(path.waited.use.sharers) > 1:
            tables.append(sharers_table(path.waited))
        queues = list(congestion_lines(fabric, record, stored.queues()))
        sentence = path.sentence()
        measured_s = float(iteration_times_s(plan, log, record.iterations)[record.warmup :].mean())
    of_jobs = ", ".join(f"{job.iterations} of job {job.name}" for job in plan.jobs)
    also = f" (the time of {of_jobs})" if of_jobs else ""
    yield TextLine(
        f"{stored.label}: iteration {path.iteration}{slowest}, {path.duration_ns / 1e9:.6f} s{also}", "strong"
    )
    yield from notice
    yield from tables
    yield TextLine(sentence, "strong")
    yield from map(TextLine, queues)
    yield from advice_lines(advice_of(stored, path), measured_s, str(stored.folder.parent.parent / SCENARIO_FILE))


def _explain_traffic(ran: RanPrograms, *, every: bool) -> Iterator[Part]:
    """Yields what ports carried while programs ran, and what is known besides."""
    summary, verdict, fabric = ran.summary(), ran.verdict(), ran.fabric()
    report = summary.report
    when = "from the start of the first program to the end of the last" if verdict else "of virtual time"
    yield TextLine(f"{ran.label}: {report.duration_s:.6f} s {when}", "strong")
    yield from warn_if_invalid(verdict) if verdict else _tell_failure(summary)
    ports = ports_traffic(fabric, report.counts)
    yield ports_table(fabric, ports, report.duration_s, None if every else BUSIEST_SHOWN)
    busiest = busiest_line(fabric, ports, report.duration_s)
    if busiest is not None:
        drops = sum(port.drops for port in ports)
        yield from map(TextLine, line_in_words(busiest, report.counts.tcp_retransmits, drops, fabric.routing))
    if verdict is None:
        return
    if fabric.lossless is not None and report.pauses is not None and paused_longest(report.pauses):
        yield TextLine("")
        yield pauses_table(fabric, report.pauses)
    yield from map(TextLine, pause_lines(fabric, report.pauses))


def _tell_failure(summary: ProgramRunSummary) -> Iterator[TextLine]:
    if summary.failed:
        yield TextLine(f"{summary.failed} {how_it_ended(summary.exit_status)}")
