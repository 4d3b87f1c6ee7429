"""Carries out what a lab's Python asks for, one command after the other. `python -m gradwire.inside.lab_job
FOLDER KEY`, inside the kernel.

Virtual time passes while a Proceed is carried out, and otherwise it stands still: so nothing that the lab's Python does
in between, or how long it takes, is seen by any program, and labs repeat to the nanosecond.
"""

from __future__ import annotations

import heapq
import os
import time
from pathlib import Path

from gradwire.agents.timer import Timer
from gradwire.faults import Fault, InputFault
from gradwire.inside.channel import Channel
from gradwire.inside.fault_times import FaultTimes
from gradwire.inside.injection import NetworkPatient
from gradwire.inside.kernel_messages import killed_for_memory
from gradwire.inside.lab import Lab, run_inside
from gradwire.inside.packet_recording import PacketRecording
from gradwire.inside.processes import Processes, Running, Streams, pipes
from gradwire.inside.program_protocol import (
    Begin,
    ClockHeld,
    Command,
    Conclude,
    Count,
    Counted,
    Inject,
    JobTask,
    Kill,
    Output,
    OutputFull,
    Proceed,
    ProgramEnded,
    Refused,
    StopClock,
)
from gradwire.inside.readings import CounterReading, forget_counts

S_NS = 1_000_000_000


class _Timestamps:
    """The channel, as programs' outputs and ends go to it: with the time of each end."""

    def __init__(self, channel: Channel, begin_ns: int) -> None:
        self._channel, self._begin_ns = channel, begin_ns

    def fileno(self) -> int:
        """The channel's."""
        return self._channel.fileno()

    def say(self, event: Output | OutputFull | ProgramEnded) -> None:
        """Passes an event on."""
        if isinstance(event, ProgramEnded):
            event = ProgramEnded(event.host, event.status, event.program, time.monotonic_ns() - self._begin_ns)
        self._channel.say(event)

    def heard(self) -> None:
        """Nobody interrupts a lab's programs: its Python waits for them."""


class LabBench:
    """The network with its programs, captures, faults and moments."""

    def __init__(self, task: JobTask, folder: Path, lab: Lab, channel: Channel) -> None:
        self._lab, self._channel = lab, channel
        self._recording = (
            PacketRecording(lab.network, task.capture, folder, task.snaplen_bytes) if task.capture else None
        )
        lab.network.watch_queues()
        self._before, self._killed_before = CounterReading(lab.network, asks_switches=False), killed_for_memory()
        forget_counts(lab.network)
        self._begin_ns = time.monotonic_ns()
        self._processes = Processes(
            lab.hosts, lab.sandbox, _Timestamps(channel, self._begin_ns), task.output_limit_bytes
        )
        self._faults = FaultTimes(task.faults, lab.testbed.patient(NetworkPatient), self._begin_ns / S_NS)
        self._timer, self._has_rung = Timer(), False
        self._processes.watch(self._timer.descriptor, self._ring)
        self._programs: dict[str, Running] = {}
        self._moments: list[tuple[int, int]] = []

    def now_ns(self) -> int:
        """The virtual clock, since the network was built."""
        return time.monotonic_ns() - self._begin_ns

    def carry_out(self, command: Command) -> ClockHeld:
        """Does what a command says. Raises a Fault if that cannot be done."""
        match command:
            case Begin():
                self._begin(command)
            case Kill(name=name, number=number):
                if self._programs[name].status is None:
                    self._programs[name].signal(number)
            case Inject(fault=fault):
                self._faults.add(fault)
                self._faults.do_due()
            case StopClock(number=number, at_ns=at_ns):
                heapq.heappush(self._moments, (at_ns, number))
            case Proceed():
                return self._proceed(command)
            case Count():
                self._channel.say(self._counted())
            case Conclude():
                self._conclude()
            case _:
                raise InputFault(f"a lab cannot do this: {type(command).__name__}")
        return ClockHeld(self.now_ns())

    def _begin(self, command: Begin) -> None:
        host = self._lab.hosts[command.host]
        env = {**command.env, "TMPDIR": str(host.temporary)}
        streams = _with_input(command.stdin) if command.stdin else pipes()
        try:
            self._programs[command.name] = self._processes.start(
                command.host, command.argv, env, command.folder, name=command.name, streams=streams
            )
        finally:
            if command.stdin:
                os.close(streams.stdin)

    def _proceed(self, command: Proceed) -> ClockHeld:
        awaited = [self._programs[name] for name in command.awaited]

        def is_over() -> bool:
            return bool(awaited) and all(program.status is not None for program in awaited)

        while True:
            self._faults.do_due()
            if self._moments and self._moments[0][0] <= self.now_ns():
                return ClockHeld(self.now_ns(), moment=heapq.heappop(self._moments)[1])
            if self.now_ns() >= command.until_ns:
                return ClockHeld(self.now_ns(), ended=is_over())
            moment_ns = self._moments[0][0] if self._moments else command.until_ns
            self._has_rung = False
            self._timer.set(min(self._begin_ns + min(moment_ns, command.until_ns), self._faults.due_ns()))
            self._processes.follow(lambda: is_over() or self._has_rung)
            if is_over():
                return ClockHeld(self.now_ns(), ended=True)

    def _ring(self) -> None:
        self._timer.set(None)
        self._has_rung = True

    def _conclude(self) -> None:
        self._faults.end()
        self._processes.end_all()
        self._lab.sandbox.end()
        if self._recording is not None:
            self._recording.end()

    def _counted(self) -> Counted:
        """Without the counters of Open vSwitch, which it collects twice a second, and which nobody can read without
        waiting."""
        counts = CounterReading(self._lab.network, asks_switches=False).since(self._before)
        return Counted(counts, killed_for_memory() - self._killed_before)


def _with_input(data: bytes) -> Streams:
    """Two pipes, and an input that has all of this and ends."""
    made = pipes()
    file = os.memfd_create("input")
    with os.fdopen(os.dup(file), "wb") as writer:
        writer.write(data)
    os.lseek(file, 0, os.SEEK_SET)
    return Streams(made.read_ends, made.write_ends, file)


def obey(task: JobTask, folder: Path, lab: Lab, channel: Channel) -> None:
    """Carries out commands until the lab is concluded, or the kernel is ended from outside."""
    bench = LabBench(task, folder, lab, channel)
    channel.say(ClockHeld(bench.now_ns()))
    command: Command | None = None
    while not isinstance(command, Conclude):
        command = channel.answer()
        try:
            done = bench.carry_out(command)
        except Fault as fault:
            channel.say(Refused(type(fault).__name__, str(fault)))
            done = ClockHeld(bench.now_ns())
        channel.say(done)


if __name__ == "__main__":
    run_inside(obey)
