"""The command line of gradwire: thin, one call a verb."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tomli_w
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from analysis.compare import PrintedCell, check_cells
from analysis.papers import quick_score
from analysis.papers.score import Evaluated
from analysis.report import report as write_report
from analysis.tables import Constant
from vm.calibrate import Calibration, calibrate_fabric
from vm.campaign import Campaign
from vm.doctor import diagnose
from vm.faults import Fault, InputFault, InternalFault
from vm.kernel import build_kernel, cached_kernel, ensure_kernel
from vm.machines import Clock
from vm.outcome import Outcome, Prepared, prepare, stored_outcomes
from vm.progress import LiveProgress
from vm.reproduce import Reproduction, judge_claims, wanted_scenarios, write_reproduction
from workloads.compilation import job_of
from workloads.scenario import Scenario, load_scenario, resolve
from workloads.strategies import strategy
from workloads.summary import summary_lines
from workloads.units import rate_bps

PLAIN_COLUMNS = 120
"""Width of tables where the output is no terminal."""

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help=(__doc__ or "").splitlines()[0], pretty_exceptions_enable=False
)
console = Console(width=None if sys.stdout.isatty() else PLAIN_COLUMNS)
errors = Console(stderr=True, soft_wrap=True)

ScenarioFile = Annotated[Path, typer.Argument(help="scenario file (TOML), or the name of one in scenarios/")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value, e.g. fabric.rate=25gbit; a list is swept: cluster.workers=[2,4]"),
]
ClockName = Annotated[str, typer.Option(help="virtual (exact, no root) or wall (this machine's kernel, needs root)")]
Scale = Annotated[int, typer.Option(min=1, help="wall clock: divide bytes and rates by this")]


def _scenario_path(path: Path) -> Path:
    shipped = Path(__file__).parent / "scenarios"
    named = shipped / f"{path.name.removesuffix('.toml')}.toml"
    if path.exists():
        return path
    if path.name != str(path) or not named.exists():
        names = ", ".join(sorted(file.stem for file in shipped.glob("*.toml")))
        raise InputFault(f"{path}: no such file, and no such scenario among: {names}")
    return named


def _clock(name: str, scale: int) -> Clock:
    if name not in ("virtual", "wall"):
        raise InputFault(f"--clock {name}: must be virtual or wall")
    if name == "virtual" and scale != 1:
        raise InputFault("--scale belongs to --clock wall: the virtual clock needs none")
    return Clock(name, scale)


def _ensure_kernel() -> None:
    if cached_kernel():
        return
    columns = (
        TextColumn("building the virtual-time kernel, once"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("kernel", total=1, text="")
        ensure_kernel(lambda done, total, text: progress.update(task, completed=done, total=total, text=text[-40:]))


@app.command()
def run(
    scenario: ScenarioFile,
    settings: Settings = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="points side by side; default: one a core")] = None,
    out: Annotated[Path | None, typer.Option(help="run folder; default: runs/<scenario>")] = None,
    clock: ClockName = "virtual",
    scale: Scale = 1,
) -> None:
    """Runs a scenario's points and reports; resumes a run folder where it stopped."""
    chosen = _clock(clock, scale)
    loaded = load_scenario(_scenario_path(scenario), settings or [])
    folder = out or Path("runs") / loaded.name
    printed = _printed(loaded)
    check_cells([point.parameters for point in loaded.points], printed)
    prepared = prepare(loaded.points, folder, chosen)
    if chosen.name == "virtual":
        _ensure_kernel()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.toml").write_text(tomli_w.dumps(loaded.document))
    (folder / "clock.json").write_text(json.dumps(asdict(chosen)))
    parallel = 1 if chosen.name == "wall" else min(jobs or len(os.sched_getaffinity(0)), len(prepared))
    with LiveProgress(console, len(prepared)) as progress:
        try:
            outcomes = Campaign(prepared, folder, parallel, progress).run()
        except KeyboardInterrupt:
            errors.print("interrupted; what was complete is kept, and the same command goes on from there")
            raise typer.Exit(130) from None
    _report(loaded, outcomes, folder)
    if not all(outcome.result.valid for outcome in outcomes):
        raise typer.Exit(1)


def _printed(scenario: Scenario) -> list[PrintedCell]:
    return [PrintedCell(**cell.model_dump()) for cell in scenario.printed]


