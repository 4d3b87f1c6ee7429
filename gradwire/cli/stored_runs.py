"""Commands that read a run folder: `report`, `trace`, `why` and `utilisation`."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape

from gradwire.analysis.packets.line_use import BIN_S
from gradwire.analysis.report.tables import rich_table
from gradwire.analysis.timeline.kineto_trace import write_kineto
from gradwire.cli import terminal
from gradwire.faults import InputFault
from gradwire.runs.launch.place import refuse_unusable, refuse_unusable_file, writing
from gradwire.runs.listings import critical_path_shown, invalid_notice
from gradwire.runs.stored.explanation import write_port_use
from gradwire.runs.stored.files import fitting
from gradwire.runs.stored.run_folder import chosen_iteration, named_run, run_folder, stored_scenario
from gradwire.runs.timeline import timeline_of
from gradwire.runs.works import judge_folder, work_of_scenario
from gradwire.workloads.traces.formats.chakra_writing import write_chakra


def report(run: Path, out: Path | None) -> None:
    """`gradwire report`."""
    folder = run_folder(run)
    refuse_unusable(out or folder)
    scenario = stored_scenario(folder)
    work = work_of_scenario(scenario)
    runs = work.compared(judge_folder(folder, scenario.points), terminal.screen())
    with writing(out or folder):
        (out or folder).mkdir(parents=True, exist_ok=True)
        shown = work.write_report(scenario, runs, folder, out or folder)
    terminal.show_report(shown, out or folder)


def trace(run: Path, point: str, iteration: int | None, out: Path | None) -> None:
    """`gradwire trace`."""
    if out:
        refuse_unusable_file(out)
    stored = named_run(run, point)
    timeline = timeline_of(stored, iteration)
    path = out or stored.folder / f"trace-{timeline.iteration}.json"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        timeline.write(path)
    shown = f"iteration {timeline.iteration} of {escape(stored.label)}: {len(timeline.events):,} events"
    terminal.console.print(shown, highlight=False)
    terminal.name_files({"trace, to be opened at https://ui.perfetto.dev": path})


def trace_of_ranks(
    run: Path, point: str, iteration: int | None, out: Path | None, chakra: Path | None, kineto: Path | None
) -> None:
    """`gradwire trace --chakra` and `--kineto`, or both."""
    if out:
        raise InputFault("--out: is for the timeline; --chakra and --kineto name the folders of theirs")
    if chakra is not None and chakra == kineto:
        raise InputFault(
            f"--kineto {kineto}: is the folder of --chakra; `gradwire import` reads one format from a folder"
        )
    for option, folder in {"--chakra": chakra, "--kineto": kineto}.items():
        if folder is not None:
            refuse_unusable(folder, option)
    stored = named_run(run, point)
    plan, log = stored.plan(), stored.log()
    with fitting(stored.folder):
        chosen = chosen_iteration(iteration, stored.label, plan, log, stored.record())
    named = {}
    if chakra is not None:
        with writing(chakra), fitting(stored.folder):
            write_chakra(chakra, plan, log, chosen)
        named["Chakra trace"] = chakra
    if kineto is not None:
        with writing(kineto), fitting(stored.folder):
            write_kineto(kineto, plan, log, chosen, f"gradwire, iteration {chosen} of {stored.label}")
        named["profiles"] = kineto
    shown = f"iteration {chosen} of {escape(stored.label)}: {len(plan.rank_role)} ranks"
    terminal.console.print(shown, highlight=False)
    terminal.name_files(named)


def why(run: Path, point: str, iteration: int | None, *, every: bool) -> None:
    """`gradwire why`."""
    for part in critical_path_shown(named_run(run, point), iteration, every=every):
        terminal.console.print(part)


def utilisation(run: Path, point: str, port: str, bin_s: float | None) -> None:
    """`gradwire utilisation`."""
    stored = named_run(run, point)
    with writing(stored.folder):
        used = write_port_use(stored, port, bin_s or BIN_S)
    for part in (*invalid_notice(stored), rich_table(used.table)):
        terminal.console.print(part)
    terminal.name_files({"chart": used.chart})
