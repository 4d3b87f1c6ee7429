"""The command that reads traces of training jobs: `import`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from gradwire.analysis.report.text_table import TextTable
from gradwire.cli import terminal
from gradwire.faults import InputFault
from gradwire.files import as_one_set, replace_text, without_links
from gradwire.runs.launch.place import refuse_run_folder, writing
from gradwire.runs.stored.stored_run import VERDICT_FILE
from gradwire.workloads import units
from gradwire.workloads.traces.group_files import read_groups, split_names
from gradwire.workloads.traces.record import ImportFinding, OtherCommunication, Reading, Watch
from gradwire.workloads.traces.trace_import import Imported, WorkloadSummary
from gradwire.workloads.traces.trace_import import import_traces as read_traces
from gradwire.workloads.traces.workload import FILE_NAME

FOLDER = Path("traces")
MOST_REASONS = 40
"""Refusals that are printed."""
RATE = "25gbit"
"""Line rate of the scenario that is written next to a workload."""


@dataclass(frozen=True)
class TraceOptions:
    """Options for facts that traces do not contain."""

    ranks: int | None
    step: int | None
    groups: Path | None
    element_bytes: int | None
    flop_rate: str | None
    other_communication: str = OtherCommunication.COMPUTES
    buffer: str | None = None

    def reading(self) -> Reading:
        """Parses the options. Raises InputFault."""
        flops_per_s = None
        if self.flop_rate is not None:
            try:
                flops_per_s = units.FLOP_RATE.parse(self.flop_rate)
            except ValueError as error:
                raise InputFault(f"--flop-rate {self.flop_rate}: {error}") from error
            if flops_per_s <= 0:
                raise InputFault(f"--flop-rate {self.flop_rate}: must be above 0")
        others = [str(other) for other in OtherCommunication]
        if self.other_communication not in others:
            raise InputFault(f"--other-communication {self.other_communication}: must be {' or '.join(others)}")
        buffer_bytes = None
        if self.buffer is not None:
            try:
                buffer_bytes = units.size_bytes(self.buffer)
            except ValueError as error:
                raise InputFault(f"--buffer {self.buffer}: {error}") from error
        groups = {} if self.groups is None else read_groups(self.groups, f"--groups {self.groups}")
        one, several = split_names(groups)
        other = OtherCommunication(self.other_communication)
        return Reading(self.ranks, self.element_bytes, one, flops_per_s, self.step, several, other, buffer_bytes)


def import_traces(traces: Sequence[Path], out: Path | None, said: TraceOptions) -> None:
    """`gradwire import`."""
    paths = _files(traces)
    folder = out or FOLDER / _name(paths[0])
    refuse_run_folder(folder)
    reading = said.reading()
    with terminal.interruptible("interrupted: nothing was written"), progress() as watch:
        imported = read_traces(paths, _name(folder), reading, watch)
    keep(imported, folder)


def keep(imported: Imported, folder: Path) -> None:
    """Writes the workload that was made of traces to a folder, with a scenario to begin with, and prints it. Raises
    InputFault if no workload was made."""
    with writing(folder), as_one_set(folder):
        imported.write(folder)
        if imported.workload is not None and not _scenario_file(folder).exists():  # which may have been edited
            _write_scenario(folder, imported.workload.ranks)
    _show(imported)
    if imported.workload is None:
        raise InputFault(
            f"no workload was made of the traces, because it would be a guess:\n{_reasons(imported, folder)}"
        )
    terminal.name_files(
        {"workload": folder / FILE_NAME, "verdict": folder / VERDICT_FILE, "scenario": _scenario_file(folder)}
    )


def _reasons(imported: Imported, folder: Path) -> str:
    """Why there is no workload, one line each; where there are very many, the first, and where the others are."""
    lines = [finding.words for finding in imported.refusals[:MOST_REASONS]]
    more = len(imported.refusals) - len(lines)
    return "\n".join([*lines, *([f"and {more:,} more, which {folder / VERDICT_FILE} has"] if more else [])])


def _files(traces: Sequence[Path]) -> list[Path]:
    """Files, and those in folders by name. Raises InputFault for paths that do not exist."""
    files: list[Path] = []
    for path in traces:
        if not path.exists():
            raise InputFault(f"{path}: no such file")
        inside = (
            sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
            if path.is_dir()
            else [path]
        )
        if not inside:
            raise InputFault(f"{path}: the folder has no files")
        files += inside
    return files


def _name(path: Path) -> str:
    """A file's or folder's name without endings."""
    return re.sub(r"\.(json|gz|et|xml)\b", "", without_links(path).name).strip(".") or "trace"


def _scenario_file(folder: Path) -> Path:
    """Path of the scenario. Runs of it are then in a folder of the workload's name."""
    return folder / f"{_name(folder)}.toml"


