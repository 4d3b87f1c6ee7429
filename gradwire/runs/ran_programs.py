"""The run that a command names: one that has a plan, or programs that ran without one, as a point of a scenario or by `gradwire exec`,
and what they left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gradwire.analysis.packets.capture_files import CapturedPackets, read_capture
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.datatypes.pauses import PAUSES_FILE, PauseEvents
from gradwire.datatypes.records import CAPTURE_FOLDER
from gradwire.faults import InputFault
from gradwire.files import without_links
from gradwire.inside.program_protocol import TASK_FILE
from gradwire.network.fabric import Fabric
from gradwire.programs.execution import SUMMARY_FILE, ProgramRunSummary
from gradwire.runs.program_work import judge_program_run, read_summary, refuse_unsound
from gradwire.runs.stored.network_soundness import refuse_unsound_pauses
from gradwire.runs.stored.run_files import fitting, read_message, reading
from gradwire.runs.stored.run_folder import RUNS, SCENARIO_FILE, named_programs, named_run
from gradwire.runs.stored.soundness import sound_fabric
from gradwire.runs.stored.stored_run import Completion, StoredRun
from gradwire.runs.stored.symbolic_links import refuse_links
from gradwire.scenario.program_scenarios import ProgramPoint

MOST_PACKETS = 1_000_000
"""Largest number of packets in a trace, which Perfetto shows: a line of 100 bytes each."""
REMEDY = "`gradwire exec` writes it anew"


class _Task(msgspec.Struct):
    """The part of task.json that is needed."""

    fabric: str


@dataclass(frozen=True)
class Executed:
    """The folder of a `gradwire exec`."""

    folder: Path

    @property
    def label(self) -> str:
        """Name of the folder."""
        return without_links(self.folder).name

    def summary(self) -> ProgramRunSummary:
        """Reads the summary of the programs' run. Raises InputFault for a file that cannot be read."""
        path, fabric = self.folder / SUMMARY_FILE, self.fabric()
        with reading(path, REMEDY):
            summary = read_message(path, ProgramRunSummary)
            refuse_unsound(summary, (), fabric)
        return summary

    def verdict(self) -> None:
        """Returns None: `gradwire exec` itself says whether the network worked as it should."""

    def fabric(self) -> Fabric:
        """Reads the network that the programs ran on. Raises InputFault for a file that cannot be read."""
        path = self.folder / TASK_FILE
        with reading(path, REMEDY):
            return sound_fabric(read_message(path, _Task).fabric)

    def captures(self) -> dict[str, CapturedPackets]:
        """Reads the captured packets of each port. Raises InputFault where nothing was captured, or too much to be shown."""
        fabric = self.fabric()
        ports = {port.interface for port, _ in fabric.ports()}
        files = sorted((self.folder / CAPTURE_FOLDER).glob("*.pcapng"))
        files = [file for file in files if file.stem in ports]
        if not files:
            raise InputFault(
                f"{self.folder}: holds no captured packets, of which the trace of a `gradwire exec` consists; run it again with "
                "--capture h1, or all"
            )
        captures: dict[str, CapturedPackets] = {}
        count = 0
        for file in files:
            captures[file.stem] = read_capture(file, fabric.mtu_bytes, start_ns=0).packets
            count += len(captures[file.stem].time_ns)
            if count > MOST_PACKETS:  # the other files are not read: there may be any number
                raise InputFault(
                    f"{self.folder}: a trace shows {MOST_PACKETS:,} packets, and more were captured; open the files in "
                    f"{self.folder / CAPTURE_FOLDER} with Wireshark, or capture fewer ports"
                )
        return captures


@dataclass(frozen=True)
class RanPoint:
    """A point of programs that came to its end."""

    stored: StoredRun[ProgramPoint]
    point: ProgramPoint
    completion: Completion

    @property
    def folder(self) -> Path:
        """Folder of the point's run."""
        return self.stored.folder

    @property
    def label(self) -> str:
        """The point in a few words."""
        return self.stored.label

    def summary(self) -> ProgramRunSummary:
        """Reads the summary of the programs' run. Raises InputFault for a file that cannot be read."""
        with fitting(self.folder):
            return read_summary(self.stored, self.point)

    def verdict(self) -> Verdict:
        """Judges the run. Raises InputFault for a file that cannot be read."""
        with fitting(self.folder):
            return judge_program_run(self.stored, self.point, self.completion).verdict

    def fabric(self) -> Fabric:
        """The network that the programs ran on."""
        return self.point.fabric

    def pauses(self) -> PauseEvents:
        """Reads every pause while the programs ran. Raises InputFault for a network that does not pause, and for a file
        that cannot be read."""
        if self.point.fabric.lossless is None:
            raise InputFault(
                f"{self.folder}: holds a run of programs, of which a trace has the pauses of fabric.lossless, and this network has "
                "none; programs have no plan"
            )
        path = self.folder / PAUSES_FILE
        with fitting(self.folder), reading(path):
            events = PauseEvents.load(path)
            refuse_unsound_pauses(events, self.point.fabric)
        return events


RanPrograms = Executed | RanPoint
"""Programs that ran without a plan."""


def find_run(run: Path, point: str, iteration: int | None) -> StoredRun | RanPrograms:
    """Finds the run that a command names by its folder and its point: one that has a plan, or programs. Raises InputFault if there is none,
    and for a point or an iteration that programs do not have."""
    if (executed := executed_in(run)) is not None:
        if point:
            raise InputFault(
                f"{executed.folder}: holds a run of `gradwire exec`, which has no points; leave {point!r} out"
            )
        _refuse_iteration(iteration)
        return executed
    if (programs := named_programs(run, point)) is not None:
        _refuse_iteration(iteration)
        return _ended(programs)
    return named_run(run, point)


def _refuse_iteration(iteration: int | None) -> None:
    if iteration is not None:
        raise InputFault(f"--iteration {iteration}: programs have no iterations; leave it out")


def _ended(stored: StoredRun[ProgramPoint]) -> RanPoint:
    point, completion = stored.point, stored.completion()
    if point is None or completion is None:
        raise InputFault(f"{stored.folder}: this point has not come to its end; `gradwire run` completes the folder")
    return RanPoint(stored, point, completion)


def executed_in(run: Path) -> Executed | None:
    """The `gradwire exec` whose folder is at a path, or of that name in runs/; None if none is. Raises InputFault for one of a Mininet
    script, of which nothing is counted, and for links in it."""
    for folder in (run, RUNS / run):
        if (folder / SCENARIO_FILE).exists():
            return None
        if (folder / SUMMARY_FILE).is_file() and (folder / TASK_FILE).is_file():
            refuse_links(folder)
            with reading(folder / TASK_FILE, REMEDY):
                if "script" in read_message(folder / TASK_FILE, dict[str, Any]):
                    raise InputFault(
                        f"{folder}: holds a run of a Mininet script, of which nothing is counted or captured; its outputs are "
                        f"in {folder / 'output'}, and `gradwire exec` and labs capture packets"
                    )
            return Executed(folder)
    return None
