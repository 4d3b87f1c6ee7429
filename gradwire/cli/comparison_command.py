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
Rate = Annotated[
    str | None, typer.Option(help="line rate of a host, e.g. 10gbit; with --gpus of each NIC, by default 400gbit")
]
Gpus = Annotated[
    int | None,
    typer.Option(
        help="instead of --workers: searches the ways to divide a large model among this many GPUs, and estimates the best"
    ),
]
MachineGpus = Annotated[
    int | None, typer.Option(min=1, help="with --gpus: GPUs of a machine, each with a NIC; default: 8")
]
Seq = Annotated[
    int | None, typer.Option(min=1, max=1 << 24, help="with --gpus: tokens of a sample; default: the model's")
]
GlobalBatch = Annotated[
    int | None, typer.Option(min=1, help="with --gpus: samples of an iteration; default: what makes 16 M tokens")
]
Memory = Annotated[str | None, typer.Option(help="with --gpus: memory of a GPU, e.g. 76GiB; default: the device's")]
Run = Annotated[
    int | None,
    # At most as many as are shown.
    typer.Option("--run", min=1, max=10, help="with --gpus: also runs so many of the fastest by packets, in part"),
]
Copies = Annotated[
    int | None,
    typer.Option(
        min=2,
        max=1024,
        help="with --run: copies of each class of ranks that run, such as replicas; default: as few as can stand for all",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="with --gpus: print JSON")]
Device = Annotated[
    str | None, typer.Option(help="GPU, or a device file; default: the first that has a time for the model")
]
IterationTime = Annotated[
    str | None, typer.Option(help="time of an iteration of one worker alone, e.g. 350ms, instead of a device's")
]
Servers = Annotated[int | None, typer.Option(help="parameter servers, on the workers' hosts; default: one per worker")]
Strategies = Annotated[list[str] | None, typer.Option("--strategy", help="only this one; may be given again")]
LeafSpine = Annotated[bool, typer.Option("--leaf-spine", help="two leaves and two spines instead of one switch")]
Oversubscription = Annotated[
    float | None, typer.Option(help="of the leaves' uplinks, e.g. 4 for 4:1; implies --leaf-spine")
]
Seeds = Annotated[int, typer.Option(min=2, help="number of seeds that strategies with random orders run with")]
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
        rate: Rate = None,
        model: Name = None,
        trace: Trace = None,
        workers: Workers = None,
        gpus: Gpus = None,
        machine_gpus: MachineGpus = None,
        seq: Seq = None,
        global_batch: GlobalBatch = None,
        memory: Memory = None,
        run: Run = None,
        copies: Copies = None,
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
        as_json: AsJson = False,
    ) -> None:
        """Ranks every strategy on a model and network, ways to train a large model, divisions of it among thousands of
        GPUs, or algorithms for a recorded job."""
        from gradwire.cli import running
        from gradwire.cli.division_search import ByPackets, asked_of, refuse_others, search_divisions
        from gradwire.faults import InputFault
        from gradwire.runs.comparing.questions import AskedNetwork, QuestionOptions, question_of
        from gradwire.runs.executing.executor_choice import Where

        given = QuestionOptions(workers, parallel, gpus_per_host, device, iteration_time, servers)
        of_search: dict[str, object] = {"--machine-gpus": machine_gpus, "--seq": seq, "--global-batch": global_batch}
        of_search |= {"--memory": memory, "--json": as_json, "--run": run, "--copies": copies}
        if gpus is not None:
            of_others: dict[str, object] = {"--trace": trace, "--strategy": strategies, "--leaf-spine": leaf_spine}
            of_others |= {"--oversubscription": oversubscription, "--estimate-first": estimate_first}
            given.refuse_all_but("--gpus", "device")
            refuse_others(of_others, "with --gpus")
            question = asked_of(model, gpus, rate, device, of_search, tuple(settings or ()))
            by_packets = ByPackets(run, copies, Where(jobs, executor, scheduler))
            search_divisions(question, by_packets, out, as_json=as_json)
            return
        refuse_others(of_search, "without --gpus")
        if rate is None:
            raise InputFault("give --rate, the line rate of a host, e.g. --rate 10gbit")
        network = AskedNetwork(rate, leaf_spine, oversubscription)
        compared = question_of(model, trace, network, given, tuple(settings or ()))
        where = Where(jobs, executor, scheduler)
        running.compare(compared, strategies or [], seeds, where, out, estimate_first=estimate_first)
