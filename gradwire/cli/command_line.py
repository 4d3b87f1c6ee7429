"""The command line of gradwire: the commands, their arguments and their help.

What a command does is imported when it is called, so that the help and the shell's completion answer at once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from gradwire.cli import (
    ccl_command,
    comparison_command,
    completion,
    first_scenario,
    map_command,
    stored_run_commands,
    user_work_commands,
)
from gradwire.cli.ending import status_of, unaltered
from gradwire.cli.unknown_options import suggest_keys
from gradwire.faults import STATUSES
from gradwire.input_files import begin_command, end_command
from gradwire.scenario.scenario_files import read_scenario, read_scenario_of_strategies, scenario_names
from gradwire.terminal_text import show_warnings_as_text, spell_what_is_missing

PURPOSE = "Measures what communication strategies do to distributed training, on real networks in virtual time."

SECTIONS = {
    "Ask": "init run compare map estimate plan ccl reproduce",
    "Run programs": "exec shell mininet mn record import",
    "Look at results": "report why diff trace utilisation",
    "Lists, and this machine": "scenarios models devices strategies explain doctor calibrate clean kernel",
}
"""The commands by what they are for, as `gradwire --help` lists them."""


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        with unaltered():
            yield
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(130) from None


class Commands(typer.core.TyperGroup):
    """The commands, each of which ends with one line and status 130 on Ctrl-C, whatever it is at."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (click gives it)
        """Writes what each command does, whole and by sections; click leaves of it what one line has room for."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name, " ".join((self.commands[name].help or "").split())) for name in names.split()]
                )

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        """Carries out a command line. What it names is noted until it ends, so that nothing is written over it."""
        begin_command(sys.argv[1:] if args is None else args)
        try:
            return super().main(args, *others, **options)
        finally:
            end_command()

    def make_context(self, info_name: str | None, args: list[str], *others: Any, **options: Any) -> Any:
        """Reads the command line."""
        with _interruptible():
            return super().make_context(info_name, completion.with_shell(args), *others, **options)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that was given."""
        with _interruptible():
            try:
                return super().invoke(ctx)
            except Exception as error:
                suggest_keys(error)
                raise


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help=PURPOSE,
    epilog=STATUSES,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its help cuts words that are longer than a column of a narrow terminal
    add_completion=False,  # its options are in _options
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"gradwire {version('gradwire')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and exit")
    ] = False,
    installed: completion.Installed = None,
    shown: completion.Shown = None,
) -> None:
    pass


def _scenarios_like(begun: str) -> list[str]:
    return [name for name in scenario_names() if name.startswith(begun)]


AsJson = Annotated[bool, typer.Option("--json", help="print JSON and nothing else")]
Jobs = Annotated[int | None, typer.Option(min=1, help="points that run in parallel; default: one per core")]
ExecutorName = comparison_command.ExecutorName
Scheduler = comparison_command.Scheduler
RunFolder = Annotated[
    Path | None, typer.Option(readable=False, help="run folder; default: one in runs/, named after what is run")
]
ScenarioFile = Annotated[
    Path,
    typer.Argument(
        readable=False,  # what cannot be read is reported as all wrong input is
        help="scenario file (TOML), or the name of one in scenarios/; Python files that it names in its folder or below are run",
        autocompletion=_scenarios_like,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="key=value, e.g. fabric.rate=25gbit; a list is swept: cluster.workers=[2,4]; a list in a list sets one: "
        "strategy.options.thresholds=[[0.5]]; key= unsets it",
    ),
]
ClockName = Annotated[str, typer.Option(help="virtual (exact, no root) or wall (this machine's kernel, needs root)")]
Fidelity = Annotated[
    str | None,
    typer.Option(
        help="run quicker, off by up to this share of an iteration, e.g. 1%; the same as --set run.fidelity=1%"
    ),
]
Scale = Annotated[
    int | None,
    typer.Option(min=1, help="wall clock: divide bytes and rates by this; default: what this machine needs, measured"),
]


