"""Replays several plans, one after the other, on one machine and one fabric, for calibration and for experiments.

`replay_plans` boots a machine that runs this module (`python -m gradwire.runs.replay FOLDER`) and brings the logs out.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwire.agents.connections import SocketOptions
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.path_delays import LEAST_BUFFER_BYTES
from gradwire.datatypes.pauses import PauseState
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import NetworkCounts, OpLog, QueueLengths, SocketState
from gradwire.faults import MachineFault
from gradwire.runs.deadlock_watch import watching
from gradwire.runs.point import Reading, bench, run_inside
from gradwire.runs.point_protocol import (
    REPLAY_TASK_FILE,
    Faulted,
    PlanReplayed,
    ReplayNote,
    ReplayTask,
    built_fabric,
    heard,
    read_json,
    say,
    write_json,
)
from gradwire.runs.queue_sampling import sampling
from gradwire.vm.code_digest import RUN_MODULES
from gradwire.vm.machine import COMPILED_AGENT
from gradwire.vm.machines import Clock, run_job
from gradwire.vm.owners import temporary_folder
from gradwire.workloads.stand_in import scaled_fabric, scaled_plan

TIME_LIMIT_S = 1800.0
LAST_LINES = 10
"""Lines of output that a failure is reported with."""
DEFAULT_SOCKETS = SocketOptions(LEAST_BUFFER_BYTES, unsent_bytes=None)


@dataclass(frozen=True)
class Replayed:
    """A replayed plan and what it left."""

    #: The plan as it was replayed, scaled on the wall clock.
    plan: Plan
    #: The fabric as it was built.
    fabric: Fabric
    log: OpLog
    #: Multicast datagrams that were sent again.
    repairs: int = 0
    #: The network's counters, if they were asked for.
    counts: NetworkCounts | None = None
    #: What flow control did; None without it.
    pauses: PauseState | None = None
    #: How long the queues of switches' ports were, if that was asked for.
    queues: QueueLengths | None = None
    #: What became of sending sockets, if counters were asked for.
    sockets: tuple[SocketState, ...] = ()


@dataclass(frozen=True)
class Reads:
    """What is read of the network while plans are replayed."""

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
) -> dict[str, Replayed]:
    """Replays each plan for `iterations`; `on_plan` hears the name of each plan that is done. Raises a Fault of the
    machine."""
    clock = clock or Clock()
    fabric = scaled_fabric(fabric, clock.scale)
    scaled = {name: scaled_plan(plan, clock.scale) for name, plan in plans.items()}
    with temporary_folder() as folder:
        fabric = built_fabric(fabric, scaled.values())
        for number, plan in enumerate(scaled.values()):
            plan.save(folder / _plan_file(number))
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
            "gradwire.runs.replay", folder, clock, imports=RUN_MODULES, time_limit_s=TIME_LIMIT_S, on_line=output.line
        )
        if status:
            raise MachineFault(f"the replay failed with status {status}: {output.last_words()}")
        return {name: _replayed(plan, fabric, folder, number) for number, (name, plan) in enumerate(scaled.items())}


class _Output:
    """Reads what the machine prints."""

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


def _plan_file(number: int) -> str:
    return f"plan-{number}.npz"


def _log_file(number: int) -> str:
    return f"ops-{number}.npz"


def _note_file(number: int) -> str:
    return f"note-{number}.json"


def _queues_file(number: int) -> str:
    return f"queues-{number}.npz"


def _replayed(plan: Plan, fabric: Fabric, folder: Path, number: int) -> Replayed:
    note = read_json(folder / _note_file(number), ReplayNote)
    queues = folder / _queues_file(number)
    return Replayed(
        plan,
        fabric,
        OpLog.load(folder / _log_file(number)),
        note.repairs,
        note.counts,
        note.pauses,
        QueueLengths.load(queues) if queues.exists() else None,
        note.sockets,
    )


def _replay_all(folder: Path) -> None:
    """The job inside the machine."""
    task = read_json(folder / REPLAY_TASK_FILE, ReplayTask)
    fabric = Fabric.from_json(task.fabric_json)
    with bench(
        fabric,
        task.sockets,
        folder,
        clock=task.clock,
        per_host=False,
        switch_prefix="gr",
        compiled_agent=task.compiled_agent,
    ) as ready:
        for number in range(task.plans):
            path = folder / _plan_file(number)
            before = Reading(ready.network) if task.count else None
            control = ready.network.flow_control
            if control is not None:
                control.forget()
            with (
                sampling(ready.network.switch_interfaces(), task.queue_period_ns) as sampler,
                watching(ready.network, ready.agents),
            ):
                log, summaries = ready.agents.replay(
                    Plan.load(path), path, task.iterations, lambda _: None, waits=not task.queue_period_ns
                )
            log.save(folder / _log_file(number))
            if sampler is not None:
                sampler.lengths(ready.agents.start_ns).save(folder / _queues_file(number))
            counts = Reading(ready.network).since(before) if before else None
            repairs = sum(agent.multicast_repairs for agent in summaries)
            write_json(
                folder / _note_file(number),
                ReplayNote(
                    repairs,
                    counts,
                    control.state() if control is not None else None,
                    tuple(state for agent in summaries for state in agent.sockets) if task.count else (),
                ),
            )
            say(PlanReplayed(number))


if __name__ == "__main__":
    sys.exit(run_inside(_replay_all))
