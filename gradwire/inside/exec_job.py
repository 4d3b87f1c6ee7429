"""Runs one program per host until all have ended. `python -m gradwire.inside.exec_job FOLDER KEY`, inside the
kernel."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from gradwire.datatypes.pauses import PAUSES_FILE, PauseState
from gradwire.inside.capturing import capturing
from gradwire.inside.channel import Channel
from gradwire.inside.deadlock_times import DeadlockTimes, Together
from gradwire.inside.fault_times import FaultTimes, Timed
from gradwire.inside.injection import NetworkPatient
from gradwire.inside.kernel_messages import killed_for_memory
from gradwire.inside.lab import Lab, run_inside
from gradwire.inside.program_load import ProgramLoad, program_load
from gradwire.inside.program_protocol import JobTask, Report
from gradwire.inside.readings import CounterReading, forget_counts
from gradwire.network.fabric import Fabric
from gradwire.topo.deadlocks import Deadlocks
from gradwire.topo.flow_control import FlowControl

SNAPLEN_BYTES = 160
"""Kept of each captured packet, as for points (run.capture_snaplen)."""
SETTLING_LOOKS = 10
"""How often it is looked whether anything still moves after the last program, before pauses are taken to stay."""


def execute(task: JobTask, folder: Path, lab: Lab, channel: Channel) -> None:
    """Runs the programs and reports what the network carried. One that fails ends the others."""
    network = lab.network
    network.watch_queues()
    with (
        program_load(task, lab.hosts, lab.sandbox, channel) as load,
        capturing(network, task.capture, folder, snaplen_bytes=SNAPLEN_BYTES, workers=1),
    ):
        before, killed_before = CounterReading(network), killed_for_memory()
        forget_counts(network)
        begin_s, control = time.monotonic(), network.flow_control
        faults = FaultTimes(task.faults, lab.testbed.patient(NetworkPatient), begin_s)
        timed: list[Timed] = [faults]
        if control is not None:
            timed.append(DeadlockTimes(Deadlocks(control, round(begin_s * 1e9)), begin_s))
        in_time = load.follow(begin_s, partial(_is_over, load), begin_s + task.time_limit_s, Together(timed))
        duration_s = time.monotonic() - begin_s
        faults.end()
        load.end()
        lab.testbed.controller.check_alive()
        counts = CounterReading(network, settles=True).since(before)
        pauses = _settled(control, network.fabric) if control is not None else None
        if control is not None:
            control.events(round(begin_s * 1e9)).save(folder / PAUSES_FILE)
    report = Report(
        duration_s=duration_s,
        timed_out=not in_time,
        counts=counts,
        killed_for_memory=killed_for_memory() - killed_before,
        dropped_output_bytes=load.dropped_output_bytes,
        host_parameters=network.host_parameters(),
        faults=faults.records,
        pauses=pauses,
    )
    channel.say(report)


def _settled(control: FlowControl, fabric: Fabric) -> PauseState:
    """Waits until no port stands still, and returns the state of flow control: the last packets of programs that have
    ended are still on their way. Where nothing moves for longer than these can take, ports are left as they are."""
    assert fabric.lossless is not None
    settling_s = fabric.lossless.settling_s(fabric)
    before, until_s = None, 0.0
    while True:
        state, now_s = control.state(), time.monotonic()
        moved = [(count.stops, count.waiting_bytes) for count in state.counts]
        if moved != before:
            before, until_s = moved, now_s + settling_s
        if not any(count.is_stopped for count in state.counts) or now_s >= until_s:
            return state
        time.sleep(settling_s / SETTLING_LOOKS)


def _is_over(load: ProgramLoad) -> bool:
    """Returns whether a program has failed, or all that end by themselves have ended. One that has not started is still to
    end."""
    if any(running.status for _, running in load.started):
        return True
    left = [program for program, running in load.started if running.status is None] + list(load.waiting)
    return all(program.background for program in left)


if __name__ == "__main__":
    run_inside(execute)