def _with_fidelity(settings: list[str] | None, fidelity: str | None) -> list[str]:
    return [*(settings or []), *([f"run.fidelity={fidelity}"] if fidelity else [])]


@app.command()
def run(
    scenario: ScenarioFile,
    settings: Settings = None,
    jobs: Jobs = None,
    executor: ExecutorName = "local",
    scheduler: Scheduler = None,
    out: RunFolder = None,
    clock: ClockName = "virtual",
    scale: Scale = None,
    fidelity: Fidelity = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="run all points again, also those that are there")] = False,
    as_json: AsJson = False,
) -> None:
    """Runs a scenario's points and reports on them; resumes a run folder where it stopped."""
    chosen = _with_fidelity(settings, fidelity)
    read = read_scenario(scenario, chosen)
    from gradwire.cli import running
    from gradwire.runs.executing.executor_choice import Where

    running.run(read, Where(jobs, executor, scheduler), out, clock, scale, as_json=as_json, fresh=fresh)


for _commands in (
    first_scenario,
    comparison_command,
    map_command,
    ccl_command,
    user_work_commands,
    stored_run_commands,
):
    _commands.add_to(app)


@app.command()
def plan(
    scenario: ScenarioFile,
    settings: Settings = None,
    draw: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="draw the network as well, as .svg, .png or .pdf; one file for each network of the scenario",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="also print settings that are defaults, and digests of plans")
    ] = False,
) -> None:
    """Compiles and checks every point of a scenario and prints the plans, without running them."""
    read = read_scenario(scenario, settings or [])

    from gradwire.cli import previews

    previews.plan(read, draw, verbose=verbose)


@app.command()
def estimate(
    scenario: ScenarioFile,
    settings: Settings = None,
    jobs: Jobs = None,
    send_ends: Annotated[
        str | None,
        typer.Option(
            help="for a network that holds nothing: a send queue continues when a message's last byte has left "
            "(departure), or earlier (buffered); by default as in the point's run, whose ports and switches hold data"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="also write the rows to this file, as CSV")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """Estimates every point of a scenario on an ideal network, in milliseconds to seconds: a model, not a run."""
    read = read_scenario_of_strategies(scenario, settings or [])

    from gradwire.cli import previews

    previews.estimate(read, jobs, send_ends, out, as_json=as_json)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="papers, scenarios, or world; e.g. geryon p3-fig7; default: all papers")
    ] = None,
    papers: Annotated[list[str] | None, typer.Option("--paper", help="the same as a name without the option")] = None,
    list_names: Annotated[bool, typer.Option("--list", help="list what may be given, and run nothing")] = False,
    jobs: Jobs = None,
    executor: ExecutorName = "local",
    scheduler: Scheduler = None,
    python: Annotated[Path | None, typer.Option(help="for world: a Python with PyTorch, for rows of programs")] = None,
    out: Annotated[Path | None, typer.Option(help="folder of the report; default: runs/reproduction")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="one representative scenario per paper, in minutes")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="with --quick: fail if a claim that held no longer does")
    ] = False,
    accept: Annotated[bool, typer.Option("--accept", help="with --quick: keep this score to compare with")] = False,
    pages: Annotated[
        Path | None,
        typer.Option(help="folder to write pages into as well: an overview, and one page per paper, e.g. docs"),
    ] = None,
    moved_from: Annotated[
        Path | None,
        typer.Option(help="with --pages: folder of pages to say what moved since; default: the replaced ones"),
    ] = None,
) -> None:
    """Runs the papers' evaluations and says which claims hold; nothing runs twice, and Ctrl-C loses nothing."""
    from gradwire.cli import reproducing
    from gradwire.runs.executing.executor_choice import Where

    names = [*(names or []), *(papers or [])]
    if list_names:
        reproducing.study().list_scenarios(names)
        return
    asked = reproducing.ReproduceOptions(names, out, pages, moved_from, quick, check, accept, python)
    reproducing.study().reproduce(asked, Where(jobs, executor, scheduler))


