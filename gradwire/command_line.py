"""The command line of gradwire, a thin layer with one function per command."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from gradwire import PACKAGE
from gradwire.analysis.compare import check_cells
from gradwire.analysis.papers import quick_score
from gradwire.analysis.papers.score import Evaluated
from gradwire.analysis.report.tables import rich_table
from gradwire.analysis.utilisation.line_use import BIN_S
from gradwire.faults import STATUSES, Fault, InputFault, MachineFault
from gradwire.run.calibrate import calibrate_fabric
from gradwire.run.campaign import Campaign
from gradwire.run.comparison import Question, plan_comparison
from gradwire.run.judged import JudgedRun, judge_stored, write_judgement
from gradwire.run.out_paths import refuse_unusable, refuse_unusable_file, writing
from gradwire.run.planned import PlannedRun, plan_runs, scale_warning, virtual_clock
from gradwire.run.proof import proof, trial_on
from gradwire.run.reporting import printed_cells, write_report
from gradwire.run.reproduce import Reproduction, judge_claims, wanted_scenarios, write_reproduction
from gradwire.run.stored.named_run import named_run
from gradwire.run.stored.point_folders import runs_of
from gradwire.run.stored.port_use import write_port_use
from gradwire.run.stored.run_folder import RUNS, run_folder, stored_clock, stored_scenario, write_run_folder
from gradwire.run.stored.timeline import timeline_of
from gradwire.run.terminal.listings import (
    calibration_table,
    critical_path_shown,
    findings_table,
    invalid_notice,
    plan_lines,
    strategy_lines,
)
from gradwire.run.terminal.progress import LiveProgress, kernel_progress
from gradwire.vm.doctor import diagnose
from gradwire.vm.kernel import build_kernel, cached_kernel, ensure_kernel, share_kernel
from gradwire.vm.machines import DEFAULT_MEMORY_MB, Clock
from gradwire.workloads.lineup import contenders
from gradwire.workloads.scenario.loading import Scenario, load_scenario
from gradwire.workloads.scenario.units import rate_bps

PURPOSE = "Measures what communication strategies do to distributed training, on real networks in virtual time."
SCENARIOS = PACKAGE / "scenarios"
PLAIN_COLUMNS = 120
"""Width of tables if the output is not a terminal."""

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help=PURPOSE, epilog=STATUSES, pretty_exceptions_enable=False
)
console = Console(width=None if sys.stdout.isatty() else PLAIN_COLUMNS)
errors = Console(stderr=True, soft_wrap=True)

Jobs = Annotated[int | None, typer.Option(min=1, help="points that run in parallel; default: one per core")]
RunFolder = Annotated[Path | None, typer.Option(help="run folder; default: one in runs/, named after what is run")]
ScenarioFile = Annotated[Path, typer.Argument(help="scenario file (TOML), or the name of one in scenarios/")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="key=value, e.g. fabric.rate=25gbit; a list is swept: cluster.workers=[2,4]; a list in a list sets one: "
        "strategy.options.thresholds=[[0.5]]",
    ),
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="run folder, or the name of one in runs/")]
PointName = Annotated[
    str,
    typer.Argument(
        metavar="POINT", help="a point's folder or a unique part of its name, or key=value,... of points.csv"
    ),
]
IterationNumber = Annotated[int | None, typer.Option(help="default: the slowest measured one")]
ClockName = Annotated[str, typer.Option(help="virtual (exact, no root) or wall (this machine's kernel, needs root)")]
Scale = Annotated[int, typer.Option(min=1, help="wall clock: divide bytes and rates by this")]


def _scenario_path(path: Path) -> Path:
    built_in = SCENARIOS / f"{path.name.removesuffix('.toml')}.toml"
    if path.exists():
        return path
    if path.name != str(path) or not built_in.exists():
        names = sorted(file.stem for file in SCENARIOS.glob("*.toml"))
        near = difflib.get_close_matches(path.stem, names, 1)
        hint = f"; did you mean '{near[0]}'? There are" if near else " among:"
        raise InputFault(f"{path}: no such file, and no such scenario{hint} {', '.join(names)}")
    return built_in


def _clock(name: str, scale: int) -> Clock:
    if name not in ("virtual", "wall"):
        raise InputFault(f"--clock {name}: must be virtual or wall")
    if name == "virtual" and scale != 1:
        raise InputFault("--scale belongs to --clock wall: the virtual clock chooses its own")
    return Clock(name, scale)


def _virtual(loaded: Scenario) -> Clock:
    """Returns the virtual clock at the scale that the scenario's networks need, and warns if that is not 1."""
    clock = virtual_clock(loaded.points)
    if clock.scale > 1:
        errors.print(f"WARNING: {scale_warning(loaded.points, clock)}")
    return clock


