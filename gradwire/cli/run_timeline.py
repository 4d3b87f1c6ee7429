"""The output of `gradwire trace`: an iteration's timeline; for programs, which have no plan, the network's pauses or captured packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.pause_report import pause_events
from gradwire.analysis.timeline.packet_events import NETWORK, name_event, packet_events
from gradwire.analysis.timeline.trace import Event, network_process, trace_events, write_trace
from gradwire.runs.judged import verdict_of
from gradwire.runs.ran_programs import Executed, RanPoint, RanPrograms
from gradwire.runs.stored.run_files import fitting
from gradwire.runs.stored.run_folder import chosen_iteration
from gradwire.runs.stored.spines import Spines
from gradwire.runs.stored.stored_run import StoredRun


@dataclass(frozen=True)
class RunTimeline:
    """The events of an iteration in the trace event format; or those of programs, which have no iterations."""

    label: str
    iteration: int | None
    #: Summary of the run's verdict.
    verdict: str
    events: Sequence[Event]

    def write(self, path: Path) -> None:
        """Writes the timeline as JSON, compressed if the name ends in .gz."""
        iteration = {} if self.iteration is None else {"iteration": str(self.iteration)}
        write_trace(path, self.events, {"point": self.label, **iteration, "verdict": self.verdict})

    @property
    def file_name(self) -> str:
        """Default name of the file."""
        return "trace.json" if self.iteration is None else f"trace-{self.iteration}.json"

    @property
    def what(self) -> str:
        """Name of the iteration or of the point, in words."""
        return self.label if self.iteration is None else f"iteration {self.iteration} of {self.label}"


def make_timeline(found: StoredRun | RanPrograms, iteration: int | None) -> RunTimeline:
    """Makes the timeline of an iteration of a run that has a plan, by default of the slowest measured one, and otherwise of what is
    known of the network.

    Raises InputFault for an iteration that the run does not have, for programs of which nothing is known, and for a
    file that cannot be read.
    """
    match found:
        case StoredRun():
            return _of_iteration(found, iteration)
        case RanPoint():
            return _of_pauses(found)
        case Executed():
            return _of_packets(found)


def _of_iteration(stored: StoredRun, iteration: int | None) -> RunTimeline:
    plan, fabric, log, record = stored.plan(), stored.built_fabric(), stored.log(), stored.record()
    with fitting(stored.folder):
        verdict = verdict_of(stored)
        chosen = chosen_iteration(iteration, stored.label, plan, log, record)
        events = trace_events(plan, log, chosen, fabric, Spines(fabric).spine_of, faults=record.faults)
        if (pauses := stored.pauses()) is not None:
            begin_ns, end_ns = iteration_ends_ns(plan, log, chosen + 1)[chosen:].tolist()
            events += pause_events(pauses, fabric, begin_ns, end_ns, network_process(plan))
    return RunTimeline(stored.label, chosen, verdict.summary, events)


def _of_pauses(ran: RanPoint) -> RunTimeline:
    """Every pause while programs ran."""
    pauses, verdict = ran.pauses(), ran.verdict()
    end_ns = round(ran.summary().report.duration_s * 1e9)
    events = pause_events(pauses, ran.fabric(), 0, end_ns, NETWORK)
    return RunTimeline(
        ran.label, None, verdict.summary, [name_event("process_name", NETWORK, "network: pauses"), *events]
    )


def _of_packets(executed: Executed) -> RunTimeline:
    """Each captured packet, for as long as its port's line is busy with it."""
    captures = executed.captures()
    rates_bps = {port.interface: rate_bps for port, rate_bps in executed.fabric().ports()}
    begin_ns = min((int(packets.time_ns.min()) for packets in captures.values() if len(packets.time_ns)), default=0)
    events: list[Event] = [name_event("process_name", 0, "network: packets")]
    for number, (port, packets) in enumerate(captures.items()):
        events += packet_events(port, packets, rates_bps[port], begin_ns, 2 * number + 1)
    count = sum(len(packets.time_ns) for packets in captures.values())
    return RunTimeline(executed.label, None, f"{count:,} packets", events)
