"""Notes on the requests of runs that serve a model."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.analysis.report.request_words import measured_requests
from gradwire.analysis.request_times import computed_request_times, logged_request_times, plans_of_requests
from gradwire.runs.compiling.ideal_times import request_times, rule_of
from gradwire.runs.judged import JudgedRun
from gradwire.runs.stored.run_files import fitting


def request_notes(runs: Sequence[JudgedRun]) -> list[str]:
    """A sentence on each valid run that served requests: their times, those on an ideal network, and by computation alone."""
    notes = []
    for run in runs:
        if not run.result.valid:
            continue
        with fitting(run.folder):
            whole = run.stored.plan()
            for name, plan in plans_of_requests(whole):
                record, rule = run.stored.record(), rule_of(run.stored.task().sockets.unsent_bytes)
                measured = logged_request_times(plan, run.stored.log(), record.warmup, record.iterations)
                ideal = request_times(plan, run.fabric, rule)
                alone = computed_request_times(plan)
                label = f"{run.label} job {name}" if name else run.label
                notes.append(f"{label}: {measured_requests(measured, ideal, alone)}")
    return notes
