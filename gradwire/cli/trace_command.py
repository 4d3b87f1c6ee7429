"""The command of the command line that brings traces of training jobs in: its arguments and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_traces(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            show_default=False,
            readable=False,
            help="one file per rank, or folders of them: Kineto profiles and PyTorch execution traces (.json, .json.gz), Chakra "
            "traces (.et)",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", readable=False, help="default: a folder in traces/, named after the first file"),
    ] = None,
    ranks: Annotated[int | None, typer.Option(min=1, help="number of ranks, where the traces do not say it")] = None,
    step: Annotated[int | None, typer.Option(min=0, help="only this step of a Kineto profile (ProfilerStep#N)")] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            readable=False,
            help='JSON with the ranks of process groups by name: {"1": [0, 1]}, or {"1": [[0, 1], [2, 3]]} for one name of several groups',
        ),
    ] = None,
    element_bytes: Annotated[
        int | None,
        typer.Option(min=1, max=16, help="bytes of an element, where sizes are counts of elements of an unknown type"),
    ] = None,
    flop_rate: Annotated[
        str | None, typer.Option(help="of a device, e.g. 150TFLOP/s, where traces have operations and no durations")
    ] = None,
) -> None:
    """Reads traces of a training job, says what the reading rests on, and makes a workload that scenarios can name (model.trace)."""
    from gradwire.cli import importing

    importing.import_traces(traces, out, importing.Said(ranks, step, groups, element_bytes, flop_rate))


def add_to(app: typer.Typer) -> None:
    """Adds the command to a command line."""
    app.command("import")(import_traces)
