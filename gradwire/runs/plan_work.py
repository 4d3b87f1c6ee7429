"""The work of points of strategies: replaying a plan, with programs at the same time or without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from gradwire.agents.connections import KNOWS_LINE, SocketOptions
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.point_frames import points_frame, write_points_csv
from gradwire.analysis.points import PointResult, pool_seeds
from gradwire.analysis.printed import check_cells
from gradwire.analysis.printed import compare as compare_printed
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.conclusion import conclusion
from gradwire.analysis.report.tables import points_table
from gradwire.analysis.report.text_table import Part, TextTable
from gradwire.analysis.verdict.verdict import STEADY, Verdict
from gradwire.inside.point_protocol import TASK_FILE, PlanFile, PointTask, write_json
from gradwire.network.fabric import Fabric
from gradwire.programs.commands import write_programs
from gradwire.runs.agreement import compared
from gradwire.runs.comparing.whole import estimate_whole
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.expected_cost import warnings
from gradwire.runs.judged import JudgedRun, by_job, failed_plan_run, judge_plan_run
from gradwire.runs.longer_window import MOST_ITERATIONS, longer_window
from gradwire.runs.planned import (
    PlannedRun,
    most_iterations,
    planning,
    refuse_coarse,
    refuse_misfits,
    scale_warning,
    virtual_clock,
)
from gradwire.runs.point_machine import MachineEnd
from gradwire.runs.reporting import printed_cells, with_own_values, write_report
from gradwire.runs.run_findings import findings_of_runs
from gradwire.runs.screen import Screen
from gradwire.runs.stored.stored_run import LOG_FILE, RECORD_FILE, Completion, RunSpeed, StoredRun
from gradwire.runs.work import Work
from gradwire.scenario.definitions.controller_files import controller_text
from gradwire.scenario.loading import Point, Scenario
from gradwire.scenario.resolution.planned_faults import planned_faults
from gradwire.scenario.resolution.transport_fit import buffer_bytes, is_grown, path_bytes
from gradwire.scenario.schema import PointSection
from gradwire.vm.batch_job import COMPILED_AGENT
from gradwire.vm.machines import Clock

SMALLEST_BUFFER_BYTES = 32_768
"""Smallest size of a socket's buffer on the wall clock, some twenty frames. Buffers that were not divided held whole
messages, so that parameter servers of VGG-19 at a scale of 1,100 took 1.31 to 1.34 times their time; with 32 KB 1.15,
and with 8 KB links did not reach their rate."""


class PlanWork(Work[Point, PlannedRun, PointResult]):
    """The work of replaying a plan."""

    taken_over = True
    left = (TASK_FILE, RECORD_FILE, LOG_FILE)

    def clock_for(self, scenario: Scenario, clock: Clock, screen: Screen) -> Clock:
        """The virtual clock at the scale that the networks need, with a warning if that is not 1; the wall clock as it
        is."""
        if clock.name != "virtual":
            return clock
        scaled = virtual_clock(scenario.points)
        if scaled.scale > 1:
            screen.warn(scale_warning(scenario.points, scaled))
        return scaled

    def with_own_values(self, scenario: Scenario) -> Scenario:
        """The scenario without printed values that belong to other settings than its own."""
        return with_own_values(scenario)

    def refuse_unfit(self, scenario: Scenario) -> None:
        """Raises InputFault for printed values that no point has, and for networks whose keys do not fit together."""
        check_cells([point.parameters for point in scenario.points], printed_cells(scenario))
        refuse_misfits(scenario.points)

    def planning(self, points: Sequence[Point], out: Path, clock: Clock) -> Iterator[PlannedRun]:
        """Compiles and checks points, side by side."""
        for run in planning(points, out, clock, cores()):
            refuse_coarse(run)
            yield run

    def warnings(self, planned: Sequence[PlannedRun]) -> Iterator[str]:
        """Time limits that are too short, small windows, models that do not fit their devices."""
        return warnings(planned)

    def write_task(self, planned: PlannedRun) -> None:
        """Writes the task and its plans, and the programs beside them."""
        _write_task(planned)

    def completion(self, planned: PlannedRun, ended: MachineEnd) -> Completion:
        """How the replay ended, and how fast it was."""
        division = planned.division
        return Completion(
            planned.key,
            ended.chosen,
            _speed(planned, ended),
            division.number,
            division.error,
            ended.worker,
            ended.stopped,
        )

    def longer(self, planned: PlannedRun, judged: JudgedRun) -> PlannedRun | None:
        """The run with a longer warm-up, if all that is wrong is that iterations were not steady."""
        return lengthened(planned, judged)

    def judge(self, stored: StoredRun, point: Point, completion: Completion) -> JudgedRun:
        """Logs and counters against the plan."""
        return judge_plan_run(stored, point, completion)

    def judge_failure(
        self, stored: StoredRun, point: Point, verdict: Verdict, wall_s: float, planned: PlannedRun | None = None
    ) -> JudgedRun:
        """A run without results, of the first of its candidate plans."""
        first = (next(iter(planned.plans.values())), planned.fabric) if planned else None
        return failed_plan_run(stored, point, verdict, wall_s, first)

    def write_points(self, out: Path, runs: Sequence[JudgedRun]) -> None:
        """Writes points.csv of the points that are done so far."""
        write_points_csv(out / "points.csv", [run.result for run in by_job(runs)])

    def compared(self, runs: Sequence[JudgedRun], screen: Screen) -> Sequence[JudgedRun]:
        """With how far valid runs are from an ideal network, which is looked for once."""
        return compared(runs, screen.working)

    def finish(self, scenario: Scenario, planned: Sequence[PlannedRun], out: Path, jobs: int) -> None:
        """Estimates whole models where a ranking has some of their blocks."""
        if scenario.chart == "ranking":
            estimate_whole(planned, out, jobs)

    def write_report(self, scenario: Scenario, runs: Sequence[JudgedRun], folder: Path, out: Path) -> list[Part]:
        """Tables, charts, notes and every point."""
        return write_report(scenario, by_job(runs), folder, out)

    def conclusion(self, scenario: Scenario, runs: Sequence[JudgedRun], folder: Path) -> str:
        """The conclusion with which the report begins."""
        runs = by_job(runs)
        findings = findings_of_runs(scenario, runs, folder)
        return str(conclusion([run.result for run in runs], findings, Labels(scenario.labels)))

    def points_frame(self, runs: Sequence[JudgedRun]) -> pd.DataFrame:
        """points.csv with types."""
        runs = by_job(runs)
        return points_frame([run.result for run in runs], [run.folder.name for run in runs])

    def points_table(self, scenario: Scenario, runs: Sequence[JudgedRun]) -> TextTable:
        """Points pooled over seeds, with printed values."""
        pooled = pool_seeds([run.result for run in by_job(runs)])
        return points_table(pooled, compare_printed(pooled, printed_cells(scenario)), scenario.labels)


def _speed(planned: PlannedRun, ended: MachineEnd) -> RunSpeed:
    plan = planned.plans[ended.chosen]
    payload_bytes = int(plan.ops.size_bytes[plan.is_remote()].sum()) * planned.iterations
    return RunSpeed(ended.first_byte_s, ended.replay_s, payload_bytes, ended.total_s)


def _write_task(planned: PlannedRun) -> None:
    section = planned.point.section
    files = []
    for number, (label, plan) in enumerate(planned.plans.items()):
        files.append(PlanFile(label, f"plan-{number}.npz"))
        plan.save(planned.folder / files[-1].file)
    task = PointTask(
        fabric_json=planned.fabric.to_json(),
        plans=tuple(files),
        iterations=planned.iterations,
        warmup=planned.window.warmup,
        search_iterations=section.run.search_iterations,
        sockets=sockets_of(section, planned.fabric, planned.clock, planned.unsent_bytes),
        per_host=section.transport.agents == "per-host",
        clock=planned.clock.name,
        switch_prefix="",
        capture=tuple(section.run.capture),
        capture_snaplen=section.run.capture_snaplen,
        programs=bool(section.program),
        faults=planned_faults(section.fault, planned.fabric, planned.point.resolved.workers_of_jobs),
        stall_limit_ns=round(section.run.stall_limit * 1e9) if section.fault else 0,
        queue_period_ns=round((section.run.queue_sample or 0.0) * 1e9),
        compiled_agent=_compiled_agent(section, planned.clock),
        controller_app=_controller_app(section),
    )
    write_json(planned.folder / TASK_FILE, task)
    if section.program:
        write_programs(planned.folder, section.program, planned.fabric)


def _controller_app(section: PointSection) -> str:
    """The code of a user's controller; "" without one. Raises InputFault as `controller_text`."""
    if section.fabric.controller is None:
        return ""
    found = section.defined.controllers[section.fabric.controller]
    return controller_text(found.file, found.sha256)