def _report(scenario: Scenario, outcomes: list[Outcome], folder: Path) -> None:
    shown = write_report(
        folder,
        [outcome.result for outcome in outcomes],
        _printed(scenario),
        scenario.title,
        _constants(outcomes),
        [outcome.verdict for outcome in outcomes],
        labels=scenario.labels,
        notes=_speed_notes(outcomes),
    )
    console.print(shown)
    console.print(f"report: {folder / 'report.html'}   chart: {folder / 'chart.png'}   rows: {folder / 'points.csv'}")


def _constants(outcomes: list[Outcome]) -> list[Constant]:
    """Every constant that the results rest on, once."""
    constants: dict[tuple[str, str], Constant] = {}
    for outcome in outcomes:
        section = outcome.prepared.point.section
        compute = outcome.prepared.compiled.job.compute
        device = f" on {section.model.device}" if section.model.device else ""
        name = f"iteration of {section.model.name}{device}, alone"
        fitted = f"; fitted on {compute.fitted_on}" if compute.fitted_on else ""
        found = [Constant(name, round(compute.iteration_s, 4), "s", compute.source + fitted)]
        for cost_name, cost in section.costs:
            if cost is not None:
                unit = "bytes/s" if cost_name.endswith("rate") else "s"
                found.append(Constant(cost_name.replace("_", " "), cost.value, unit, cost.source))
        for constant in found:
            constants[constant.name, str(constant.value)] = constant
    return list(constants.values())


def _speed_notes(outcomes: list[Outcome]) -> list[str]:
    speeds = [outcome.speed for outcome in outcomes if outcome.speed]
    if not speeds:
        return []
    payload = sum(speed.payload_bytes for speed in speeds)
    replay_s = sum(speed.replay_s for speed in speeds)
    slowest = max(speed.first_byte_s for speed in speeds)
    mean = sum(speed.first_byte_s for speed in speeds) / len(speeds)
    return [
        f"speed: boot to first byte {mean:.1f} s (slowest {slowest:.1f} s); {payload / 1e9:.0f} GB of emulated payload at "
        f"{payload / replay_s / 1e9:.2f} GB/s of one core; {sum(speed.total_s for speed in speeds):.0f} core seconds in all"
    ]


@app.command()
def plan(scenario: ScenarioFile, settings: Settings = None) -> None:
    """Compiles and checks every point of a scenario, and prints the plans; runs nothing."""
    loaded = load_scenario(_scenario_path(scenario), settings or [])
    for prepared in prepare(loaded.points, Path("runs") / loaded.name, Clock()):
        _print_plans(prepared)


def _print_plans(prepared: Prepared) -> None:
    chosen = strategy(prepared.point.section.strategy.name)
    job = job_of(prepared.point.section, chosen)
    console.print(
        f"[bold]{escape(prepared.label)}[/bold]  {chosen.summary} [dim]({chosen.source})[/dim]", highlight=False
    )
    console.print(f"  compute {job.compute_s:.4f} s an iteration: {escape(job.compute.source)}", highlight=False)
    for label, compiled in prepared.plans.items():
        console.print(f"  plan '{escape(label)}', digest {compiled.digest()}", highlight=False)
        for line in summary_lines(compiled, prepared.fabric):
            console.print(f"    {line}", highlight=False)


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
        rate_value = rate_bps(rate)
    except ValueError as error:
        raise InputFault(f"--rate: {error}") from error
    chosen = _clock(clock, scale)
    if chosen.name == "virtual":
        _ensure_kernel()
    with errors.status("calibrating") as status:
        result = calibrate_fabric(hosts, rate_value, chosen, lambda name: status.update(f"calibrating: {name} done"))
    if as_json:
        print(json.dumps(result.as_dict(), indent=1))
    else:
        console.print(_calibration_table(result))


def _calibration_table(result: Calibration) -> Table:
    table = Table(title=f"{result.hosts} hosts, {result.rate_bps / 1e9:g} Gbit/s, {result.clock} clock")
    for column in ("pattern", "measured", "ideal", "ratio"):
        table.add_column(column, justify="left" if column == "pattern" else "right")
    for name, pattern in result.patterns.items():
        table.add_row(name, f"{pattern.measured_s:.6f} s", f"{pattern.ideal_s:.6f} s", f"{pattern.ratio:.4f}")
    for name, share in result.low_share.items():
        table.add_row(f"priority at a {name}", f"low class {share:.4%}", "0 %", "")
    return table


