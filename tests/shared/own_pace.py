"""Keeps what runs of tests learn of this machine's pace from its user's next announcement."""

from __future__ import annotations

from pathlib import Path

from gradwire.runs.lasting_pace import LastingPace


def learn_pace_in(folder: Path) -> None:
    """Makes this process keep the pace of its runs in a folder: machines of tests are busy, or simulated."""
    pace = LastingPace(folder / "pace.json")
    LastingPace.of_machine = staticmethod(lambda: pace)  # type: ignore[method-assign]
