"""The commands of the command line for work that users bring: programs, and traces of jobs. Their arguments and their
help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from gradwire.scenario.scenario_files import scenario_names

PROGRAM = "program"


class WithProgram(typer.core.TyperCommand):
    """A command whose line ends in another's: what follows `--` is left as it is, in the context's `meta`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the words before the program."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[PROGRAM] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Pieces of the usage line, with the place of the program."""
        return [*super().collect_usage_pieces(ctx), "-- PROGRAM [ARGS]..."]


def _scenarios_like(begun: str) -> list[str]:
    return [name for name in scenario_names() if name.startswith(begun)]


NetworkOf = Annotated[
    Path | None,
    typer.Argument(
        metavar="SCENARIO",
        show_default=False,
        readable=False,
        help="scenario whose network it is, with Python files as in `run`; or none, and --workers and --rate",
        autocompletion=_scenarios_like,
    ),
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="key=value of a scenario, e.g. fabric.delay=1ms")]
Workers = Annotated[int | None, typer.Option(min=1, help="number of hosts on one switch, without a scenario")]
Rate = Annotated[str | None, typer.Option(help="line rate of a host, e.g. 10gbit")]
LeafSpine = Annotated[bool, typer.Option("--leaf-spine", help="two leaves and two spines instead of one switch")]
Oversubscription = Annotated[
    float | None, typer.Option(help="of the leaves' uplinks, e.g. 4 for 4:1; implies --leaf-spine")
]
Rdma = Annotated[str, typer.Option(help="each host's RDMA device: rxe (RoCEv2) or siw (iWARP), without a scenario")]
CpuTime = Annotated[
    float,
    typer.Option(
        metavar="FACTOR",
        help="how much virtual time computation takes, as a multiple of the CPU time that this machine counts for it; runs "
        "then differ by what it counts. Computation takes none by default",
    ),
]
Memory = Annotated[str | None, typer.Option(help="for all hosts together, e.g. 8G; default: the scenario's, or 3 GiB")]


def execute(
    context: typer.Context,
    scenario: NetworkOf = None,
    settings: Settings = None,
    workers: Workers = None,
    rate: Rate = None,
    leaf_spine: LeafSpine = False,
    oversubscription: Oversubscription = None,
    rdma: Rdma = "none",
    hosts: Annotated[str, typer.Option(help="hosts to run it on, e.g. h1,h4")] = "all",
    launch: Annotated[
        str,
        typer.Option(
            help="each: one process per host; torch: the same, with the environment that torchrun gives; mpi: one "
            "mpirun on the first host, which reaches the others without ssh"
        ),
    ] = "each",
    warm_imports: Annotated[
        str,
        typer.Option(
            help="modules, e.g. torch,numpy, that are imported once for all hosts' programs, which then start as "
            "forks; for `python SCRIPT`"
        ),
    ] = "",
    memory: Memory = None,
    time_limit: Annotated[str, typer.Option(help="virtual time after which programs are ended, e.g. 30s")] = "1h",
    wall_limit: Annotated[
        str | None, typer.Option(help="the same in wall time, e.g. 5min; default: the scenario's, or 30 min")
    ] = None,
    stall_limit: Annotated[
        str, typer.Option(help="wall time that programs may compute while no virtual time passes, e.g. 5min")
    ] = "20s",
    output_limit: Annotated[
        str | None,
        typer.Option(help="what is kept of all that programs write, e.g. 4G; the rest is dropped. default: 1 GiB"),
    ] = None,
    cpu_time: CpuTime = 0.0,
    capture: Annotated[
        list[str] | None,
        typer.Option(help="write this port's packets to a file: h1, s1-eth2 or all; may be given again"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(readable=False, help="run folder; default: a new one in runs/, named after the program"),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="for root: the user who runs everything from then on, so that programs have no other rights"),
    ] = None,
    gpus: Annotated[
        int, typer.Option(metavar="N", help="GPUs of each host: stand-ins, on which RCCL 2.13 runs unmodified")
    ] = 0,
    gpu: Annotated[str, typer.Option(help="which GPUs: mi50, mi100, mi210 or mi250x (one of its two dies)")] = "mi250x",
    gpu_data: Annotated[
        bool,
        typer.Option(
            "--gpu-data",
            help="GPUs really move and compute data; otherwise large collectives, copies and products only take time and are invented",
        ),
    ] = False,
) -> None:
    """Runs a program of your own, unmodified, on the hosts of an emulated network, and says what the network
    carried."""
    from gradwire.cli import user_programs
    from gradwire.runs.launch.network_size import NetworkOptions

    size = NetworkOptions(scenario, tuple(settings or ()), workers, rate, leaf_spine, oversubscription, rdma)
    limits = user_programs.ProgramLimits(memory, time_limit, wall_limit, stall_limit, output_limit, cpu_time)
    wanted = user_programs.UserProgram(context.meta[PROGRAM], hosts, launch, warm_imports, user, gpus, gpu, gpu_data)
    user_programs.execute_program(size, wanted, limits, capture or [], out)