def _write_scenario(folder: Path, ranks: int) -> None:
    """A scenario to begin with: the recorded workload on one switch."""
    document = {
        "title": f"{_name(folder)}, as it was recorded",
        "cluster": {"workers": ranks},
        "fabric": {"rate": RATE},
        "model": {"name": _name(folder), "trace": FILE_NAME},
        "strategy": {"name": "replay"},
    }
    replace_text(_scenario_file(folder), tomli_w.dumps(document))


@contextmanager
def progress() -> Iterator[Watch]:
    """A bar for each file, in a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=terminal.errors, transient=True, disable=not terminal.errors.is_terminal
    ) as progress:
        bars = {}

        def watch(path: Path, done: int, total: int) -> None:
            if path not in bars:
                bars[path] = progress.add_task(escape(path.name), total=total)
            progress.update(bars[path], completed=done, total=total)

        yield watch


def _show(imported: Imported) -> None:
    """Prints the contents of the traces, the assumptions of the reading, and the contents of the workload."""
    for source in imported.sources:
        rank = "" if source.rank is None else f" of rank {source.rank}"
        _line(f"read: {source.file}: {source.format}{rank}, {source.calls:,} communications")
    for line in _grounds(imported):
        _line(f"rests on: {line}")
    if imported.summary is not None:
        terminal.show(_table(imported.summary))
        for line in _foot(imported.summary):
            _line(line)


def _grounds(imported: Imported) -> Iterator[str]:
    """Yields the assumptions that the reading rests on. An assumption in several files is one line, with the place in
    the first."""
    alike: dict[str, list[ImportFinding]] = {}
    for finding in imported.findings:
        if not finding.refused:
            alike.setdefault(finding.what, []).append(finding)
    for findings in alike.values():
        others = len(findings) - 1
        more = f"; likewise in {others} more file{'s' if others > 1 else ''}" if others else ""
        yield findings[0].words + more


def _line(text: str) -> None:
    terminal.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _table(summary: WorkloadSummary) -> TextTable:
    rows = tuple(
        (
            row.kind,
            "" if row.number is None else f"{row.number}",
            row.group,
            f"{row.calls:,}",
            f"{row.size_bytes / 1e6:,.6f}",
            "" if row.recorded_s is None else f"{row.recorded_s:.6f}",
        )
        for row in summary.rows
    )
    headers = ("communication", "group", "ranks", "calls", "MB", "recorded (s)")
    return TextTable(f"{summary.ranks} ranks", headers, rows, 3, ("",) * len(rows))


def _foot(summary: WorkloadSummary) -> Iterator[str]:
    if summary.compute_s is None:
        yield "computation: not recorded"
    else:
        least, most = summary.compute_s
        yield (
            f"computation: {most:.6f} s per rank"
            if least == most
            else f"computation: {least:.6f} to {most:.6f} s per rank"
        )
    for file, exposed_s in summary.exposed_s.items():
        yield f"exposed communication: {exposed_s:.6f} s as recorded in {file}"
    if not summary.exposed_s:
        yield "exposed communication: not recorded"
