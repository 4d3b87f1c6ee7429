"""Where programs leave their figures: a file per program and host, whose name is in the program's environment."""

from __future__ import annotations

from pathlib import Path

FIGURES_VARIABLE = "GRADWIRE_FIGURES"
FIGURES_FOLDER = "figures"


def figures_file(folder: Path, place: str) -> Path:
    """The file of a program on a host (`place_name`) in a run folder: lines of JSON, each an object with a row of figures."""
    return folder / FIGURES_FOLDER / f"{place}.jsonl"


def make_figures_folders(folder: Path, places: list[str]) -> None:
    """Makes the folders that the files of these programs lie in."""
    for place in places:
        figures_file(folder, place).parent.mkdir(parents=True, exist_ok=True)
