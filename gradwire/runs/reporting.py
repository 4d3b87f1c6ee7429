"""Collects the contents of a finished run's report: its printed cells, its constants, its own speed, and the ranking if
it has one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from gradwire.analysis.congestion_report import congestion_lines
from gradwire.analysis.figure_frames import frame_of_figures
from gradwire.analysis.fluid.steady import MeasuredIterations
from gradwire.analysis.iterations import fault_lines
from gradwire.analysis.link_loads import has_choices
from gradwire.analysis.parameters import fits
from gradwire.analysis.point_frames import points_frame, write_frame, write_points_csv, write_points_parquet
from gradwire.analysis.printed_cells import PrintedCell, cells_of_claims
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.finding_table import findings_frame
from gradwire.analysis.report.program_report import FIGURES_FILE
from gradwire.analysis.report.report import Background, PointDetails, Presentation, Results, report
from gradwire.analysis.report.run_notes import (
    LoadedPoint,
    PointSpeed,
    tell_asked_division,
    tell_finer_bursts,
    tell_forced_division,
    tell_later_window,
    tell_loaded_lines,
    tell_programs,
    tell_slow_agents,
    tell_speed,
    tell_stopped,
)
from gradwire.analysis.report.tables import Constant
from gradwire.analysis.report.text_table import Part
from gradwire.analysis.verdict.host_checks import replaced_settings
from gradwire.datatypes.records import NOT_SERVED
from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.network.fabric import MAX_GSO_BYTES, Fabric
from gradwire.runs.comparing.whole import ranking_of
from gradwire.runs.compiling.part_of_job import PART_NOTE
from gradwire.runs.free_and_assumed import free_and_assumed
from gradwire.runs.judged import JudgedRun
from gradwire.runs.network_notes import network_notes
from gradwire.runs.point_machine import OUTPUT_FILE
from gradwire.runs.request_notes import request_notes
from gradwire.runs.run_findings import findings_of_runs, serves_requests
from gradwire.runs.stored.explanation import edges_of_jobs, explain
from gradwire.runs.stored.provenance import facts, provenance
from gradwire.runs.stored.run_files import fitting
from gradwire.runs.stored.run_folder import CLOCK_FILE, stored_clock
from gradwire.runs.stored.settings_in_words import COST_UNITS, as_recorded, settings_of
from gradwire.runs.stored.spines import find_loaded_lines
from gradwire.runs.stored.stored_run import ITERATIONS_FILE, RECORD_FILE, REQUESTS_FILE, VERDICT_FILE, Completion
from gradwire.scenario.loading import Point, Scenario, origin_named, resolve, without_settings
from gradwire.vm.machines import Clock

SEED = "run.seed"
FINDINGS_FILE = "findings.csv"
"""File of a run folder with what the run shows, comparison by comparison."""
MOST_CHARTED = 24
"""Points of a report that are drawn over time, the first ones: a drawing takes about 50 kB, and half a second."""
LINKED_FILES = (VERDICT_FILE, ITERATIONS_FILE, REQUESTS_FILE, RECORD_FILE, OUTPUT_FILE)
"""Files of a point that people read."""


def printed_cells(scenario: Scenario) -> list[PrintedCell]:
    """The values of a paper that a scenario shows with its points: its own, and the claims that it names. Raises
    InputFault."""
    with origin_named(scenario.points[0]):
        own = [PrintedCell(**cell.model_dump()) for cell in scenario.printed]
        return [*own, *cells_of_claims(scenario.printed_claims)]


def with_own_values(scenario: Scenario) -> Scenario:
    """The scenario without the printed values that belong to other settings than its own. Raises InputFault."""
    return without_foreign_values(scenario, without_settings(scenario)) if scenario.settings else scenario


def without_foreign_values(scenario: Scenario, original: Scenario) -> Scenario:
    """Leaves out the printed values that belong to other settings than the scenario's, because `--set` changed those of
    `original`.

    A value stays if the points that it is compared with are points of `original` too, whatever the length of their
    runs.
    """
    printed = printed_cells(scenario)
    known = {_measured_section(point) for point in original.points}
    kept = [cell for cell in printed if _is_of(cell, scenario, known)]
    if len(kept) == len(printed):
        return scenario
    note = f"printed values left out, whose settings no point has: {len(printed) - len(kept)} of {len(printed)}"
    changed: Document = {
        "printed": [_without_defaults(cell) for cell in kept],
        "printed_claims": [],
        "notes": [*scenario.notes, note],
    }
    resolved = resolve({**scenario.document, **changed}, scenario.points[0].origin, scenario.name)
    return replace(resolved, settings=scenario.settings)


def _is_of(cell: PrintedCell, scenario: Scenario, known: Container[str]) -> bool:
    for where in (cell.where, {**cell.where, **cell.baseline}):
        points = [point for point in scenario.points if fits(point.parameters, where)]
        if not points or any(_measured_section(point) not in known for point in points):
            return False
    return True


def _measured_section(point: Point) -> str:
    """Text that is equal for points that measure the same, for any length and any seed."""
    return point.section.model_dump_json(exclude={"run"})


def _without_defaults(cell: PrintedCell) -> Document:
    return {field.name: value for field in fields(cell) if (value := getattr(cell, field.name)) not in (False, "", {})}


def write_report(scenario: Scenario, runs: Sequence[JudgedRun], folder: Path, out: Path | None = None) -> list[Part]:
    """Writes points.csv, points.parquet if pyarrow is there, findings.csv, and the report of a run folder into it, or into `out`.

    Returns what a terminal shows. runs: as `compared` gives them, or else without a comparison with an ideal network.
    """
    rows = [run.result for run in runs]
    by_folder = {run.folder: run for run in reversed(runs)}  # of several jobs, each has a row
    points = list(reversed(by_folder.values()))
    charted = {id(run) for run in points[:MOST_CHARTED]}
    out = out or folder
    write_points_csv(out / "points.csv", rows)
    write_points_parquet(out / "points.parquet", points_frame(rows, [run.folder.name for run in runs]))
    (out / FIGURES_FILE).unlink(missing_ok=True)
    figures = [(run.point.parameters, run.figures, run.result.verdict) for run in points]
    if any(run.figures for run in runs):
        write_frame(out / FIGURES_FILE, frame_of_figures(figures))
    results = Results(
        rows,
        [run.verdict for run in runs],
        [_details(run, out, charted=id(run) in charted) for run in runs],
    )
    findings = findings_of_runs(scenario, runs, folder)
    write_frame(out / FINDINGS_FILE, findings_frame(findings, Labels(scenario.labels)))
    presentation = Presentation(
        scenario.title,
        printed_cells(scenario),
        _constants(runs),
        labels=scenario.labels,
        notes=[
            *scenario.notes,
            *network_notes(run.point.section for run in points),
            *(f"{label}: {note}" for label, note in notes_of_parts(points)),
            *_division_notes(points),
            *_burst_notes(points),
            *_window_notes(points),
            *_program_notes(points),
            *_fault_notes(points),
            *request_notes(points),
            *_congestion_notes(points),
            *_line_notes(points),
            *_parameter_notes(points),
            *_agent_notes(points),
            *stop_notes(points),
            *_speed_notes(points),
            *_last_line(points),
        ],
        ranking=ranking_of(scenario, runs, folder),
        findings=findings,
    )
    return report(out, results, presentation, _background(scenario, runs, folder))


def _details(run: JudgedRun, folder: Path, *, charted: bool) -> PointDetails:
    """Details of one run in the report of its run folder. charted: whether it is drawn over time."""
    place = run.folder.relative_to(folder).as_posix() if run.folder.is_relative_to(folder) else ""
    files = tuple(name for name in LINKED_FILES if (run.folder / name).exists())
    settings = as_recorded(settings_of(run.point), run.stored)
    if not run.result.valid:
        return PointDetails(settings, place, files)
    explanation = explain(run.stored, charted=charted)
    return PointDetails(
        settings,
        place,
        files,
        explanation.why,
        explanation.drawing,
        explanation.port,
        run.agreement,
        explanation.over_time,
        explanation.fault_times,
    )


def _background(scenario: Scenario, runs: Sequence[JudgedRun], folder: Path) -> Background:
    clock = stored_clock(folder) if (folder / CLOCK_FILE).exists() else None
    document = tomli_w.dumps(scenario.document)
    return Background(scenario.about.strip(), facts(provenance(folder), clock), document, _networks(runs, clock))


def _networks(runs: Sequence[JudgedRun], clock: Clock | None) -> list[Fabric]:
    """The networks of the points, at the rates that scenarios give."""
    networks = []
    for run in runs:
        try:
            networks.append(run.point.resolved.fabric)
        # The run folder names what this version does not know any more, or a strategy's file, which is not run.
        except InputFault:
            networks.append(_undivided(run, clock))
    return networks


def _undivided(run: JudgedRun, clock: Clock | None) -> Fabric:
    """The network that a run had, at the rate that its scenario gives."""
    completion = run.stored.completion()
    by = max(completion.divided_by if completion else 1, clock.scale if clock else 1)
    return run.fabric.with_rates_times(by)


def _constants(runs: Sequence[JudgedRun]) -> list[Constant]:
    """Every constant that the results rest on, once."""
    constants: dict[tuple[str, str], Constant] = {}
    for run in runs:
        section = run.point.section
        of_run = computations_of_jobs(run) if section.job else [] if serves_requests(run) else [computation(run)]
        for cost_name, cost in section.costs:
            if cost is not None:
                of_run.append(Constant(cost_name.replace("_", " "), cost.value, COST_UNITS[type(cost)], cost.source))
        constants.update({(constant.name, str(constant.value)): constant for constant in of_run})
    return list(constants.values())


def computation(run: JudgedRun) -> Constant:
    """Time in seconds that a worker alone computes in an iteration of the run, with its present source if that still
    gives the same time."""
    section = run.point.section
    device = f" on {section.model.device}" if section.model.device else ""
    iteration_s, source = _computation(run)
    return Constant(f"iteration of {section.model.name}{device}, alone", round(iteration_s, 4), "s", source)


def computations_of_jobs(run: JudgedRun) -> list[Constant]:
    """Times in seconds that a worker of each of several jobs alone computes in an iteration; empty if this version does
    not know the point any more, for the plan of all jobs does not tell them apart."""
    try:
        jobs = run.point.resolved.jobs
    except InputFault:
        return []
    found = []
    for name, job in jobs.items():
        model = run.point.section.job[name].model
        device = f" on {model.device}" if model.device else ""
        compute, source = job.compute, job.compute.source
        found.append(Constant(f"iteration of {model.name}{device}, alone", round(compute.iteration_s, 4), "s", source))
    return found


def _computation(run: JudgedRun) -> tuple[float, str]:
    try:
        compute = run.point.resolved.compute
    except InputFault:
        return run.compute_s, "as it was run; this version of gradwire does not know the point any more"
    source = compute.source + (f"; fitted on {compute.fitted_on}" if compute.fitted_on else "")
    # The forward pass alone is what a plan for inference computes.
    if any(math.isclose(run.compute_s, known_s) for known_s in (compute.iteration_s, sum(compute.forward_s))):
        return compute.iteration_s, source
    return run.compute_s, f"as it was run; now it would be {compute.iteration_s:.4f} s: {source}"


def notes_of_parts(runs: Sequence[JudgedRun[Any, Any]]) -> list[tuple[str, str]]:
    """Labels of points of which a part ran, with descriptions of the parts."""
    notes = []
    for run in runs:
        if run.completion is None or run.point.section.part is None:
            continue
        with fitting(run.folder):
            notes += [(run.label, note) for note in run.stored.plan().notes if note.startswith(PART_NOTE)]
    return notes


def _division_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """Notes on the division of bytes and rates, for run.fidelity or for the virtual clock, and on its effect."""
    asked: list[Completion] = []
    forced: list[Completion] = []
    for run in runs:
        completion = run.stored.completion() if run.result.valid else None
        if completion is None:
            continue
        fidelity = run.point.section.run.fidelity
        if fidelity is not None and completion.division_error <= fidelity:
            asked.append(completion)
        elif completion.divided_by > 1:
            forced.append(completion)
    return [
        tell([each.divided_by for each in divided], max(each.division_error for each in divided))
        for tell, divided in ((tell_asked_division, asked), (tell_forced_division, forced))
        if divided
    ]


def _burst_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """A note on points whose bursts were finer than they are elsewhere."""
    finer = Counter(
        run.fabric.gso_bytes
        for run in runs
        if run.result.valid and run.fabric.gso_bytes < run.point.section.fabric.gso_bytes == MAX_GSO_BYTES
    )
    return [tell_finer_bursts(count, gso_bytes) for gso_bytes, count in finer.items()]


def _window_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """Notes on points that were measured after a longer warm-up, because their iterations were not steady."""
    return [
        tell_later_window(
            run.label, run.unsteady, MeasuredIterations(run.warmup, len(run.iteration_times_s) - run.warmup)
        )
        for run in runs
        if run.unsteady and run.result.valid
    ]


def _program_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """Note on programs that ran together with a strategy; empty if there are none."""
    with_programs = sum(bool(run.point.section.program) for run in runs)
    if not with_programs:
        return []
    rows, of_jobs = sum(len(run.figures) for run in runs), any(run.point.section.job for run in runs)
    return [tell_programs(with_programs, len(runs), rows, of_jobs=of_jobs)]


def _fault_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """Notes on the times of faults, and on the iteration times before, during and after them."""
    lines = []
    for run in runs:
        if not (run.result.valid and run.point.section.fault):
            continue
        record = run.stored.record()
        with fitting(run.folder):
            edges_ns = edges_of_jobs(run.stored.plan(), run.stored.log(), record.iterations)
            lines += [f"{run.label}: {line}" for line in fault_lines(record.faults, edges_ns)]
    return lines


def _congestion_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """Notes on the effects of finite buffers, marks and congestion control, and on the lengths of queues if they were
    read."""
    lines = []
    for run in runs:
        if run.result.valid:
            with fitting(run.folder):
                said = list(congestion_lines(run.fabric, run.stored.record(), run.stored.queues()))
            lines += [f"{run.label}: {line}" for line in said]
    return lines


def _parameter_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """Settings of gradwire's own that the scenario replaces at hosts."""
    lines = []
    for run in runs:
        if run.result.valid:
            said = replaced_settings(run.stored.record().host_parameters)
            lines += [f"{run.label}: fabric.host replaces gradwire's own {line}" for line in said]
    return lines


