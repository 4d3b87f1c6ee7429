"""The command that ranks strategies, as the command line has it: `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[str | None, typer.Option("--model", help="e.g. alexnet, llama3-70b, or a model file")]
Trace = Annotated[
    Path | None,
    typer.Option(
        help="instead of a model: a recorded job, as `gradwire import` made it; ranks algorithms for its collectives"
    ),
]
Workers = Annotated[
    int | None, typer.Option(help="number of workers, one per host; with --trace, a multiple of its ranks")
]
Parallel = Annotated[
    str | None,
    typer.Option(
        help="how a large model's workers are divided, instead of --workers: data=8,tensor=8; also pipeline=, "
        "context=, expert="
    ),
]
OnHost = Annotated[
    int | None,
    typer.Option(min=1, help="GPUs of a machine; default: with --parallel as many as tensor=, with --trace 1"),
]
Rate = Annotated[str, typer.Option(help="line rate of a host, e.g. 10gbit")]
Device = Annotated[
    str | None, typer.Option(help="GPU, or a device file; default: the first that has a time for the model")
]
IterationTime = Annotated[str | None, typer.Option(help="of one worker alone, e.g. 350ms, instead of a device's")]
Servers = Annotated[int | None, typer.Option(help="parameter servers, on the workers' hosts; default: one per worker")]
Strategies = Annotated[list[str] | None, typer.Option("--strategy", help="only this one; may be given again")]
LeafSpine = Annotated[bool, typer.Option("--leaf-spine", help="two leaves and two spines instead of one switch")]
Oversubscription = Annotated[float | None, typer.Option(help="of the leaves' uplinks; implies --leaf-spine")]
Seeds = Annotated[int, typer.Option(min=2, help="runs of strategies with random orders")]
EstimateFirst = Annotated[
    bool, typer.Option("--estimate-first", help="run only what may win by its estimate on an ideal network")
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="key=value of a scenario, e.g. run.fidelity=1%")]
Jobs = Annotated[int | None, typer.Option(min=1, help="points that run in parallel; default: one per core")]
ExecutorName = Annotated[str, typer.Option("--executor", help="local (this machine) or dask (a cluster's workers)")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="with --executor dask: the scheduler, e.g. tcp://10.0.0.1:8786, or the file that it wrote; default: a "
        "cluster of this machine",
    ),
]
RunFolder = Annotated[Path | None, typer.Option(readable=False, help="run folder; default: one in runs/")]


def add_to(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command()
    def compare(
        rate: Rate,
        model: Name = None,
        trace: Trace = None,
        workers: Workers = None,
        parallel: Parallel = None,
        gpus_per_host: OnHost = None,
        device: Device = None,
        iteration_time: IterationTime = None,
        servers: Servers = None,
        strategies: Strategies = None,
        leaf_spine: LeafSpine = False,
        oversubscription: Oversubscription = None,
        seeds: Seeds = 3,
        estimate_first: EstimateFirst = False,
        settings: Settings = None,
        jobs: Jobs = None,
        executor: ExecutorName = "local",
        scheduler: Scheduler = None,
        out: RunFolder = None,
    ) -> None:
        """Ranks every strategy on a model and network, ways to train a large model, or algorithms for a recorded
        job."""
        from gradwire.cli import running
        from gradwire.runs.comparing.questions import Given, Network, question_of
        from gradwire.runs.executing.choice import Where

        given = Given(workers, parallel, gpus_per_host, device, iteration_time, servers)
        network = Network(rate, leaf_spine, oversubscription)
        question = question_of(model, trace, network, given, tuple(settings or ()))
        where = Where(jobs, executor, scheduler)
        running.compare(question, strategies or [], seeds, where, out, estimate_first=estimate_first)
