"""The findings of a run's points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradwire.analysis.findings.findings import Finding, find
from gradwire.analysis.findings.observations import observations
from gradwire.runs.comparing.whole import ranked_rows
from gradwire.runs.judged import JudgedRun
from gradwire.scenario.contenders import PARTIAL, is_random
from gradwire.scenario.loading import Scenario


def findings_of_runs(scenario: Scenario, runs: Sequence[JudgedRun], folder: Path) -> tuple[Finding, ...]:
    """Returns the findings of runs, by the times of whole models where a few blocks stood for them.

    runs: one for each of several jobs. Raises InputFault for a damaged file.
    """
    rows = ranked_rows(runs, folder)
    random = [is_random(run.point.section) for run in runs]
    return find(observations(rows, PARTIAL, random), scenario.keys)
