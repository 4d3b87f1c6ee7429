"""The findings of a run's points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradwire.analysis.fault_effects import FaultEffect, MeansAroundFaults
from gradwire.analysis.findings.findings import Finding, find
from gradwire.analysis.findings.observations import JOB, OtherResults, observations
from gradwire.analysis.request_times import logged_request_times, plans_of_requests
from gradwire.faults import InputFault
from gradwire.runs.comparing.whole import ranked_rows
from gradwire.runs.judged import JudgedRun
from gradwire.runs.stored.explanation import edges_of_jobs
from gradwire.runs.stored.run_files import fitting
from gradwire.scenario.contenders import PARTIAL, is_random
from gradwire.scenario.loading import Scenario


def findings_of_runs(scenario: Scenario, runs: Sequence[JudgedRun], folder: Path) -> tuple[Finding, ...]:
    """Returns the findings of runs, by the times of whole models where a few blocks stood for them.

    runs: one for each of several jobs. Raises InputFault for a damaged file.
    """
    rows = ranked_rows(runs, folder)
    random = [is_random(run.point.section) for run in runs]
    return find(observations(rows, PARTIAL, random, [_other_results(run) for run in runs]), scenario.keys)


def serves_requests(run: JudgedRun) -> bool:
    """Returns whether a run served requests, which compute by their own lengths and not by a training's iteration."""
    try:
        resolved = run.point.resolved
        return any(not each.strategy.trains for each in resolved.jobs.values() or (resolved,))
    except InputFault:  # this version does not know the point any more
        return False


def _other_results(run: JudgedRun) -> OtherResults:
    """What a run shows that is not in its row."""
    if not run.result.valid:
        return OtherResults()
    if not serves_requests(run):
        return OtherResults(_fault_effect(run))
    record, of_job = run.stored.record(), run.result.parameters.get(JOB, "")
    with fitting(run.folder):
        served = dict(plans_of_requests(run.stored.plan())).get(of_job)
        if served is None:
            return OtherResults()
        times = logged_request_times(served, run.stored.log(), record.warmup, record.iterations)
    return OtherResults(requests=times)


def _fault_effect(run: JudgedRun) -> FaultEffect | None:
    """What faults did to the iterations of a run of one job; None without faults."""
    if not run.point.section.fault or run.point.section.job:
        return None
    record = run.stored.record()
    with fitting(run.folder):
        (edges_ns,) = edges_of_jobs(run.stored.plan(), run.stored.log(), record.iterations).values()
        means = MeansAroundFaults.of(edges_ns, record.warmup, record.faults)
    return None if means is None else means.effect()
