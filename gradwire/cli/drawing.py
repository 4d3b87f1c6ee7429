"""The networks of a scenario as files: `gradwire plan --draw`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from gradwire.analysis.report.charts import DPI, STYLE, svg_text
from gradwire.analysis.report.network_drawing import different_networks, network_drawing
from gradwire.cli import terminal
from gradwire.datatypes.fabric import Fabric
from gradwire.faults import InputFault
from gradwire.files import replace_text, replacing
from gradwire.runs.launch.place import writing

KINDS = (".svg", ".png", ".pdf")


def refuse_other_kinds(file: Path) -> None:
    """Raises InputFault for a file whose name does not say what to write."""
    if file.suffix not in KINDS:
        raise InputFault(f"--draw {file}: the name must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}")


def draw(file: Path, fabrics: Sequence[Fabric]) -> None:
    """Draws each network once: the first into `file`, the others into files with a number. Prints their names."""
    for number, fabric in enumerate(different_networks(fabrics), 1):
        path = file if number == 1 else file.with_stem(f"{file.stem}-{number}")
        figure = network_drawing(fabric)
        with writing(path), mpl.rc_context(STYLE):
            if path.suffix == ".svg":
                replace_text(path, svg_text(figure))
            else:
                with replacing(path) as partial:
                    figure.savefig(partial, format=path.suffix[1:], dpi=DPI, bbox_inches="tight", facecolor="white")
        terminal.name_files({"network": path})