def _compiled_agent(section: PointSection, clock: Clock) -> str:
    """Path of the compiled agent in the machine; "" on the wall clock, whose kernel cannot run it."""
    return COMPILED_AGENT if clock.name == "virtual" and section.transport.agent_code == "compiled" else ""


def sockets_of(section: PointSection, fabric: Fabric, clock: Clock, unsent_bytes: int | None) -> SocketOptions:
    """Sizes of sockets. On the wall clock they are divided like all bytes, as far as sockets can be that small, unless the kernel grows
    them."""
    grown = is_grown(section, fabric)
    bytes_each = 0 if grown else buffer_bytes(section, fabric)
    if clock.name == "virtual" or grown:
        line = round(max(fabric.host_bps) * fabric.goodput_share() / 8) if section.congestion in KNOWS_LINE else 0
        return SocketOptions(bytes_each, unsent_bytes, section.congestion, path_bytes(section, fabric), line)
    return SocketOptions(
        max(SMALLEST_BUFFER_BYTES, bytes_each // clock.scale),
        None if unsent_bytes is None else max(1, unsent_bytes // clock.scale),
        section.congestion,
    )


def lengthened(planned: PlannedRun, judged: JudgedRun) -> PlannedRun | None:
    """The run with a longer warm-up and more iterations; None if it was steady, is measured from its cold start, has
    another fault, or cannot be longer.

    It keeps its key: what was measured decides about it, and whatever decided that is in the key.
    """
    failed = [check.name for check in judged.verdict.checks if not check.ok]
    if judged.warmup == 0 or failed != [STEADY] or not judged.ended:
        return None
    most = min(MOST_ITERATIONS, most_iterations(planned.point, planned.plans, planned.clock))
    longer = longer_window(judged.iteration_times_s, judged.warmup, most)
    return replace(planned, window=MeasuredIterations(*longer)) if longer else None