def _ensure_kernel() -> None:
    if kernel := cached_kernel():
        share_kernel(kernel)
    else:
        with kernel_progress(errors) as show_step:
            ensure_kernel(show_step)


@contextmanager
def _interruptible(message: str) -> Iterator[None]:
    """Ends the command with status 130 and a one-line message on Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        errors.print(message)
        raise typer.Exit(130) from None


@contextmanager
def _watched(points: int) -> Iterator[LiveProgress]:
    message = "interrupted; what was complete is kept, and the same command goes on from there"
    with LiveProgress(console, points) as progress, _interruptible(message):
        yield progress


@app.command()
def run(
    scenario: ScenarioFile,
    settings: Settings = None,
    jobs: Jobs = None,
    out: RunFolder = None,
    clock: ClockName = "virtual",
    scale: Scale = 1,
) -> None:
    """Runs a scenario's points and reports on them; resumes a run folder where it stopped."""
    chosen = _clock(clock, scale)
    loaded = load_scenario(_scenario_path(scenario), settings or [])
    chosen = _virtual(loaded) if chosen.name == "virtual" else chosen
    folder = out or RUNS / loaded.name
    refuse_unusable(folder)
    check_cells([point.parameters for point in loaded.points], printed_cells(loaded))
    _run(loaded, plan_runs(loaded.points, folder, chosen), folder, chosen, jobs)


def _run(loaded: Scenario, planned: list[PlannedRun], folder: Path, clock: Clock, jobs: int | None) -> None:
    if clock.name == "virtual":
        _ensure_kernel()
    with writing(folder):
        write_run_folder(folder, loaded, clock)
    parallel = 1 if clock.name == "wall" else min(jobs or len(os.sched_getaffinity(0)), len(planned))
    with _watched(len(planned)) as progress:
        runs = Campaign(planned, folder, parallel, progress, trial_on(clock)).run()
    _report(loaded, runs, folder)
    if not all(judged.result.valid for judged in runs):
        raise typer.Exit(1)


@app.command()
def compare(
    model_name: Annotated[str, typer.Option("--model", help="e.g. alexnet, resnet50, bert-large")],
    workers: Annotated[int, typer.Option(help="number of workers, one per host")],
    rate: Annotated[str, typer.Option(help="line rate of a host, e.g. 10gbit")],
    device: Annotated[str | None, typer.Option(help="GPU; default: the first that has a time for the model")] = None,
    iteration_time: Annotated[
        str | None, typer.Option(help="of one worker alone, e.g. 350ms, instead of a device's")
    ] = None,
    servers: Annotated[
        int | None, typer.Option(help="parameter servers, on the workers' hosts; default: one per worker")
    ] = None,
    strategies: Annotated[
        list[str] | None, typer.Option("--strategy", help="only this one; may be given again")
    ] = None,
    leaf_spine: Annotated[
        bool, typer.Option("--leaf-spine", help="two leaves and two spines instead of one switch")
    ] = False,
    oversubscription: Annotated[float | None, typer.Option(help="of the leaves' uplinks; implies --leaf-spine")] = None,
    seeds: Annotated[int, typer.Option(min=2, help="runs of strategies with random orders")] = 3,
    settings: Settings = None,
    jobs: Jobs = None,
    out: RunFolder = None,
) -> None:
    """Runs every strategy on one model and network, and ranks them."""
    question = Question(
        model_name, workers, rate, device, iteration_time, servers, leaf_spine, oversubscription, tuple(settings or ())
    )
    chosen = contenders(strategies or [])
    folder = out or RUNS / question.name
    refuse_unusable(folder)
    loaded, planned = plan_comparison(question, chosen, seeds, folder)
    _run(loaded, planned, folder, _virtual(loaded), jobs)


