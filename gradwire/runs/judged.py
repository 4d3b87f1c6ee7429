"""Judges stored runs. Judging is pure, and writing the judgement down is a separate step.

Runs are judged anew whenever they are read, so that a changed check or statistic needs no new run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol

from typing_extensions import TypeVar

from gradwire.analysis.agreement.causes import Agreement
from gradwire.analysis.agreement.short_windows import WindowUse, window_use
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.analysis.fluid.paths import SpineOf
from gradwire.analysis.fluid.steady import MeasuredIterations, window_times_s
from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.job_times import logged_edges_s, measured_jobs
from gradwire.analysis.packets.captures import write_dissector
from gradwire.analysis.points import PointResult, failed_point, job_results, point_result
from gradwire.analysis.program_results import FigureRow
from gradwire.analysis.request_times import REQUEST_COLUMNS, plans_of_requests, request_rows
from gradwire.analysis.verdict.condition_checks import Divided
from gradwire.analysis.verdict.program_checks import ProgramsState
from gradwire.analysis.verdict.verdict import Circumstances, Verdict, judge
from gradwire.csv_files import write_csv
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord
from gradwire.faults import InputFault
from gradwire.files import replacing
from gradwire.inside.point_protocol import write_json
from gradwire.inside.program_protocol import ENDED_FILE, EndedBeside, place_name
from gradwire.network.fabric import Fabric
from gradwire.programs.commands import started_beside
from gradwire.programs.reported import reported
from gradwire.runs.compiling.ideal_times import ideal_times, rule_of
from gradwire.runs.compiling.job_plans import job_times
from gradwire.runs.stored.run_files import fitting, read_message, reading
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import (
    ITERATIONS_FILE,
    REQUESTS_FILE,
    VERDICT_FILE,
    Completion,
    RunSpeed,
    StoredRun,
)
from gradwire.scenario.loading import Point, ScenarioPoint

ITERATION_COLUMNS = ("iteration", "warmup", "iteration_time_s")
"""Columns of iterations.csv."""


class JudgedResult(Protocol):
    """The result of a point: a row of points.csv."""

    @property
    def parameters(self) -> dict[str, str]:
        """Every swept parameter and its value, as text."""

    @property
    def valid(self) -> bool:
        """Whether its numbers are results."""

    @property
    def wall_s(self) -> float:
        """Wall time that the point took."""

    @property
    def summary(self) -> str:
        """The result in a few words."""


P_co = TypeVar("P_co", bound=ScenarioPoint, default=Point, covariant=True)
R_co = TypeVar("R_co", bound=JudgedResult, default=PointResult, covariant=True)


@dataclass(frozen=True)
class JudgedRun(Generic[P_co, R_co]):
    """A point's run with its verdict and its numbers, which are not results where the verdict is not valid.

    What is of plans alone is empty for a point of programs.
    """

    point: P_co
    #: The stored run, from which its parts can be read.
    stored: StoredRun[P_co]
    #: Without multicast groups.
    fabric: Fabric
    #: Row of points.csv.
    result: R_co
    verdict: Verdict
    #: Completion of the run; None if it did not come to its end.
    completion: Completion | None
    #: Time that a worker alone computes in an iteration.
    compute_s: float = 0.0
    #: Times of all iterations, warm-up included; empty for a run that did not come to its end.
    iteration_times_s: tuple[float, ...] = ()
    #: Iterations at the beginning that are not measured.
    warmup: int = 0
    #: Windows of the tries before, whose iterations were not steady.
    unsteady: tuple[MeasuredIterations, ...] = ()
    #: Figures that programs reported.
    figures: tuple[FigureRow, ...] = ()
    #: Whether it ran before and was not run now.
    reused: bool = False
    #: Cause of the difference from an ideal network; None until it has been compared (runs/agreement), and if it is not
    #: valid.
    agreement: Agreement | None = None

    #: A row of points.csv for each of several jobs; none for a point of one.
    job_results: tuple[PointResult, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.stored.folder

    @property
    def label(self) -> str:
        """The point in a few words."""
        return self.stored.label

    @property
    def summary(self) -> str:
        """The result in a few words: of several jobs, the time of an iteration of each, as tables have them."""
        if not self.job_results:
            return self.result.summary
        return ", ".join(f"job {row.parameters['job']} {row.summary}" for row in self.job_results)

    @property
    def valid(self) -> bool:
        """Whether its numbers are results."""
        return self.result.valid

    @property
    def speed(self) -> RunSpeed | None:
        """Speed of the run in wall time; None if it did not come to its end."""
        return self.completion.speed if self.completion else None

    @property
    def took_s(self) -> float:
        """Wall time of the run; 0 if it did not come to its end."""
        return self.result.wall_s if self.completion else 0.0

    @property
    def ended(self) -> bool:
        """Whether the run came to its end."""
        return self.completion is not None


def verdict_of(stored: StoredRun) -> Verdict:
    """The verdict that was written when the run ended; judged anew where that file cannot be read.

    Raises InputFault if the run cannot be judged either.
    """
    try:
        return stored.last_verdict()
    except InputFault:
        completion = stored.completion()
        if completion is None:
            raise
        return _judged(stored, completion.plan)


def _judged(stored: StoredRun, label: str) -> Verdict:
    plan, fabric, record = stored.plan_labelled(label), stored.fabric(), stored.record()
    ideal = ideal_times(plan, fabric, rule_of(stored.task().sockets.unsent_bytes)) if stored.point else None
    programs, _ = programs_of(stored, fabric)
    circumstances = replace(_circumstances(stored, stored.point, fabric, plan, record), programs=programs)
    return judge(
        plan, fabric, stored.log(), record, stored.captures(fabric, record), ideal, circumstances=circumstances
    )


def _circumstances(
    stored: StoredRun, point: Point | None, fabric: Fabric, plan: Plan, record: PointRecord
) -> Circumstances:
    """Circumstances of a run, from the files in its folder."""
    task = stored.task()
    return Circumstances(
        departs=_departs(stored),
        spine_of=_spine_of(stored, fabric),
        faults=task.faults,
        congestion=task.sockets.congestion,
        windows=window_use_of(stored, plan, record),
        buffer_asked=_buffer_asked(stored),
        divided=_divided(stored, point),
    )


def window_use_of(stored: StoredRun, plan: Plan, record: PointRecord) -> WindowUse | None:
    """Effect of connections' windows on a run; None if no link has a delay."""
    if not any(agent.windows for agent in record.agents):
        return None
    built, task = stored.built_fabric(), stored.task()
    rule = rule_of(task.sockets.unsent_bytes)
    window = MeasuredIterations(record.warmup, record.iterations - record.warmup)
    return window_use(IdealRun(plan, built, Spines(built).spine_of, window, rule), record)