@app.command()
def scenarios(as_json: AsJson = False) -> None:
    """Lists the scenarios that gradwire brings: a figure or table of a paper each."""
    from gradwire.cli import listing

    listing.scenarios(as_json=as_json)


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(metavar="MODEL", help="only this one; or a model file")] = None,
    as_toml: Annotated[bool, typer.Option("--toml", help="print it as a model file")] = False,
    as_json: AsJson = False,
) -> None:
    """Lists the models that a scenario can name, including those of installed packages, with their sizes."""
    from gradwire.cli import listing

    listing.models(name, as_toml=as_toml, as_json=as_json)


@app.command()
def devices(
    name: Annotated[str | None, typer.Argument(metavar="DEVICE", help="only this one; or a device file")] = None,
    as_toml: Annotated[bool, typer.Option("--toml", help="print it as a device file")] = False,
    as_json: AsJson = False,
) -> None:
    """Lists the devices that a scenario can name, including those of installed packages, and the models that have a
    time on each."""
    from gradwire.cli import listing

    listing.devices(name, as_toml=as_toml, as_json=as_json)


@app.command()
def strategies(as_json: AsJson = False) -> None:
    """Lists the strategies that a scenario can name, including those of installed packages, with their options and
    defaults."""
    from gradwire.cli import listing

    listing.strategies(as_json=as_json)


@app.command()
def explain(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY",
            help="e.g. fabric.rate, fabric, a strategy, or words that a key's meaning has, e.g. link delay; "
            "default: everything",
        ),
    ] = None,
    as_json: AsJson = False,
    as_schema: Annotated[bool, typer.Option("--json-schema", help="print the JSON Schema of scenario files")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="print the page of all keys")] = False,
) -> None:
    """Says what a key of a scenario means, what its value must be, and its default; or a strategy's options."""
    from gradwire.cli import listing

    listing.explain(" ".join(words or []), as_json=as_json, as_schema=as_schema, as_markdown=as_markdown)


@app.command()
def calibrate(
    hosts: Annotated[int, typer.Option(min=3, help="hosts on one switch")] = 8,
    rate: Annotated[str, typer.Option(help="line rate, e.g. 10gbit")] = "10gbit",
    as_json: AsJson = False,
    clock: ClockName = "virtual",
    scale: Scale = None,
) -> None:
    """Measures how close traffic patterns come to their ideal times, and whether priorities are strict."""

    from gradwire.cli import upkeep

    upkeep.calibrate(hosts, rate, clock, scale, as_json=as_json)


@app.command()
def doctor() -> None:
    """Lists what is there and what is missing, with the command that fixes it, then boots the kernel and sends a flow
    as proof."""

    from gradwire.cli import upkeep

    upkeep.doctor()


@app.command()
def clean(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER",
            help="run folders, or folders of them; default: runs/; nothing behind links in them is removed",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be removed")] = False,
) -> None:
    """Removes what killed commands left behind, on both clocks; nothing of a running command, and nothing that
    gradwire has not made."""

    from gradwire.cli import upkeep

    upkeep.clean(folders or [], dry_run=dry_run)


@app.command()
def kernel(
    force: Annotated[bool, typer.Option(help="build it even if it exists")] = False,
    check: Annotated[bool, typer.Option("--check", help="build nothing, and fail if there is none")] = False,
) -> None:
    """Builds the virtual-time kernel, once, and prints its path. `make setup` does this as well, and wheels contain
    the kernel."""

    from gradwire.cli import upkeep

    upkeep.kernel(force=force, check=check)


def main() -> None:
    """Runs the command line. Whatever happens ends with one message and an exit status, which say who is at fault."""
    spell_what_is_missing()
    show_warnings_as_text()
    completion.answer_shells()
    # It complains, in several lines, of a home folder that cannot be written to, and continues without.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    sys.exit(status_of(app))
