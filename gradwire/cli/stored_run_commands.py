"""Commands that read run folders, with their arguments and help: `report`, `diff`, `why`, `trace` and `utilisation`.

What they do is in stored_runs.py, which is imported when one of them is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="print JSON and nothing else")]
RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        readable=False,
        help="run folder, or the name of one in runs/; no code that it names is run, and no link in it is followed",
    ),
]
PointName = Annotated[
    str,
    typer.Argument(
        metavar="POINT", help="a point's folder or a unique part of its name, or key=value,... of points.csv"
    ),
]
OptionalPointName = Annotated[
    str,
    typer.Argument(
        metavar="[POINT]",
        help="a point's folder or a unique part of its name, or key=value,... of points.csv; not needed for a run of one "
        "point, or of `gradwire exec`",
    ),
]
IterationNumber = Annotated[int | None, typer.Option(help="number of the iteration; default: the slowest measured one")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""

    @app.command()
    def report(
        run_path: RunPath,
        out: Annotated[Path | None, typer.Option(help="folder for the report; default: the run folder")] = None,
        open_it: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
    ) -> None:
        """Writes and prints the report of a run folder again, without running anything, whichever version of gradwire ran
        it."""

        from gradwire.cli import stored_runs

        stored_runs.report(run_path, out, open_it=open_it)

    @app.command()
    def diff(
        first: RunPath,
        second: RunPath,
        fail_if: Annotated[
            list[str] | None,
            typer.Option(
                help='end with status 1 if a point changed so, e.g. "iteration_time > 1%"; may be given again'
            ),
        ] = None,
        every: Annotated[bool, typer.Option("--all", help="show points that did not change, too")] = False,
        as_json: AsJson = False,
    ) -> None:
        """Shows what changed from one run to another, point by point, and why; of two reproductions, claim by claim as
        well."""

        from gradwire.cli import stored_runs

        stored_runs.diff(first, second, fail_if or [], every=every, as_json=as_json)

    @app.command()
    def why(
        run_path: RunPath,
        point: OptionalPointName = "",
        iteration: IterationNumber = None,
        every: Annotated[bool, typer.Option("--all", help="print every segment of the path")] = False,
    ) -> None:
        """Shows where an iteration's time went: its critical path, divided into compute, network, stragglers and
        aggregation."""

        from gradwire.cli import stored_runs

        stored_runs.why(run_path, point, iteration, every=every)

    @app.command()
    def trace(
        run_path: RunPath,
        point: OptionalPointName = "",
        iteration: IterationNumber = None,
        out: Annotated[
            Path | None, typer.Option(help="file; default: trace-N.json in the point's folder; .gz compresses")
        ] = None,
        chakra: Annotated[
            Path | None,
            typer.Option(
                metavar="FOLDER", help="write the measured times there as a Chakra trace instead, one file per rank"
            ),
        ] = None,
        kineto: Annotated[
            Path | None,
            typer.Option(
                metavar="FOLDER",
                help="write them there as profiles of torch.profiler instead, for tools that read these",
            ),
        ] = None,
    ) -> None:
        """Exports one iteration as a timeline for ui.perfetto.dev: streams, send queues, receives, arrows, and the load of
        links."""

        from gradwire.cli import stored_runs

        if chakra is not None or kineto is not None:
            stored_runs.trace_of_ranks(run_path, point, iteration, out, chakra, kineto)
        else:
            stored_runs.trace(run_path, point, iteration, out)

    @app.command()
    def utilisation(
        run_path: RunPath,
        point: PointName,
        port: Annotated[str, typer.Option(help="captured port, e.g. h1-eth0; default: the first")] = "",
        bin_ms: Annotated[
            float | None, typer.Option(min=0.001, help="width of a bin in milliseconds; default: 10")
        ] = None,
    ) -> None:
        """Charts how a captured port was used over time, from its packets (captured with `--set run.capture=h1`)."""

        from gradwire.cli import stored_runs

        stored_runs.utilisation(run_path, point, port, bin_ms and bin_ms / 1e3)
