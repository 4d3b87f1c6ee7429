"""Turns a scenario into judged points in a run folder: every point is compiled and checked before anything boots or
is written; then the folder is locked, the kernel built if there is none, the missing points run, and the report
written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradwire.analysis.fluid.second_compiler import first_use
from gradwire.analysis.report.text_table import Part
from gradwire.faults import InputFault
from gradwire.files import as_one_set
from gradwire.runs.campaign import Campaign, run_side_by_side
from gradwire.runs.comparing.planning import plan_comparison
from gradwire.runs.comparing.questions import AnyQuestion
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.expected_cost import TimeLeft, announcement
from gradwire.runs.judged import JudgedRun
from gradwire.runs.lasting_pace import LastingPace
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.machine_trial import trial_on
from gradwire.runs.launch.place import NewRunFolder, place_for, refuse_unusable, take_over, taken_words, writing
from gradwire.runs.planned_point import PlannedPoint
from gradwire.runs.reporting import with_own_values
from gradwire.runs.screen import Screen, Silent
from gradwire.runs.stored.provenance import note_start, provenance
from gradwire.runs.stored.run_folder import RUNS, has_valid_points, locked, write_run_folder, write_scenario
from gradwire.runs.works import work_of_scenario
from gradwire.scenario.loading import Scenario, load_scenario, scenario_of
from gradwire.scenario.program_scenarios import AnyScenario
from gradwire.scenario.scenario_files import scenario_path
from gradwire.vm.machines import MEASURED, Clock


@dataclass(frozen=True)
class Prepared:
    """Points that are ready to run."""

    scenario: Scenario[Any]
    planned: Sequence[PlannedPoint]
    place: NewRunFolder
    clock: Clock
    #: Origin of a measured scale of the wall clock.
    scale_from: str = ""


def loaded(source: Path | Mapping[str, object], settings: Sequence[str]) -> Scenario:
    """The scenario of plans at a path, of a shipped one's name, or with this content, with settings. Raises InputFault.

    Printed values that belong to other settings than these are left out.
    """
    if isinstance(source, Mapping):
        return with_own_values(scenario_of(source, settings))
    return with_own_values(load_scenario(scenario_path(source), settings))


def prepare(scenario: AnyScenario, clock: Clock, out: Path | None, screen: Screen) -> Prepared:
    """Makes a scenario ready to run, in the folder `out` or in one of runs/. Raises Fault."""
    work = work_of_scenario(scenario)
    scenario = work.with_own_values(scenario)
    clock = work.clock_for(scenario, clock, screen)
    place = _usable_place(scenario, clock, out, screen)
    work.refuse_unfit(scenario)
    scale_from = ""
    if clock.scale == MEASURED:
        trial_on(clock)(0)
        clock, scale_from = _measured(scenario, place.folder, screen)
    return Prepared(scenario, made_ready(scenario, place.folder, clock, screen), place, clock, scale_from)


def prepare_comparison(
    question: AnyQuestion,
    strategies: Sequence[str],
    seeds: int,
    out: Path | None,
    screen: Screen,
    *,
    estimate_first: bool = False,
) -> Prepared:
    """Makes a comparison of strategies, by default of all, ready to run on the virtual clock.

    estimate_first: leaves out those that cannot win by their estimates. Raises Fault.
    """
    chosen = question.contenders(strategies)
    refuse_unusable(out or RUNS)
    with screen.working(f"{first_use()}compiling") as status:

        def on_done(done: int, of: int) -> None:
            status.update(f"compiling: {done} of {of} strategies")

        scenario, planned = plan_comparison(
            question,
            chosen,
            seeds,
            out or RUNS / question.name,
            cores(),
            estimate_first=estimate_first,
            on_done=on_done,
        )
    scenario = replace(scenario, settings=question.settings)
    clock = work_of_scenario(scenario).clock_for(scenario, Clock(), screen)
    place = _usable_place(scenario, clock, out, screen)
    return Prepared(scenario, [run.moved_to(place.folder) for run in planned], place, clock)


def made_ready(scenario: Scenario[Any], folder: Path, clock: Clock, screen: Screen) -> list[Any]:
    """The points ready to run, with a line that says how far it is."""
    planned = []
    with screen.working("compiling") as status:
        for run in work_of_scenario(scenario).planning(scenario.points, folder, clock):
            planned.append(run)
            status.update(f"compiling: {len(planned)} of {len(scenario.points)} points")
    return planned


def refused_points(scenario: Scenario[Any], folder: Path, clock: Clock, screen: Screen) -> dict[int, str]:
    """Why points of a scenario cannot run, by their place in it: each is planned alone, since one that is refused ends the
    planning of all, and on the clock that it needs: on that of the whole scenario, others would refuse it."""
    work, refused = work_of_scenario(scenario), {}
    with screen.working("compiling points one by one") as status:
        for number, point in enumerate(scenario.points):
            status.update(f"compiling points one by one: {number} of {len(scenario.points)}")
            try:
                own = work.clock_for(replace(scenario, points=(point,)), clock, Silent())
                list(work.planning([point], folder, own))
            except InputFault as fault:
                refused[number] = str(fault).removeprefix(f"{point.origin}: ")
    return refused


def _measured(scenario: AnyScenario, folder: Path, screen: Screen) -> tuple[Clock, str]:
    """The wall clock at the scale of a run folder that has valid points, or else at a scale that is measured now; and
    the origin of the scale, in words."""
    from gradwire.runs.wall_scale import choose_scale  # noqa: PLC0415 (it builds networks, which few runs do here)

    starts = provenance(folder).starts
    if starts and has_valid_points(folder):
        return starts[-1].clock, starts[-1].scale_from
    with screen.working("measuring what this machine carries"):
        chosen = choose_scale([point.fabric for point in scenario.points])
    screen.note(chosen.announcement())
    return Clock("wall", chosen.number), chosen.measured


def _usable_place(scenario: AnyScenario, clock: Clock, out: Path | None, screen: Screen) -> NewRunFolder:
    """The run folder of a scenario, which can be written; says if it is not the one of the scenario's name."""
    place = place_for(scenario, clock, out)
    refuse_unusable(place.folder)
    if place.others:
        held = ", ".join(map(str, place.others))
        screen.note(f"{held}: other settings ran there; this goes to {place.folder}")
    return place