def _report(scenario: Scenario, runs: Sequence[JudgedRun], folder: Path) -> None:
    with writing(folder):
        shown = write_report(scenario, runs, folder)
    console.print(shown)
    _name_files({"report": folder / "report.html", "chart": folder / "chart.png", "rows": folder / "points.csv"})


def _name_files(files: dict[str, Path]) -> None:
    """Prints one line per file. Lines are never wrapped, so that each path can be copied."""
    for what, path in files.items():
        console.print(f"{what}: {path}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def plan(scenario: ScenarioFile, settings: Settings = None) -> None:
    """Compiles and checks every point of a scenario and prints the plans, without running them."""
    loaded = load_scenario(_scenario_path(scenario), settings or [])
    for planned in plan_runs(loaded.points, RUNS / loaded.name, Clock()):
        console.print(*plan_lines(planned), sep="\n", highlight=False)


@app.command()
def strategies() -> None:
    """Lists the strategies that a scenario can name, including those of installed packages, with their options and defaults."""
    for line in strategy_lines():
        console.print(line, highlight=False)


@app.command()
def calibrate(
    hosts: Annotated[int, typer.Option(min=3, help="hosts on one switch")] = 8,
    rate: Annotated[str, typer.Option(help="line rate, e.g. 10gbit")] = "10gbit",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
    clock: ClockName = "virtual",
    scale: Scale = 1,
) -> None:
    """Measures how close traffic patterns come to their ideal times, and whether priorities are strict."""
    try:
        line_rate_bps = rate_bps(rate)
    except ValueError as error:
        raise InputFault(f"--rate: {error}") from error
    chosen = _clock(clock, scale)
    if chosen.name == "virtual":
        _ensure_kernel()
    with _interruptible("interrupted"), errors.status("calibrating") as status:
        trial_on(chosen)(DEFAULT_MEMORY_MB)
        result = calibrate_fabric(hosts, line_rate_bps, chosen, lambda name: status.update(f"calibrating: {name} done"))
    if as_json:
        print(json.dumps(result.as_dict(), indent=1))
    else:
        console.print(calibration_table(result))


@app.command()
def doctor() -> None:
    """Lists what is there and what is missing, with the command that fixes it, then boots the kernel and sends a flow as proof."""
    with _interruptible("interrupted"), errors.status("looking around, booting the kernel, sending a flow"):
        findings = diagnose()
        findings.append(proof(findings))
    console.print(findings_table(findings))
    if not all(finding.ok for finding in findings if finding.required):
        raise typer.Exit(MachineFault.exit_status)


@app.command()
def report(run_path: RunPath) -> None:
    """Writes and prints the report of a run folder again, without running anything, whichever version of gradwire ran it."""
    folder = run_folder(run_path)
    loaded = stored_scenario(folder)
    clock = stored_clock(folder)
    runs = []
    for point, stored in zip(loaded.points, runs_of(folder, loaded.points), strict=True):
        runs.append(judge_stored(stored, point, clock))
        with writing(folder):
            write_judgement(runs[-1])
    _report(loaded, runs, folder)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="papers or scenarios, e.g. geryon p3-fig7; default: all")
    ] = None,
    jobs: Jobs = None,
    out: Annotated[Path | None, typer.Option(help="folder of the report; default: runs/reproduction")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="one representative scenario per paper, in minutes")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="with --quick: fail if a claim that held no longer does")
    ] = False,
    accept: Annotated[bool, typer.Option("--accept", help="with --quick: keep this score to compare with")] = False,
) -> None:
    """Runs the papers' evaluations and says which of their claims hold; nothing runs twice, and Ctrl-C loses nothing."""
    if (check or accept) and (names or not quick):
        raise InputFault("--check and --accept compare the whole quick score: give --quick, and no names")
    scenarios = wanted_scenarios(names or [], quick=quick)
    folder = out or RUNS / "-".join(["reproduction", *(["quick"] if quick else []), *(names or [])])
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _ensure_kernel()
    parallel = jobs or len(os.sched_getaffinity(0))
    reproduction = Reproduction([scenario for _, scenario in scenarios], quick=quick)
    with _watched(reproduction.points) as progress:
        gathered = reproduction.gather(parallel, progress, trial_on(Clock()))
    evaluated = judge_claims(scenarios, gathered, quick=quick)
    with writing(folder):
        reproduction.write_run_folders(gathered, folder / "runs")
        shown = write_reproduction(folder, evaluated, gathered, parallel)
    console.print(shown)
    files = {"report": "report.html", "claims": "claims.csv", "table": "reproduction.md"}
    _name_files({what: folder / name for what, name in files.items()})
    if gathered.failed or not _quick_score_kept(evaluated, check=check, accept=accept):
        raise typer.Exit(1)


