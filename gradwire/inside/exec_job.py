"""Runs one program per host until all have ended. `python -m gradwire.inside.exec_job FOLDER KEY`, inside the
kernel."""

from __future__ import annotations

import time
from pathlib import Path

from gradwire.datatypes.pauses import PAUSES_FILE, PauseState
from gradwire.faults import Fault
from gradwire.inside.capturing import capturing
from gradwire.inside.channel import Channel
from gradwire.inside.deadlock_times import DeadlockTimes, Together
from gradwire.inside.fault_times import FaultTimes, Timed
from gradwire.inside.forking import interpreters
from gradwire.inside.injection import Patient
from gradwire.inside.kernel_messages import killed_for_memory
from gradwire.inside.lab import Lab, run_inside
from gradwire.inside.processes import Processes, Schedule
from gradwire.inside.program_protocol import Report, Task, write_hosts_files
from gradwire.inside.readings import Reading, forget_counts
from gradwire.inside.traffic_classes import make_classes
from gradwire.network.fabric import Fabric
from gradwire.topo.deadlocks import Deadlocks
from gradwire.topo.flow_control import FlowControl

SNAPLEN_BYTES = 160
"""Kept of each captured packet, as for points (run.capture_snaplen)."""
SETTLING_LOOKS = 10
"""How often it is looked whether anything still moves after the last program, before pauses are taken to stay."""


def execute(task: Task, folder: Path, lab: Lab, channel: Channel) -> None:
    """Runs the programs and reports what the network carried. One that fails ends the others."""
    for name, hosts in task.hosts.items():
        write_hosts_files(name, [lab.hosts[host].name for host in hosts])
    classes = {each.traffic_class for each in task.programs if each.traffic_class is not None}
    make_classes([host.name for host in lab.hosts], [host.pid for host in lab.hosts], classes)
    with (
        interpreters(task.programs, task.folder, lab.hosts, lab.sandbox) as forks,
        capturing(lab.network, task.capture, folder, snaplen_bytes=SNAPLEN_BYTES, workers=1),
    ):
        before, killed_before = Reading(lab.network), killed_for_memory()
        control = lab.network.flow_control
        forget_counts(lab.network)
        begin_s = time.monotonic()
        processes = Processes(lab.hosts, lab.sandbox, channel, task.output_limit_bytes)
        faults = _faults(task, lab, begin_s)
        timed: list[Timed] = [faults] if faults is not None else []
        if control is not None:
            timed.append(DeadlockTimes(Deadlocks(control, round(begin_s * 1e9)), begin_s))
        try:
            in_time = _run(task, processes, Schedule(task.programs, task.folder, begin_s, forks), Together(timed))
        except Fault:
            processes.end_all()  # the sandbox does not end before they have
            raise
        duration_s = time.monotonic() - begin_s
        if faults is not None:
            faults.end()
        processes.end_all()
        forks.end()
        lab.sandbox.end()
        lab.testbed.controller.check_alive()
        counts = Reading(lab.network, settles=True).since(before)
        pauses = _settled(control, lab.network.fabric) if control is not None else None
        if control is not None:
            control.events(round(begin_s * 1e9)).save(folder / PAUSES_FILE)
    report = Report(
        duration_s=duration_s,
        timed_out=not in_time,
        counts=counts,
        killed_for_memory=killed_for_memory() - killed_before,
        dropped_output_bytes=processes.dropped_bytes,
        host_parameters=lab.network.host_parameters(),
        faults=faults.records if faults is not None else (),
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


def _faults(task: Task, lab: Lab, begin_s: float) -> FaultTimes | None:
    """The task's faults; None if it has none."""
    if not task.faults:
        return None
    return FaultTimes(task.faults, lab.testbed.patient(Patient), begin_s)


def _run(task: Task, processes: Processes, schedule: Schedule, timed: Timed) -> bool:
    """Starts each program at its time, and follows them until they are over; False if they took longer than they
    may."""

    def is_over() -> bool:
        """Returns whether a program has failed, or all that end by themselves have ended. One that has not started is
        still to end."""
        if any(running.status for _, running in schedule.started):
            return True
        left = [program for program, running in schedule.started if running.status is None] + list(schedule.waiting)
        return all(program.background for program in left)

    return schedule.follow(processes, is_over, schedule.begin_s + task.time_limit_s, timed)


if __name__ == "__main__":
    run_inside(execute)
