"""Replays several plans, one after the other, on one machine and one fabric, for calibration and for experiments."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.agents.connections import SocketOptions
from gradwire.datatypes.network_counts import NetworkCounts
from gradwire.datatypes.pauses import PauseState
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, QueueLengths, SocketState
from gradwire.faults import MachineFault
from gradwire.inside.point_protocol import (
    REPLAY_TASK_FILE,
    Faulted,
    PlanReplayed,
    ReplayNote,
    ReplayTask,
    built_fabric,
    heard,
    read_json,
    write_json,
)
from gradwire.inside.replay_job import log_file, note_file, plan_file, queues_file
from gradwire.network.fabric import Fabric
from gradwire.network.path_delays import LEAST_BUFFER_BYTES
from gradwire.vm.batch_job import COMPILED_AGENT
from gradwire.vm.machines import Clock, run_job
from gradwire.vm.owners import temporary_folder
from gradwire.workloads.stand_in import scaled_fabric, scaled_plan

TIME_LIMIT_S = 1800.0
LAST_LINES = 10
"""Lines of output that a failure is reported with."""
DEFAULT_SOCKETS = SocketOptions(LEAST_BUFFER_BYTES, unsent_bytes=None)


@dataclass(frozen=True)
class ReplayedPlan:
    """A replayed plan and its results."""

    #: The plan as it was replayed, scaled on the wall clock.
    plan: Plan
    #: The fabric as it was built.
    fabric: Fabric
    log: OpLog
    #: Multicast datagrams that were sent again.
    repairs: int = 0
    #: The network's counters, if they were asked for.
    counts: NetworkCounts | None = None
    #: State of flow control; None without it.
    pauses: PauseState | None = None
    #: Lengths of the queues of switches' ports, if they were asked for.
    queues: QueueLengths | None = None
    #: State of sending sockets, if counters were asked for.
    sockets: tuple[SocketState, ...] = ()


@dataclass(frozen=True)
class Reads:
    """Choice of what to read of the network while plans are replayed."""

    #: All counters before and after each plan, which costs one process per host.
    counters: bool = False
    #: Switches' queues this often; 0 for never.
    queue_period_ns: int = 0


NOTHING_READ, COUNTERS = Reads(), Reads(counters=True)


def replay_plans(
    plans: Mapping[str, Plan],
    fabric: Fabric,
    iterations: int,
    *,
    clock: Clock | None = None,
    sockets: SocketOptions = DEFAULT_SOCKETS,
    reads: Reads = NOTHING_READ,
    on_plan: Callable[[str], None] = lambda _: None,
) -> dict[str, ReplayedPlan]:
    """Replays each plan for `iterations`; `on_plan` hears the name of each plan that is done. Raises a Fault of the
    machine."""
    clock = clock or Clock()
    fabric = scaled_fabric(fabric, clock.scale)
    scaled = {name: scaled_plan(plan, clock.scale) for name, plan in plans.items()}
    with temporary_folder() as folder:
        fabric = built_fabric(fabric, scaled.values())
        for number, plan in enumerate(scaled.values()):
            plan.save(folder / plan_file(number))
        task = ReplayTask(
            fabric_json=fabric.to_json(),
            plans=len(scaled),
            iterations=iterations,
            clock=clock.name,
            sockets=sockets,
            count=reads.counters,
            compiled_agent=COMPILED_AGENT if clock.name == "virtual" else "",
            queue_period_ns=reads.queue_period_ns,
        )
        write_json(folder / REPLAY_TASK_FILE, task)
        output = _Output(list(scaled), on_plan)
        status = run_job(
            "gradwire.inside.replay_job",
            folder,
            clock,
            time_limit_s=TIME_LIMIT_S,
            on_line=output.line,
        )
        if status:
            raise MachineFault(f"the replay failed with status {status}: {output.last_words()}")
        return {name: _replayed(plan, fabric, folder, number) for number, (name, plan) in enumerate(scaled.items())}


class _Output:
    """Reads the output of the machine."""

    def __init__(self, names: Sequence[str], on_plan: Callable[[str], None]) -> None:
        self._names, self._on_plan = names, on_plan
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._fault = ""

    def line(self, line: str) -> None:
        """Takes a line of output."""
        self._last_lines.append(line)
        match heard(line):
            case PlanReplayed(number=number):
                self._on_plan(self._names[number])
            case Faulted(message=message):
                self._fault = message

    def last_words(self) -> str:
        """The fault that the machine reported, or else its last lines."""
        return self._fault or "\n".join(self._last_lines)


def _replayed(plan: Plan, fabric: Fabric, folder: Path, number: int) -> ReplayedPlan:
    note = read_json(folder / note_file(number), ReplayNote)
    queues = folder / queues_file(number)
    return ReplayedPlan(
        plan,
        fabric,
        OpLog.load(folder / log_file(number)),
        note.repairs,
        note.counts,
        note.pauses,
        QueueLengths.load(queues) if queues.exists() else None,
        note.sockets,
    )