def _quick_score_kept(evaluated: Sequence[Evaluated], *, check: bool, accept: bool) -> bool:
    """Keeps or compares the quick score, as asked. Returns False if a claim that held no longer does."""
    results = [result for scenario in evaluated for result in scenario.results]
    if accept:
        quick_score.keep(results)
    if not check:
        return True
    change = quick_score.compare(results)
    for line in change.lost:
        errors.print(f"[red]no longer holds[/red]: {escape(line)}", highlight=False)
    if change.gained:
        console.print(f"new: {', '.join(change.gained)}; `--accept` keeps them", highlight=False)
    return not change.lost


@app.command()
def trace(
    run_path: RunPath,
    point: PointName,
    iteration: IterationNumber = None,
    out: Annotated[
        Path | None, typer.Option(help="file; default: trace-N.json in the point's folder; .gz compresses")
    ] = None,
) -> None:
    """Exports one iteration as a timeline for ui.perfetto.dev: streams, send queues, receives, arrows, and the load of links."""
    if out:
        refuse_unusable_file(out)
    stored = named_run(run_path, point)
    timeline = timeline_of(stored, iteration)
    path = out or stored.folder / f"trace-{timeline.iteration}.json"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        timeline.write(path)
    shown = f"iteration {timeline.iteration} of {escape(stored.label)}: {len(timeline.events):,} events"
    console.print(shown, highlight=False)
    _name_files({"trace, to be opened at https://ui.perfetto.dev": path})


@app.command()
def why(
    run_path: RunPath,
    point: PointName,
    iteration: IterationNumber = None,
    every: Annotated[bool, typer.Option("--all", help="print every segment of the path")] = False,
) -> None:
    """Shows where an iteration's time went: its critical path, divided into compute, network, stragglers and aggregation."""
    for part in critical_path_shown(named_run(run_path, point), iteration, every=every):
        console.print(part)


@app.command()
def utilisation(
    run_path: RunPath,
    point: PointName,
    port: Annotated[str, typer.Option(help="captured port, e.g. h1-eth0; default: the first")] = "",
    bin_ms: Annotated[float, typer.Option(min=0.001, help="width of a bin in milliseconds")] = BIN_S * 1e3,
) -> None:
    """Charts how a captured port was used over time, from its packets (captured with `--set run.capture=h1`)."""
    stored = named_run(run_path, point)
    with writing(stored.folder):
        used = write_port_use(stored, port, bin_ms / 1e3)
    for part in (*invalid_notice(stored), rich_table(used.table)):
        console.print(part)
    _name_files({"chart": used.chart})


@app.command()
def kernel(
    force: Annotated[bool, typer.Option(help="build it even if it exists")] = False,
    check: Annotated[bool, typer.Option("--check", help="build nothing, and fail if there is none")] = False,
) -> None:
    """Builds the virtual-time kernel, once, and prints its path. `make setup` does this as well, and wheels contain the kernel."""
    if check and not cached_kernel():
        console.print("kernel: none yet")
        raise typer.Exit(1)
    if force:
        with kernel_progress(errors) as show_step:
            build_kernel(show_step, anew=True)
    _ensure_kernel()
    console.print(f"kernel: {cached_kernel()}", highlight=False, soft_wrap=True)


def main() -> None:
    """Runs the command line. A fault ends it with the fault's exit status and one message, which says who is at fault."""
    try:
        app(standalone_mode=True)
    except Fault as fault:
        errors.print(f"[red]error[/red] ({fault.at_fault}): {escape(str(fault))}", highlight=False)
        sys.exit(fault.exit_status)
