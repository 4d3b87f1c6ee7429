"""The programs of a task as a load of a network: the hosts that they enter, their sandbox, and their start and end. The same
for programs alone, and for those next to a plan."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from gradwire.faults import Fault
from gradwire.inside.door import door
from gradwire.inside.fault_times import Nothing, Timed
from gradwire.inside.forking import Interpreters, interpreters
from gradwire.inside.host import Host
from gradwire.inside.processes import Listener, Processes, Running
from gradwire.inside.program_protocol import JobTask, Program, write_hosts_files
from gradwire.inside.sandbox import Sandbox
from gradwire.inside.traffic_classes import make_classes

NOTHING = Nothing()


@contextmanager
def hosts_to_enter(
    task: JobTask, names: Sequence[str], pids: Sequence[int], sandbox: Sandbox
) -> Iterator[Sequence[Host]]:
    """The hosts of a network, with the door through which an mpirun reaches them if the task's programs have one; and ends
    the sandbox with them. pids: of threads or processes in their network namespaces."""
    with ExitStack() as held:
        held.callback(sandbox.end)
        hosts = []
        for name, pid in zip(names, pids, strict=True):
            hosts.append(Host(name, pid, sandbox))
            held.callback(hosts[-1].end)
        if task.enters:
            held.enter_context(door(hosts, sandbox))
        yield hosts


class ProgramLoad:
    """The programs of a task, ready to be started: those that wait for their time, and those that have started. Made by
    `program_load`."""

    def __init__(
        self, task: JobTask, hosts: Sequence[Host], sandbox: Sandbox, listener: Listener, forks: Interpreters
    ) -> None:
        self._folder, self._sandbox, self._forks = task.folder, sandbox, forks
        self._processes = Processes(hosts, sandbox, listener, task.output_limit_bytes)
        self._has_ended = False
        self.waiting = deque(sorted(task.programs, key=lambda program: program.start_s))
        self.started: list[tuple[Program, Running]] = []

    @property
    def dropped_output_bytes(self) -> int:
        """What programs wrote beyond their limit, which was not kept."""
        return self._processes.dropped_bytes

    def follow(
        self, begin_s: float, is_over: Callable[[], bool], end_s: float = float("inf"), timed: Timed = NOTHING
    ) -> bool:
        """Starts each program at its time, and follows all until they are over; False if the virtual clock
        (time.monotonic) reaches `end_s` before. begin_s: of that clock, from which programs' times count. timed: what
        else happens meanwhile.

        Raises InputFault for a program that cannot be started, and what `timed` raises. All programs have ended then.
        """
        try:
            while True:
                self._start_due(begin_s)
                timed.do_due()
                next_s = begin_s + self.waiting[0].start_s if self.waiting else end_s
                if self._processes.follow(is_over, deadline_s=min(next_s, timed.next_s(), end_s)):
                    return True
                if time.monotonic() >= end_s:
                    return False
        except Fault:
            self.end()
            raise

    def end(self) -> None:
        """Ends all programs that still run, with all that they have started; and then the sandbox, which must not end
        before they have. Does nothing the second time."""
        if not self._has_ended:
            self._has_ended = True
            self._processes.end_all()
            self._forks.end()
            self._sandbox.end()

    def _start_due(self, begin_s: float) -> None:
        while self.waiting and begin_s + self.waiting[0].start_s <= time.monotonic():
            program = self.waiting.popleft()
            self.started.append((program, self._start(program)))

    def _start(self, program: Program) -> Running:
        if program.warm is not None:
            fork = partial(self._forks.fork, program, program.warm, program.host, self._folder)
            return self._processes.give_birth(program.name, program.host, fork)
        return self._processes.start(
            program.host,
            program.argv,
            program.env,
            self._folder,
            name=program.name,
            traffic_class=program.traffic_class,
        )


@contextmanager
def program_load(task: JobTask, hosts: Sequence[Host], sandbox: Sandbox, listener: Listener) -> Iterator[ProgramLoad]:
    """Makes hosts ready for the programs of a task: with lists of hosts for mpirun, with the traffic classes of what they
    send, and with the Pythons that they are forked from. listener: hears what they write, and when they end."""
    for name, ranks in task.hosts.items():
        write_hosts_files(name, [hosts[rank].name for rank in ranks])
    classes = {each.traffic_class for each in task.programs if each.traffic_class is not None}
    make_classes([host.name for host in hosts], [host.pid for host in hosts], classes)
    with interpreters(task.programs, task.folder, hosts, sandbox) as forks:
        yield ProgramLoad(task, hosts, sandbox, listener, forks)
