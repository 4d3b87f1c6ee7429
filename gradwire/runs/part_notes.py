"""Notes in a report on points of which a part ran by packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwire.runs.compiling.part_of_job import PART_NOTE
from gradwire.runs.judged import JudgedRun
from gradwire.runs.stored.files import fitting


def notes_of_parts(runs: Sequence[JudgedRun[Any, Any]]) -> list[tuple[str, str]]:
    """Labels of points of which a part ran, with descriptions of the parts."""
    notes = []
    for run in runs:
        if run.completion is None or run.point.section.part is None:
            continue
        with fitting(run.folder):
            notes += [(run.label, note) for note in run.stored.plan().notes if note.startswith(PART_NOTE)]
    return notes