def shell(
    scenario: NetworkOf = None,
    settings: Settings = None,
    workers: Workers = None,
    rate: Rate = None,
    leaf_spine: LeafSpine = False,
    oversubscription: Oversubscription = None,
    rdma: Rdma = "none",
    memory: Memory = None,
) -> None:
    """Opens a command line on an emulated network, like Mininet's, whose clock stands still while you think."""
    from gradwire.cli import user_programs
    from gradwire.runs.launch.network_size import NetworkOptions

    user_programs.shell(
        NetworkOptions(scenario, tuple(settings or ()), workers, rate, leaf_spine, oversubscription, rdma), memory
    )


class WithScript(typer.core.TyperCommand):
    """A command whose line ends in a script and the script's arguments, which are left as they are, in `meta`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the words before the script's arguments."""
        left = super().parse_args(ctx, args)
        ctx.meta[PROGRAM] = tuple(ctx.args)
        return left

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Pieces of the usage line, with the place of the script's arguments."""
        return [*super().collect_usage_pieces(ctx), "[ARGS]..."]


class WithMn(typer.core.TyperCommand):
    """A command all of whose line is Mininet's `mn`'s, but for --help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keeps all words for mn, unless the only one is `--help`."""
        is_help = args == ["--help"]
        ctx.meta[PROGRAM] = () if is_help else tuple(args)
        return super().parse_args(ctx, args if is_help else [])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Pieces of the usage line, with the place of mn's arguments."""
        return [*super().collect_usage_pieces(ctx), "[ARGS OF MN]..."]


def mininet(
    context: typer.Context,
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", show_default=False, help="Mininet script (.py), or mn for Mininet's own")
    ],
    rate: Annotated[str, typer.Option(help="line rate of links to which the script gives none")] = "10gbit",
    python: Annotated[
        str | None, typer.Option(help="Python to run it with, e.g. python3; default: gradwire's own, with its Mininet")
    ] = None,
    memory: Memory = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            help="virtual time after which it is ended, e.g. 30s", show_default="1h; none where lines are typed"
        ),
    ] = None,
    wall_limit: Annotated[str | None, typer.Option(help="the same in wall time, e.g. 5min; default: 30 min")] = None,
    stall_limit: Annotated[
        str, typer.Option(help="wall time that it may compute while no virtual time passes, e.g. 5min")
    ] = "20s",
    output_limit: Annotated[
        str | None,
        typer.Option(help="what is kept of all that it writes, e.g. 4G; the rest is dropped. default: 1 GiB"),
    ] = None,
    cpu_time: CpuTime = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(readable=False, help="run folder; default: a new one in runs/, named after the script"),
    ] = None,
) -> None:
    """Runs an unmodified Mininet script in virtual time, at true line rates and without root."""
    from gradwire.cli import user_programs

    limits = user_programs.ScriptLimits(
        rate, python, memory, time_limit, wall_limit, stall_limit, output_limit, cpu_time
    )
    user_programs.run_mininet(script, list(context.meta[PROGRAM]), limits, out)


