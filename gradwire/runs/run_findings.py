"""The findings of a run's points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradwire.analysis.fault_effects import FaultEffect, MeansAroundFaults
from gradwire.analysis.findings.findings import Finding, find
from gradwire.analysis.findings.observations import observations
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
    return find(observations(rows, PARTIAL, random, [_fault_effect(run) for run in runs]), scenario.keys)


def _fault_effect(run: JudgedRun) -> FaultEffect | None:
    """What faults did to the iterations of a valid run of one job; None without faults."""
    if not (run.result.valid and run.point.section.fault) or run.point.section.job:
        return None
    record = run.stored.record()
    with fitting(run.folder):
        (edges_ns,) = edges_of_jobs(run.stored.plan(), run.stored.log(), record.iterations).values()
        means = MeansAroundFaults.of(edges_ns, record.warmup, record.faults)
    return None if means is None else means.effect()
