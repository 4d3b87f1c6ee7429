"""`gradwire.run`, `gradwire.compare`, `gradwire.plan` and `gradwire.open`: what the commands do, for Python.

`set=` of the functions: what `--set` is on the command line, as text or as a mapping.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from gradwire.api.plans import Plans
from gradwire.api.run import Run, run_in
from gradwire.console.plain_console import UNBOUNDED_COLUMNS, PlainConsole
from gradwire.console.terminal_screen import TerminalScreen
from gradwire.faults import InputFault
from gradwire.runs.comparing.questions import AskedNetwork, QuestionOptions, question_of
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.expected_cost import warnings
from gradwire.runs.launch.scenario_run import Prepared, carry_out, loaded, made_ready, prepare, prepare_comparison
from gradwire.runs.screen import Screen
from gradwire.runs.stored.run_folder import RUNS, run_folder
from gradwire.scenario.overrides import value_of_setting
from gradwire.scenario.scenario_files import read_scenario
from gradwire.vm.machines import Clock

if TYPE_CHECKING:
    from distributed import Client

Scenario = str | os.PathLike[str] | Mapping[str, object]
Settings = Mapping[str, object] | Sequence[str]


def run(
    scenario: Scenario,
    *,
    set: Settings = (),  # noqa: A002 (the option's name on the command line)
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: str = "local",
    scheduler: str | Client | None = None,
    progress: bool = True,
    fresh: bool = False,
) -> Run:
    """Runs a scenario's points in virtual time, and returns the run; points that are there already do not run again.

    scenario: a file's path, the name of a scenario that gradwire brings, or a mapping with what such a file says. set:
    settings as with `--set`, as a mapping of dotted keys, of which a list is swept, or as "key=value" texts. out: the
    run folder; by default one in runs/, named after what is run. jobs: points that run side by side; by default one
    per core. executor: "local" for this machine, "dask" for the workers of a Dask cluster. scheduler: that cluster's
    scheduler, as an address, as the file that it wrote, or as a distributed.Client; by default a cluster of this
    machine for this call. progress: whether to print each point as it ends. fresh: whether points that are there
    already run again as well; whatever else is in the folder stays.

    A scenario of programs gives a `ProgramRun`, which has `figures`: what programs reported.

    An invalid point raises nothing: see `Run.valid`. Raises InputFault for whatever is wrong in the scenario or the
    settings, before anything boots, and MachineFault for what would hit every point. After an interruption, the same
    call continues from there.
    """
    settings = settings_of(set)
    screen = own_screen(progress)
    where = _where(jobs, executor, scheduler)
    said = "..." if isinstance(scenario, Mapping) else repr(os.fspath(scenario))
    command = f"gradwire.run({said}{f', set={list(settings)}' if settings else ''})"
    source = source_of(scenario)
    read, folder = read_scenario(source, settings), None if out is None else Path(out)
    where.refuse_what_cannot_be(Clock(), read.points)
    return _carried_out(prepare(read, Clock(), folder, screen), where, command, screen, fresh=fresh)


def compare(
    *,
    rate: str,
    model: str | None = None,
    trace: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    parallel: str | None = None,
    gpus_per_host: int | None = None,
    device: str | None = None,
    iteration_time: str | None = None,
    servers: int | None = None,
    strategies: Sequence[str] = (),
    leaf_spine: bool = False,
    oversubscription: float | None = None,
    seeds: int = 3,
    estimate_first: bool = False,
    set: Settings = (),  # noqa: A002
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: str = "local",
    scheduler: str | Client | None = None,
    progress: bool = True,
) -> Run:
    """Ranks every strategy, or those named, on one model and network, or algorithms for a trace; `Run.compare` has the
    ranking.

    The arguments are those of the command: a model with `workers`, or with `parallel` as in "data=8,tensor=8", or a
    trace.

    seeds: runs of strategies with random orders, at least 2. estimate_first: whether to run only those that may win by
    their estimates. Otherwise as `run`.
    """
    if seeds < 2:
        raise InputFault(f"seeds = {seeds}: must be at least 2, for one seed shows no spread")
    where = _where(jobs, executor, scheduler)
    where.refuse_what_cannot_be(Clock())
    network = AskedNetwork(rate, leaf_spine, oversubscription)
    given = QuestionOptions(workers, parallel, gpus_per_host, device, iteration_time, servers)
    question = question_of(model, None if trace is None else Path(trace), network, given, settings_of(set))
    screen = own_screen(progress)
    folder = None if out is None else Path(out)
    prepared = prepare_comparison(question, list(strategies), seeds, folder, screen, estimate_first=estimate_first)
    asked = {"model": model, "trace": trace and os.fspath(trace), "workers": workers, "parallel": parallel}
    words = ", ".join(f"{name}={value!r}" for name, value in asked.items() if value is not None)
    said = f"gradwire.compare({words}, rate={rate!r}, ...)"
    return _carried_out(prepared, where, said, screen)


def plan(scenario: Scenario, *, set: Settings = ()) -> Plans:  # noqa: A002
    """Compiles and checks every point of a scenario and runs nothing. The arguments are those of `run`."""
    read = loaded(source_of(scenario), settings_of(set))
    screen = own_screen(progress=False)
    runs = made_ready(read, RUNS / read.name, Clock(), screen)
    for warning in warnings(runs):
        screen.warn(warning)
    return Plans(read.title, runs)


def open(folder: str | os.PathLike[str]) -> Run:  # noqa: A001 (it is used as gradwire.open)
    """The run in a run folder, given by its path or by its name in runs/, whichever version of gradwire ran it.

    Raises InputFault if there is none.
    """
    return run_in(run_folder(Path(folder)))


def source_of(scenario: Scenario) -> Path | Mapping[str, object]:
    """A scenario as it was given: a path or name, or its content."""
    return scenario if isinstance(scenario, Mapping) else Path(scenario)


def own_screen(progress: bool) -> Screen:
    """Consoles of a program: warnings always, and the rest if it is wanted."""
    return TerminalScreen(_console(sys.stdout, quiet=not progress), _console(sys.stderr, soft_wrap=True))


def _console(stream: TextIO, **options: Any) -> Console:
    """A console with bars on a terminal, and with lines elsewhere.

    In a notebook, lines stay readable in the saved file, where bars are thousands of control characters; rich would
    draw these there, since Jupyter's kernel sets FORCE_COLOR.
    """
    terminal = stream.isatty()
    width = None if terminal else UNBOUNDED_COLUMNS
    return PlainConsole(file=stream, width=width, force_terminal=terminal, force_jupyter=False, **options)


def _where(jobs: int | None, executor: str, scheduler: str | Client | None) -> Where:
    if jobs is not None and jobs < 1:
        raise InputFault(f"jobs = {jobs}: must be at least 1")
    return Where(jobs, executor, scheduler)


def _carried_out(prepared: Prepared, where: Where, command: str, screen: Screen, *, fresh: bool = False) -> Run:
    done = carry_out(prepared, where, command, screen, fresh=fresh)
    return run_in(prepared.place.folder, done.runs, prepared.scenario)


def settings_of(given: Settings) -> tuple[str, ...]:
    """Settings as `key=value` texts, from such texts or from a mapping of dotted keys to values. Raises InputFault for
    anything else."""
    if isinstance(given, Mapping):
        return tuple(f"{key}={_setting_text(value)}" for key, value in given.items())
    if isinstance(given, str):
        raise InputFault(f"set={given!r}: give a mapping, like {{'fabric.rate': '25gbit'}}, or a list of texts")
    return tuple(given)


def _setting_text(value: object) -> str:
    """A value as `--set` takes it. A text that is not TOML by itself stays as it is, since titles and folders say what
    was set."""
    if isinstance(value, str) and value == value.strip() and value.isprintable() and value_of_setting(value) == value:
        return value
    return _toml(value)


def _toml(value: object) -> str:
    """A value as TOML, in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    item = getattr(value, "item", None)  # numpy's scalars
    try:
        return json.dumps(item() if item else value, ensure_ascii=False)
    except TypeError as error:
        raise InputFault(f"set: {value!r} is a {type(value).__name__}, and no value of a scenario") from error
