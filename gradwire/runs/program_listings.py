"""`gradwire why` and `gradwire trace` for points of programs, which have no plan: the bytes that ports carried, and the
ports that paused others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from gradwire.analysis.pause_report import far_ends_of, pause_events, pause_lines, paused_longest
from gradwire.analysis.port_traffic import PortTraffic, busiest, ports_traffic
from gradwire.analysis.report.terminal_tables import TerminalTable
from gradwire.analysis.report.text_table import TextTable
from gradwire.datatypes.pauses import PAUSES_FILE, PauseEvents, PauseState
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.runs.listings import Timeline, unless_valid
from gradwire.runs.program_work import judge_program_run, read_summary
from gradwire.runs.stored.files import fitting, reading
from gradwire.runs.stored.network_soundness import refuse_unsound_pauses
from gradwire.runs.stored.stored_run import Completion, StoredRun
from gradwire.scenario.program_scenarios import ProgramPoint
from gradwire.workloads.units import rate_text

BUSIEST_SHOWN = 8
"""Ports in a table; summary.json has all."""
NETWORK = 1
"""The process of a trace that stands for the network."""


def ports_table(ports: Sequence[PortTraffic], duration_s: float, most: int | None = BUSIEST_SHOWN) -> TextTable:
    """The ports that carried most in so much time, or all."""
    shown = busiest(ports, most or len(ports))
    rows = tuple(
        (
            port.interface,
            rate_text(port.rate_bps),
            f"{port.line_bytes / 1e6:.3f}",
            f"{port.line_use(duration_s):.1%}",
            str(port.drops),
        )
        for port in shown
    )
    left = len(ports) - len(shown)
    foot = f"and {left} ports that carried less" if left > 0 else ""
    headers = ("port", "line rate", "on the line (MB)", "mean use", "drops")
    return TextTable("", headers, rows, 1, ("",) * len(rows), foot)


def pauses_table(fabric: Fabric, state: PauseState) -> TextTable:
    """Each class of each port that was paused, the longest first."""
    far_ends = far_ends_of(fabric)
    rows = tuple(
        (
            far_ends[count.port],
            count.port,
            str(count.band - 1),
            f"{count.pauses:,}",
            f"{count.paused_ns / 1e6:,.3f}",
            f"{count.most_bytes / 1e3:,.1f}",
            f"{count.most_headroom_bytes / count.headroom_bytes:.0%}" if count.headroom_bytes else "none",
        )
        for count in paused_longest(state)
    )
    headers = ("paused", "by", "class", "pauses", "for (ms)", "most waiting (KB)", "headroom")
    return TextTable("", headers, rows, 2, ("",) * len(rows))


def network_shown(stored: StoredRun[ProgramPoint], *, every: bool) -> Iterator[RenderableType]:
    """Yields a report of the traffic that the network carried while programs ran, and of the pauses of each class at
    each port. every: whether it has all ports, or only those that carried most.

    Raises InputFault if a file cannot be read.
    """
    point, completion = _ended(stored)
    with fitting(stored.folder):
        report, verdict = read_summary(stored, point).report, judge_program_run(stored, point, completion).verdict
    ran = f"{report.duration_s:.6f} s from the start of the first program to the end of the last"
    yield Text(f"{stored.label}: {ran}", style="bold")
    yield from unless_valid(verdict)
    yield TerminalTable(
        ports_table(ports_traffic(point.fabric, report.counts), report.duration_s, None if every else BUSIEST_SHOWN)
    )
    if point.fabric.lossless is not None and report.pauses is not None and paused_longest(report.pauses):
        yield Text("")
        yield TerminalTable(pauses_table(point.fabric, report.pauses))
    yield from map(Text, pause_lines(point.fabric, report.pauses))


def program_timeline(stored: StoredRun[ProgramPoint]) -> Timeline:
    """Every pause while programs ran. Raises InputFault for a network that does not pause."""
    point, completion = _ended(stored)
    if point.fabric.lossless is None:
        raise InputFault(
            f"{stored.folder}: holds a run of programs, of which a trace has the pauses of fabric.lossless, and this network has "
            "none; programs have no plan"
        )
    with fitting(stored.folder):
        report, verdict = read_summary(stored, point).report, judge_program_run(stored, point, completion).verdict
        events = _pauses(stored, point.fabric)
    end_ns = round(report.duration_s * 1e9)
    named = {"ph": "M", "name": "process_name", "pid": NETWORK, "tid": NETWORK, "args": {"name": "network: pauses"}}
    return Timeline(
        stored.label, None, verdict.summary, [named, *pause_events(events, point.fabric, 0, end_ns, NETWORK)]
    )


def _pauses(stored: StoredRun[ProgramPoint], fabric: Fabric) -> PauseEvents:
    path = stored.folder / PAUSES_FILE
    with reading(path):
        events = PauseEvents.load(path)
        refuse_unsound_pauses(events, fabric)
    return events


def _ended(stored: StoredRun[ProgramPoint]) -> tuple[ProgramPoint, Completion]:
    point, completion = stored.point, stored.completion()
    if point is None or completion is None:
        raise InputFault(f"{stored.folder}: this point has not come to its end; `gradwire run` completes the folder")
    return point, completion