def _buffer_asked(stored: StoredRun) -> bool:
    """Returns whether the scenario chose the buffers of sockets, or hosts that choose them. If this is not known, they
    may have been chosen: True."""
    if stored.point is None or stored.fabric().host_tcp.is_stock:
        return True
    return stored.point.section.transport.buffer is not None


def _divided(stored: StoredRun, point: Point | None) -> Divided | None:
    """Division of the run's bytes and rates on the virtual clock; None if they were not divided."""
    completion = stored.completion()
    if completion is None or completion.divided_by == 1:
        return None
    fidelity = point.section.run.fidelity if point else None
    return Divided(completion.divided_by, completion.division_error, fidelity)


def _departs(stored: StoredRun) -> bool:
    """Returns whether SENDs ended when their last byte had left the host."""
    return stored.task().sockets.unsent_bytes is None


def _spine_of(stored: StoredRun, fabric: Fabric) -> SpineOf | None:
    """Function that returns the spine that a message takes; None if there are no spines."""
    return Spines(stored.built_fabric()).spine_of if fabric.tree.tiers else None


def programs_of(stored: StoredRun, fabric: Fabric) -> tuple[ProgramsState | None, tuple[FigureRow, ...]]:
    """Outcome of programs that ran together with the strategy, None if there were none; and their figures. Raises
    InputFault."""
    sections = stored.point.section.program if stored.point else {}
    if not sections:
        return None, ()
    with reading(stored.folder / ENDED_FILE):
        ended = read_message(stored.folder / ENDED_FILE, EndedBeside)
    figures, unreadable = reported(sections, fabric, stored.folder, ended.statuses, ended.dropped_output_bytes)
    failed = [f"{place} ended with status {status}" for place, status in ended.failed.items()]
    early = [f"{place} ended after {ended.ended_s[place]:.3f} s" for place in ended.statuses]
    names = fabric.host_names()
    wanted = [
        place_name(each.name, names[host]) for each in started_beside(sections, fabric) for host in each.started_on
    ]
    never = [
        f"{place} had not started before the last iteration ended" for place in wanted if place not in ended.started
    ]
    return ProgramsState(len(ended.started), failed, never, early, len(figures), unreadable), figures