@dataclass(frozen=True)
class CarriedOut:
    """A run that has ended, and whose report is written."""

    runs: Sequence[JudgedRun[Any, Any]]
    #: The terminal's version of the report.
    shown: list[Part]

    @property
    def valid(self) -> bool:
        """Whether every point's verdict is valid."""
        return all(run.valid for run in self.runs)


def carry_out(prepared: Prepared, where: Where, command: str, screen: Screen, *, fresh: bool = False) -> CarriedOut:
    """Runs the points that are not there yet, side by side and by default one per core, and writes the report.

    command: what began the run, as its report shows it. fresh: runs the points that are there as well, each of which
    is replaced when its turn comes; nothing is taken from other folders. Raises Fault for what concerns more than one point; what goes
    wrong with one is its verdict. On Ctrl-C, what is complete is kept, KeyboardInterrupt is raised, and the same call
    continues from there.
    """
    (done,) = carry_out_several([prepared], where, command, screen, fresh=fresh)
    return done


def carry_out_several(
    several: Sequence[Prepared], where: Where, command: str, screen: Screen, *, fresh: bool = False
) -> list[CarriedOut]:
    """Carries out several scenarios of one kind of work and one clock as `carry_out` does one, their points side by side, each
    scenario in its own folder with its own report."""
    with ExitStack() as held:
        for prepared in several:
            _take_folder(prepared, command, held)
        built = several[0].clock.name == "virtual" and make_kernel_ready(screen)
        begun = [_begun(prepared, command, screen, built=built, fresh=fresh) for prepared in several]
        return [
            _reported(prepared, runs, where, screen)
            for prepared, runs in zip(begun, _run(begun, where, screen, fresh=fresh), strict=True)
        ]


def _take_folder(prepared: Prepared, command: str, held: ExitStack) -> None:
    """Makes the run folder this command's until `held` is closed."""
    scenario, folder, clock = prepared.scenario, prepared.place.folder, prepared.clock
    with writing(folder):
        held.enter_context(locked(folder, command))
        # Another command may have taken it since.
        place_for(scenario, replace(clock, scale=MEASURED) if prepared.scale_from else clock, folder)
        write_run_folder(folder, scenario.document, clock)


def _begun(prepared: Prepared, command: str, screen: Screen, *, built: bool, fresh: bool) -> Prepared:
    """Notes that a run begins, and brings the points of other folders into its own, which it says. built: the kernel, just now."""
    folder = prepared.place.folder
    with writing(folder):
        note_start(folder, prepared.clock, command, prepared.scale_from)
    planned = [run.keyed_anew() for run in prepared.planned] if built else prepared.planned
    if work_of_scenario(prepared.scenario).taken_over and not fresh:
        with writing(folder):
            taken = take_over(planned)
        if taken:
            screen.note(taken_words(taken))
    return replace(prepared, planned=planned)


def _reported(prepared: Prepared, ended: Sequence[JudgedRun[Any, Any]], where: Where, screen: Screen) -> CarriedOut:
    """Compares the runs that have ended with ideal networks, and writes the report."""
    scenario, folder = prepared.scenario, prepared.place.folder
    work = work_of_scenario(scenario)
    runs = work.compared(ended, screen)
    with screen.working("estimating the whole model"), writing(folder):
        work.finish(scenario, prepared.planned, folder, min(where.jobs or cores(), cores()))
    with writing(folder):
        write_scenario(folder, scenario.document)  # a program that ran may have changed it
    with writing(folder), as_one_set(folder):
        return CarriedOut(runs, work.write_report(scenario, runs, folder, folder))


def _run(several: Sequence[Prepared], where: Where, screen: Screen, *, fresh: bool) -> list[list[JudgedRun[Any, Any]]]:
    """Runs the missing points, or all of them, and shows the progress."""
    first, planned = several[0], [run for prepared in several for run in prepared.planned]
    to_run = [run for run in planned if fresh or not run.stored.is_of(run.key)]
    for warning in dict.fromkeys(work_of_scenario(first.scenario).warnings(to_run)):
        screen.warn(warning)
    titles = {run.folder: prepared.place.folder.name for prepared in several for run in prepared.planned}
    clock = first.clock
    with where.opened(clock, trial_on(clock), screen.warn, len(planned)) as executor:
        pace = LastingPace.of_machine()
        screen.note(announcement(to_run, executor.jobs, pace))
        expected = TimeLeft(to_run, executor.jobs, pace)
        running = screen.running(len(planned), expected, titles if len(several) > 1 else {})
        with running as watcher, writing(first.place.folder):
            campaigns = [
                Campaign(prepared.planned, prepared.place.folder, executor, watcher, fresh=fresh)
                for prepared in several
            ]
            return run_side_by_side(campaigns, executor)
