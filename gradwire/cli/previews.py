"""Commands that run nothing: `plan` compiles points and draws their networks, `estimate` times them on an ideal
network."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from gradwire.cli import terminal
from gradwire.cli.plan_listing import (
    describe_plans,
    describe_programs,
    describe_settings,
    find_shared_settings,
    leave_out_defaults,
)
from gradwire.faults import InputFault
from gradwire.files import replace_text, replacing
from gradwire.network.fabric import Fabric
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.expected_cost import announcement, warnings
from gradwire.runs.free_and_assumed import free_and_assumed
from gradwire.runs.lasting_pace import LastingPace
from gradwire.runs.launch.place import refuse_unusable_file, writing
from gradwire.runs.memory_fit import memory_warnings
from gradwire.runs.network_notes import network_notes
from gradwire.runs.planned import PlannedRun, planning, virtual_clock
from gradwire.runs.planned_programs import plan_programs
from gradwire.runs.stored.run_folder import RUNS
from gradwire.scenario.loading import Scenario
from gradwire.scenario.program_scenarios import AnyScenario, ProgramScenario, has_plans


def plan(scenario: AnyScenario, draw: Path | None = None, *, verbose: bool = False) -> None:
    """`gradwire plan`."""
    if draw is not None:
        _refuse_unfit(draw)
    if has_plans(scenario):
        _list_plans(scenario, verbose=verbose)
    else:
        _list_programs(scenario)
    if draw is not None:
        _draw(draw, [point.fabric for point in scenario.points])


def _list_plans(scenario: Scenario, *, verbose: bool) -> None:
    """Every point's candidates and settings, and what they will take."""
    runs: list[PlannedRun] = []
    shared = find_shared_settings(scenario.points)
    with terminal.interruptible("interrupted"), terminal.screen().working("compiling") as status:
        for planned in planning(scenario.points, RUNS / scenario.name, virtual_clock(scenario.points), cores()):
            told = shared if verbose else leave_out_defaults(shared, planned.point)
            heading = () if runs else describe_settings(told, len(scenario.points), defaults=verbose)
            status.rest()
            terminal.console.print(
                *heading, *describe_plans(planned, shared, digests=verbose), sep="\n", highlight=False
            )
            runs.append(planned)
            status.update(f"compiling: {len(runs)} of {len(scenario.points)} points")
    for warning in warnings(runs):
        terminal.screen().warn(warning)
    terminal.console.print(announcement(runs, cores(), LastingPace.of_machine()), highlight=False)
    terminal.console.print(free_and_assumed(scenario.points), highlight=False)


def _list_programs(scenario: ProgramScenario) -> None:
    """Prints the programs that would run, with hosts and times, because they have no plan."""
    for planned in plan_programs(scenario.points, RUNS / scenario.name):
        terminal.console.print(*describe_programs(planned), sep="\n", highlight=False)
    for note in network_notes(point.section for point in scenario.points):
        terminal.screen().warn(note)


DRAWINGS = (".svg", ".png", ".pdf")


def _refuse_unfit(file: Path) -> None:
    """Raises InputFault for a file whose ending does not say which kind of file to write, and for what is no file."""
    if file.suffix not in DRAWINGS:
        raise InputFault(f"--draw {file}: the name must end in {', '.join(DRAWINGS[:-1])} or {DRAWINGS[-1]}")
    refuse_unusable_file(file, "--draw")


def _draw(file: Path, fabrics: Sequence[Fabric]) -> None:
    """Draws each network once: the first into `file`, the others into files with a number. Prints their names."""
    import matplotlib as mpl

    from gradwire.analysis.report.charts import DPI, STYLE, svg_text
    from gradwire.analysis.report.network_drawing import different_networks, network_drawing

    for number, fabric in enumerate(different_networks(fabrics), 1):
        path = file if number == 1 else file.with_stem(f"{file.stem}-{number}")
        refuse_unusable_file(path, "--draw")
        figure = network_drawing(fabric)
        with writing(path), mpl.rc_context(STYLE):
            if path.suffix == ".svg":
                replace_text(path, svg_text(figure))
            else:
                with replacing(path) as partial:
                    figure.savefig(partial, format=path.suffix[1:], dpi=DPI, bbox_inches="tight", facecolor="white")
        terminal.name_files({"network": path})


def estimate(scenario: Scenario, jobs: int | None, send_ends: str | None, out: Path | None, *, as_json: bool) -> None:
    """`gradwire estimate`."""
    from gradwire.analysis.fluid.second_compiler import first_use
    from gradwire.analysis.report.charts import Labels
    from gradwire.analysis.report.finding_words import sentences
    from gradwire.cli.estimates import estimates_json, estimates_table, write_estimates_csv
    from gradwire.runs.estimate_findings import findings_of
    from gradwire.runs.estimation import check_send_ends, estimate_points, without_effect
    from gradwire.runs.plan_warnings import by_label

    check_send_ends(send_ends)
    if out:
        refuse_unusable_file(out)
    said = [
        *network_notes(point.section for point in scenario.points),
        *without_effect(scenario.points),
        *memory_warnings(scenario.points),
    ]
    for warning in said:
        terminal.screen().warn(warning)
    begun_s = time.perf_counter()
    of = f"{len(scenario.points)} point{'s' if len(scenario.points) > 1 else ''}"
    what = f"{first_use()}estimating {of}"
    with terminal.interruptible("interrupted"), terminal.screen().working(what) as status:
        estimates = estimate_points(
            scenario.points,
            jobs or cores(),
            send_ends,
            lambda count: status.update(f"estimating: {count} of {of}"),
            before_forks=status.rest,
        )
    took_s = time.perf_counter() - begun_s
    for warning in (of_plans := by_label((estimate.label, estimate.warnings) for estimate in estimates)):
        terminal.screen().warn(warning)
    last_line = free_and_assumed(scenario.points)
    conclusion = " ".join(sentences(findings_of(scenario, estimates), Labels(scenario.labels)))
    if out:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            write_estimates_csv(out, estimates)
    if as_json:
        print(json.dumps(estimates_json(estimates, took_s, [*said, *of_plans], last_line, conclusion), indent=1))
        return
    terminal.show(estimates_table(scenario.title, estimates, took_s, last_line, conclusion))
    if out:
        terminal.name_files({"rows": out})
