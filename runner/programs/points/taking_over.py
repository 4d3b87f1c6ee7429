"""Points of programs that ran before in other run folders, copied so that they need not run again."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Sequence
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.runner.programs.points.judged import is_complete, judge_programs
from gradwire.runner.programs.points.planned import PlannedPrograms
from gradwire.runner.stored.run_folder import RUNS


def take_over_programs(planned: Sequence[PlannedPrograms]) -> int:
    """Copies valid points with the same keys from other folders of runs/; returns how many.

    What else lies in the folder of a point that is replaced is removed: figures of another run would be read as this one's.
    """
    taken = 0
    for point in planned:
        if _is_result(point.folder, point):
            continue
        for there in sorted(RUNS.glob(f"*/points/{glob.escape(point.folder.name)}")):
            if there.resolve() != point.folder.resolve() and _is_result(there, point):
                shutil.rmtree(point.folder, ignore_errors=True)
                shutil.copytree(there, point.folder)
                taken += 1
                break
    return taken


def _is_result(folder: Path, point: PlannedPrograms) -> bool:
    """Whether a valid run of the point lies in a folder. One that is damaged concerns only those who read it."""
    try:
        return is_complete(folder, point.key) and judge_programs(point.point, folder).valid
    except InputFault:
        return False
