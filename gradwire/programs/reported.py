"""Reads what programs reported: their figures from the files that they left in a folder, and what the network did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradwire.analysis.program_results import READERS, FigureRow
from gradwire.analysis.verdict.network_checks import NetworkState
from gradwire.datatypes.records import PlannedFault
from gradwire.faults import InputFault
from gradwire.inside.program_protocol import Report, figures_file, output_file, place_name
from gradwire.network.fabric import Fabric
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import TABLE_BYTES, read_text
from gradwire.scenario.sections.program import ProgramSection, hosts_of


def network_state(report: Report, fabric: Fabric, faults: Sequence[PlannedFault] = ()) -> NetworkState:
    """The network at the end of a run of programs, for its checks. faults: those that the scenario asks for."""
    return NetworkState(fabric, report.counts, report.host_parameters, report.pauses, faults)


def reported(
    programs: Mapping[str, ProgramSection],
    fabric: Fabric,
    folder: Path,
    statuses: Mapping[str, int],
    dropped_output_bytes: int = 0,
) -> tuple[tuple[FigureRow, ...], list[str]]:
    """The figures of all programs, and the reasons why others cannot be read.

    statuses: by program and host (`place_name`), of programs that ended by themselves. One that was ended with the
    others, such as a server, has printed no report, or not to the end. dropped_output_bytes: bytes of all outputs that
    were not kept.
    """
    rows: list[FigureRow] = []
    wrong: list[str] = []
    names = fabric.host_names()
    for name, program in programs.items():
        for host in (names[index] for index in hosts_of(program, names)):
            place = place_name(name, host)
            file = _source(program, folder, place)
            ended = statuses.get(place) == 0
            if program.figures != "lines" and not ended:
                continue
            if program.figures != "lines" and dropped_output_bytes:
                wrong.append(
                    f"{file}: {dropped_output_bytes:,} bytes of programs' outputs were not kept, which may be of its "
                    "report"
                )
                continue
            try:
                with reading_budget(file):
                    found = READERS[program.figures](_text(file, place in statuses))
            except (InputFault, OSError) as fault:
                wrong.append(f"{file}: {fault}")
                continue
            rows += [FigureRow(name, host, row) for row in found]
    return tuple(rows), wrong


def _source(program: ProgramSection, folder: Path, place: str) -> Path:
    return figures_file(folder, place) if program.figures == "lines" else output_file(folder, place, 1)


def _text(file: Path, ended: bool) -> str:
    """Text of a report. A program that was ended from outside may have been in the middle of the last line, which is
    left out."""
    text = read_text(file, TABLE_BYTES, errors="replace") if file.exists() else ""
    return text if ended else text[: text.rfind("\n") + 1]