@app.command()
def doctor() -> None:
    """Says what is there, what is missing, and the command that mends it."""
    findings = diagnose()
    table = Table()
    for column in ("", "what", "found", "to mend"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        missing = "[red]✗[/red]" if finding.required else "[yellow]-[/yellow]"
        table.add_row("[green]✓[/green]" if finding.ok else missing, finding.name, finding.detail, finding.mend)
    console.print(table)
    if not all(finding.ok for finding in findings if finding.required):
        raise typer.Exit(1)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="run folder")]) -> None:
    """Writes and prints the report of a run folder again, without running anything."""
    path = folder / "scenario.toml"
    if not path.exists():
        raise InputFault(f"{folder}: no run folder (it has no scenario.toml); `gradwire run` makes one")
    loaded = resolve(tomllib.loads(path.read_text()), str(path), folder.name)
    clock_path = folder / "clock.json"
    if not clock_path.exists():
        raise InputFault(f"{folder}: has no clock.json, so no run of it has begun; `gradwire run` completes the folder")
    clock = Clock(**json.loads(clock_path.read_text()))
    outcomes = stored_outcomes(loaded.points, folder, clock)
    _report(loaded, outcomes, folder)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="papers or scenarios, e.g. geryon p3-fig7; default: all")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="points side by side; default: one a core")] = None,
    out: Annotated[Path | None, typer.Option(help="folder of the report; default: runs/reproduction")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="one representative scenario a paper, in minutes")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="with --quick: fail if a claim that held no longer does")
    ] = False,
    accept: Annotated[bool, typer.Option("--accept", help="with --quick: keep this score to compare with")] = False,
) -> None:
    """Runs the papers' evaluations and says, claim by claim, what holds; nothing runs twice, and Ctrl-C loses nothing."""
    if (check or accept) and (names or not quick):
        raise InputFault("--check and --accept compare the whole quick score: give --quick, and no names")
    wanted = wanted_scenarios(names or [], quick=quick)
    _ensure_kernel()
    parallel = jobs or len(os.sched_getaffinity(0))
    folder = out or Path("runs") / "-".join(["reproduction", *(["quick"] if quick else []), *(names or [])])
    reproduction = Reproduction([scenario for _, scenario in wanted], quick=quick)
    with LiveProgress(console, reproduction.points) as progress:
        try:
            gathered = reproduction.gather(parallel, progress)
        except KeyboardInterrupt:
            errors.print("interrupted; what was complete is kept, and the same command goes on from there")
            raise typer.Exit(130) from None
    evaluated = judge_claims(wanted, gathered, quick=quick)
    reproduction.write_run_folders(gathered, folder / "runs")
    console.print(write_reproduction(folder, evaluated, gathered, parallel))
    console.print(
        f"report: {folder / 'report.html'}   claims: {folder / 'claims.csv'}   table: {folder / 'reproduction.md'}"
    )
    if gathered.failed or not _quick_score_kept(evaluated, check=check, accept=accept):
        raise typer.Exit(1)


def _quick_score_kept(evaluated: Sequence[Evaluated], *, check: bool, accept: bool) -> bool:
    """Keeps or compares the quick score, as asked; whether nothing was lost."""
    results = [result for one in evaluated for result in one.results]
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
def kernel(force: Annotated[bool, typer.Option(help="build it even if it is there")] = False) -> None:
    """Builds the virtual-time kernel, once; `make setup` does it."""
    if force:
        build_kernel(lambda *_: None)
    _ensure_kernel()
    console.print(f"kernel: {cached_kernel()}", highlight=False)


def main() -> None:
    """Runs the command line; a fault is told in one message, with who is at fault, and exit status 2 for input and 1 else."""
    try:
        app(standalone_mode=True)
    except Fault as fault:
        kind = {"InputFault": "input", "MachineFault": "machine"}.get(type(fault).__name__, "machine")
        if isinstance(fault, InternalFault):
            kind = "bug in gradwire, please report it"
        errors.print(f"[red]error[/red] ({kind}): {escape(str(fault))}", highlight=False)
        sys.exit(2 if isinstance(fault, InputFault) else 1)


if __name__ == "__main__":
    main()
