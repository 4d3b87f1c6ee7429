"""The timeline of an iteration of a run, from what the run left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.pause_report import pause_events
from gradwire.analysis.timeline.trace import Event, network_process, trace_events, write_trace
from gradwire.runs.judged import verdict_of
from gradwire.runs.stored.files import fitting
from gradwire.runs.stored.run_folder import chosen_iteration
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import StoredRun


@dataclass(frozen=True)
class Timeline:
    """What a run did in an iteration, as events of the trace event format."""

    label: str
    iteration: int
    #: Summary of the run's verdict.
    verdict: str
    events: Sequence[Event]

    def write(self, path: Path) -> None:
        """Writes the timeline as JSON, compressed if the name ends in .gz."""
        about = {"point": self.label, "iteration": str(self.iteration), "verdict": self.verdict}
        write_trace(path, self.events, about)


def timeline_of(stored: StoredRun, iteration: int | None) -> Timeline:
    """The timeline of an iteration, by default the slowest measured one. Raises InputFault for a number that the run
    does not have."""
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    with fitting(stored.folder):
        verdict = verdict_of(stored)
        chosen = chosen_iteration(iteration, stored.label, plan, log, record)
        events = trace_events(plan, log, chosen, fabric, Spines(fabric).spine_of, faults=record.faults)
        if (pauses := stored.pauses()) is not None:
            begin_ns, end_ns = iteration_ends_ns(plan, log, chosen + 1)[chosen:].tolist()
            events += pause_events(pauses, fabric, begin_ns, end_ns, network_process(plan))
    return Timeline(stored.label, chosen, verdict.summary, events)