def judge_plan_run(stored: StoredRun, point: Point, completion: Completion) -> JudgedRun:
    """Judges a run of a plan that came to its end. Raises InputFault for a file that cannot be read."""
    plan, fabric, log, record = stored.plan_labelled(completion.plan), stored.fabric(), stored.log(), stored.record()
    ideal = ideal_times(plan, fabric, rule_of(stored.task().sockets.unsent_bytes))
    programs, figures = programs_of(stored, fabric)
    circumstances = replace(_circumstances(stored, point, fabric, plan, record), programs=programs)
    verdict = judge(plan, fabric, log, record, stored.captures(fabric, record), ideal, circumstances=circumstances)
    result = point_result(point.parameters, plan, fabric, log, record, verdict, completion.speed.total_s)
    window = MeasuredIterations(record.warmup, record.iterations - record.warmup)
    result = replace(result, fluid_time_s=float(window_times_s(ideal, window).mean()))
    return JudgedRun(
        point=point,
        stored=stored,
        fabric=fabric,
        result=result,
        job_results=_results_of_jobs(stored, point, plan, fabric, log, result),
        verdict=verdict,
        completion=completion,
        compute_s=plan.compute_s,
        iteration_times_s=tuple(iteration_times_s(plan, log, record.iterations).tolist()),
        warmup=record.warmup,
        unsteady=tuple(MeasuredIterations(*tried) for tried in completion.unsteady),
        figures=figures,
    )


def _results_of_jobs(
    stored: StoredRun, point: Point, plan: Plan, fabric: Fabric, log: OpLog, whole: PointResult
) -> tuple[PointResult, ...]:
    """The rows of the jobs of a run; none where there are not several."""
    if not plan.jobs:
        return ()
    record = stored.record()
    edges_s = logged_edges_s(plan, log, record.iterations)
    measured = measured_jobs(plan, edges_s, record.warmup)
    own = [point.parameters_of_job(job.name) for job in plan.jobs]
    rule = rule_of(stored.task().sockets.unsent_bytes)
    ideal = job_times(plan, fabric, rule, warmup=record.warmup, iterations=record.iterations)
    return tuple(
        replace(
            row,
            fluid_time_s=times.shared_s if math.isfinite(times.shared_s) else None,
            alone_time_s=times.alone_s,
        )
        for row, times in zip(job_results(whole, plan, fabric, measured, own), ideal, strict=True)
    )


def by_job(runs: Sequence[JudgedRun]) -> list[JudgedRun]:
    """The runs with one for each of several jobs, whose row is the job's."""
    found: list[JudgedRun] = []
    for run in runs:
        found += [
            replace(run, result=row, job_results=(), agreement=of_job(run.agreement, number))
            for number, row in enumerate(run.job_results)
        ] or [run]
    return found


def of_job(agreement: Agreement | None, number: int) -> Agreement | None:
    """Agreement of the job of this number; that of all jobs if none was examined alone."""
    return agreement.jobs[number] if agreement and agreement.jobs else agreement


def failed_plan_run(
    stored: StoredRun, point: Point, verdict: Verdict, wall_s: float, first: tuple[Plan, Fabric] | None = None
) -> JudgedRun:
    """A run of a plan that did not come to its end. first: of its candidates, and its network; by default read from
    its folder."""
    plan, fabric = first or (stored.plan_labelled(stored.task().plans[0].label), stored.fabric())
    result = failed_point(point.parameters, plan, fabric, verdict, wall_s)
    return JudgedRun(point, stored, fabric, result, verdict, None, plan.compute_s)


def write_verdict(folder: Path, verdict: Verdict) -> None:
    """Writes verdict.json."""
    with replacing(folder / VERDICT_FILE, on_disk=False) as partial:
        write_json(partial, verdict, indent=1)


def write_judgement(judged: JudgedRun) -> None:
    """Writes verdict.json, and for a run of a plan that came to its end iterations.csv, requests.csv if it served some, and the captures'
    dissector."""
    write_verdict(judged.folder, judged.verdict)
    if not judged.iteration_times_s:
        return
    rows = ((number, int(warmup), time_s) for number, warmup, time_s in iteration_rows(judged))
    write_csv(judged.folder / ITERATIONS_FILE, ITERATION_COLUMNS, rows, float_format="%.9f")
    record, plan = judged.stored.record(), judged.stored.plan()
    if record.captures:
        write_dissector(judged.folder, plan, judged.fabric, record)
    _write_requests(judged, plan, record)


def _write_requests(judged: JudgedRun, plan: Plan, record: PointRecord) -> None:
    """Writes requests.csv, if there are any."""
    of_jobs = plans_of_requests(plan)
    if not of_jobs:
        return
    with fitting(judged.folder):
        log = judged.stored.log()
        rows = [
            (name, *map(int, row[:3]), *row[3:])
            for name, one in of_jobs
            for row in request_rows(one, log, record.warmup, record.iterations)
        ]
    write_csv(judged.folder / REQUESTS_FILE, ("job", *REQUEST_COLUMNS), rows, float_format="%.9f")


def iteration_rows(judged: JudgedRun) -> list[tuple[int, bool, float]]:
    """ITERATION_COLUMNS of each iteration of a run that came to its end: its number, whether it is warm-up, and its time."""
    return [(number, number < judged.warmup, time_s) for number, time_s in enumerate(judged.iteration_times_s)]