def mn(context: typer.Context) -> None:
    """Runs a command line of Mininet's `mn` in virtual time: gradwire mn --topo linear,4 --test pingall.

    `gradwire mn -h` lists what mn takes. For options of gradwire's own: gradwire mininet --rate 1gbit mn --test iperf.
    """
    from gradwire.cli import user_programs

    user_programs.run_mininet("mn", list(context.meta[PROGRAM]), user_programs.ScriptLimits(), None)


def import_traces(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            show_default=False,
            readable=False,
            help="one file per rank, or folders of them: Kineto profiles and PyTorch execution traces (.json, "
            ".json.gz), Chakra traces (.et), logs of NCCL, its Inspector, RCCL or DeepSpeed; or one of all ranks: GOAL "
            "schedules, workloads of SimAI, algorithms of MSCCL (.xml)",
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
            help='JSON with the ranks of process groups by name: {"1": [0, 1]}, or {"1": [[0, 1], [2, 3]]} '
            "for one name of several groups",
        ),
    ] = None,
    element_bytes: Annotated[
        int | None,
        typer.Option(min=1, max=16, help="bytes of an element, where sizes are counts of elements of an unknown type"),
    ] = None,
    flop_rate: Annotated[
        str | None, typer.Option(help="of a device, e.g. 150TFLOP/s, where traces have operations and no durations")
    ] = None,
    other_communication: Annotated[
        str,
        typer.Option(
            metavar="computes|left-out",
            help="what becomes of kernels of a Kineto profile that communicate without NCCL",
        ),
    ] = "computes",
    buffer: Annotated[
        str | None,
        typer.Option(help="of an algorithm of MSCCL: size of the larger of what comes in and goes out, e.g. 64MiB"),
    ] = None,
) -> None:
    """Reads traces of a training job, says what it assumed, and makes a workload that scenarios can name
    (model.trace)."""

    from gradwire.cli import trace_import

    said = trace_import.TraceOptions(ranks, step, groups, element_bytes, flop_rate, other_communication, buffer)
    trace_import.import_traces(traces, out, said)


def record(
    context: typer.Context,
    world_size: Annotated[int, typer.Option(min=2, help="ranks of the job")],
    device: Annotated[
        str | None,
        typer.Option(help="device that computes, one of `gradwire devices` that has a rate, e.g. h100"),
    ] = None,
    flop_rate: Annotated[
        str | None, typer.Option(help="the rate itself, in place of a device, e.g. 150TFLOP/s")
    ] = None,
    ranks: Annotated[
        str,
        typer.Option(
            "--ranks", "--rank", help="ranks to run the script as, e.g. the first of each stage of a pipeline: 0,8,16"
        ),
    ] = "0",
    gpus_per_host: Annotated[int, typer.Option(min=1, help="for LOCAL_RANK and LOCAL_WORLD_SIZE")] = 8,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="steps of the optimizer after which the script is ended; default: as soon as two after the first are alike, "
            "at most 8. Without an optimizer: the number of equal parts that its calls make",
        ),
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="compute large tensors as well, where the script decides by what they hold")
    ] = False,
    time_limit: Annotated[str, typer.Option(help="wall time of each rank, e.g. 1h")] = "10min",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", readable=False, help="default: a folder in traces/, named after the script"),
    ] = None,
) -> None:
    """Runs a PyTorch script as one rank of a job of any size, on a CPU and without a network, and makes a workload of what
    it would have communicated and computed."""

    from gradwire.cli import script_recording

    asked = script_recording.RecordingOptions(
        context.meta[PROGRAM], world_size, ranks, gpus_per_host, iterations, values, time_limit
    )
    script_recording.record_script(asked, device, flop_rate, out)


def add_to(app: typer.Typer) -> None:
    """Adds the commands to a command line."""
    app.command("exec", cls=WithProgram)(execute)
    app.command()(shell)
    app.command(cls=WithScript, context_settings={"allow_extra_args": True, "allow_interspersed_args": False})(mininet)
    app.command(cls=WithMn)(mn)
    app.command("import")(import_traces)
    app.command(cls=WithProgram)(record)