def _agent_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """Note on compiled agents that were asked for but that the kernel could not run; empty if there are none."""
    slow = sum(
        run.result.valid and any(agent.code == NOT_SERVED for agent in run.stored.record().agents) for run in runs
    )
    return [tell_slow_agents(slow, len(runs))] if slow else []


def stop_notes(runs: Sequence[JudgedRun[Any, Any]]) -> list[str]:
    """Note on points that began anew because a signal had stopped their machine; empty if there are none."""
    stopped = [run.label for run in runs if run.completion and run.completion.stopped]
    return [tell_stopped(stopped)] if stopped else []


def _speed_notes(runs: Sequence[JudgedRun]) -> list[str]:
    speeds = [
        PointSpeed(speed.first_byte_s, speed.replay_s, speed.payload_bytes, speed.total_s)
        for run in runs
        if (speed := run.speed)
    ]
    return [tell_speed(speeds)] if speeds else []


def _last_line(runs: Sequence[JudgedRun]) -> list[str]:
    line = free_and_assumed([run.point for run in runs])
    return [line] if line else []


def _line_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """Notes on the most loaded lines of every valid point, and their range over points that differ in nothing but the
    seed."""
    alike: dict[tuple[tuple[str, str], ...], list[LoadedPoint]] = {}
    for run in runs:
        if not run.result.valid or not has_choices(run.fabric):
            continue
        with fitting(run.folder):
            lines = find_loaded_lines(run.stored.plan(), run.fabric)
        if lines:
            parameters = run.result.parameters
            own = tuple((key, str(value)) for key, value in parameters.items() if key != SEED)
            alike.setdefault(own, []).append(LoadedPoint(run.label, str(parameters.get(SEED, "")), lines))
    return [tell_loaded_lines(own, points) for own, points in alike.items()]
