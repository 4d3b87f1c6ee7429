"""Replays the plans of a folder, one after the other, on one network. `python -m gradwire.inside.replay_job FOLDER`, inside
the machine; runs/replay.py writes the folder, and reads what this leaves."""

from __future__ import annotations

import sys
from pathlib import Path

from gradwire.datatypes.plan import Plan
from gradwire.inside.deadlock_watch import watching
from gradwire.inside.first_packets import announce_ways
from gradwire.inside.point import bench, run_inside
from gradwire.inside.point_protocol import (
    REPLAY_TASK_FILE,
    PlanReplayed,
    ReplayNote,
    ReplayTask,
    read_json,
    say,
    write_json,
)
from gradwire.inside.queue_sampling import sampling
from gradwire.inside.readings import CounterReading, forget_counts
from gradwire.network.fabric import Fabric


def plan_file(number: int) -> str:
    """A plan's name in the job's folder."""
    return f"plan-{number}.npz"


def log_file(number: int) -> str:
    """The name of its log."""
    return f"ops-{number}.npz"


def note_file(number: int) -> str:
    """The name of the file of a ReplayNote."""
    return f"note-{number}.json"


def queues_file(number: int) -> str:
    """The name of the lengths of queues, if they were asked for."""
    return f"queues-{number}.npz"


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
        announce_ways(ready.testbed.network, [Plan.load(folder / plan_file(number)) for number in range(task.plans)])
        for number in range(task.plans):
            path = folder / plan_file(number)
            before = CounterReading(ready.testbed.network) if task.count else None
            control = ready.testbed.network.flow_control
            forget_counts(ready.testbed.network)
            with (
                sampling(ready.testbed.network.switch_interfaces(), task.queue_period_ns) as sampler,
                watching(ready.testbed.network, ready.agents),
            ):
                log, summaries = ready.agents.replay(
                    Plan.load(path), path, task.iterations, lambda _: None, waits=not task.queue_period_ns
                )
            log.save(folder / log_file(number))
            if sampler is not None:
                sampler.lengths(ready.agents.start_ns).save(folder / queues_file(number))
            counts = CounterReading(ready.testbed.network, settles=True).since(before) if before else None
            repairs = sum(agent.multicast_repairs for agent in summaries)
            write_json(
                folder / note_file(number),
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
