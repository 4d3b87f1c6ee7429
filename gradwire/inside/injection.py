"""Faults of a network as they are carried out inside the machine: what is due when (`FaultSchedule`, which is pure and has no
clock: given the time and the iterations that are done, it says what is to be done), and doing it to the network and its
controller, and undoing it (`NetworkPatient`).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import Enum, auto

from gradwire.controller.process import ControllerProcess
from gradwire.datatypes.records import FaultRecord, PlannedFault
from gradwire.faults import MachineFault
from gradwire.network.fabric import Link
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.command import run, run_promptly
from gradwire.topo.fault_commands import (
    LinkState,
    NetworkCommands,
    find_controller,
    forget_rules,
    leave_controller,
    link_commands,
    links_of,
    state_of,
)
from gradwire.topo.network import Network
from gradwire.topo.tc import batch_text
from gradwire.topo.wiring import asked_of_switches

RULES_TIMEOUT_S = 10.0
"""Ten times what a switch waits at most before it tries to reach its controller again (topo/wiring.py)."""
RULES_POLL_S = 0.01
TABLE_MISS = "priority=0 "
"""The controller's last rule, as ovs-ofctl shows it."""


class Act(Enum):
    """One of the two things that are done about a fault."""

    BEGIN = auto()
    END = auto()


@dataclass(frozen=True, order=True)
class Due:
    """Something to do."""

    time_ns: int
    #: Of things at the same time, what was planned first goes first.
    number: int
    index: int
    is_begin: bool


class FaultSchedule:
    """The faults of a network in the order in which they happen. Times count from the beginning of the replay.

    A link that flaps begins and ends in each period; `records` notes its first begin and its last end.
    """

    def __init__(self, faults: Sequence[PlannedFault]) -> None:
        self.faults = tuple(faults)
        self._records = [FaultRecord(fault, -1, -1, -1) for fault in faults]
        self._active: dict[int, None] = {}
        self._due: list[Due] = []
        self._number = 0
        self._waiting = {index: fault.iteration for index, fault in enumerate(faults) if fault.iteration > 0}
        for index, fault in enumerate(faults):
            if index not in self._waiting:
                self._plan_begin(index, fault.at_ns)

    @property
    def records(self) -> tuple[FaultRecord, ...]:
        """The record of each fault so far."""
        return tuple(self._records)

    @property
    def active(self) -> list[PlannedFault]:
        """The faults that are in the network now."""
        return [self.faults[index] for index in self._active]

    def add(self, fault: PlannedFault) -> None:
        """Plans another fault, whose name must be its own. One whose time has come is due at once."""
        self.faults = (*self.faults, fault)
        self._records.append(FaultRecord(fault, -1, -1, -1))
        self._plan_begin(len(self._records) - 1, fault.at_ns)

    def next_ns(self) -> int | None:
        """Returns when the next act is due, in nanoseconds; None if nothing is planned, or if that depends on an
        iteration."""
        return self._due[0].time_ns if self._due else None

    def iterated(self, done: int, now_ns: int) -> None:
        """Notes that `done` iterations have ended, with which the next one begins."""
        for index, iteration in list(self._waiting.items()):
            if iteration <= done:
                del self._waiting[index]
                self._plan_begin(index, now_ns + self.faults[index].at_ns)

    def take_due(self, now_ns: int) -> tuple[PlannedFault, Act] | None:
        """The next thing that is due, which counts as done; `noted` must follow."""
        if not self._due or self._due[0].time_ns > now_ns:
            return None
        due = heapq.heappop(self._due)
        fault = self.faults[due.index]
        if not due.is_begin:
            self._active.pop(due.index, None)
            return fault, Act.END
        self._active[due.index] = None
        self._plan_end(due.index, due.time_ns)
        return fault, Act.BEGIN

    def noted(self, fault: PlannedFault, act: Act, now_ns: int) -> None:
        """Notes that something has been done."""
        index = self.faults.index(fault)
        record = self._records[index]
        changed = replace(record, changes=record.changes + 1)
        if act is Act.END:
            changed = replace(changed, ended_ns=now_ns)
        elif record.begun_ns < 0:
            changed = replace(changed, begun_ns=now_ns)
        self._records[index] = changed

    def end_all(self) -> list[PlannedFault]:
        """The faults that are still in the network when the replay has ended, which count as taken out; `noted` must
        follow."""
        still = self.active
        self._active.clear()
        self._due.clear()
        self._waiting.clear()
        return still

    def _plan_begin(self, index: int, time_ns: int) -> None:
        self._records[index] = replace(self._records[index], due_ns=time_ns)
        self._push(index, time_ns, is_begin=True)

    def _plan_end(self, index: int, begun_ns: int) -> None:
        """Plans the end of what has just begun; of a link that flaps also its next failure."""
        fault, first_ns = self.faults[index], self._records[index].due_ns
        last_ns = first_ns + fault.duration_ns if fault.duration_ns >= 0 else None
        if fault.kind != "flapping":
            if last_ns is not None:
                self._push(index, last_ns, is_begin=False)
            return
        period_ns = round(fault.value * 1e9)
        up_ns, again_ns = begun_ns + period_ns // 2, begun_ns + period_ns
        self._push(index, up_ns if last_ns is None else min(up_ns, last_ns), is_begin=False)
        if last_ns is None or again_ns < last_ns:
            self._push(index, again_ns, is_begin=True)

    def _push(self, index: int, time_ns: int, *, is_begin: bool) -> None:
        self._number += 1
        heapq.heappush(self._due, Due(time_ns, self._number, index, is_begin))


class NetworkPatient:
    """The network and its controller, to whom faults are done, but those of workers and tenants."""

    def __init__(
        self, network: Network, controller: ControllerProcess, controller_port: int, *, has_seed: bool
    ) -> None:
        self._network, self._controller = network, controller
        self._controller_port, self._has_seed = controller_port, has_seed
        self._states: dict[Link, LinkState] = {}
        self._restarted: list[str] = []

    def apply(self, fault: PlannedFault, act: Act, active: Collection[PlannedFault]) -> None:
        """Begins or ends a fault; `active` are those that are in the network afterwards. Raises MachineFault if a
        command fails."""
        naming = self._network.naming
        if fault.kind == "controller-restart":
            (self._controller.stop if act is Act.BEGIN else self._controller.restart)()
            return
        if fault.kind == "switch-restart":
            commands = leave_controller(fault.place, naming) if act is Act.BEGIN else forget_rules(fault.place, naming)
            for command in commands:
                run_promptly(command)
        for link in links_of(self._network.fabric, fault):
            self._bring(link, state_of(self._network.fabric, link, active))
        if fault.kind == "switch-restart" and act is Act.END:
            for command in find_controller(fault.place, naming, self._controller_port):
                run_promptly(command)
            self._restarted.append(naming.device(fault.place))

    def settle(self) -> None:
        """Waits until switches that restarted have their rules again. Raises MachineFault if they do not get them."""
        while self._restarted:
            bridge = self._restarted.pop()
            deadline_s = time.monotonic() + RULES_TIMEOUT_S
            while TABLE_MISS not in run(asked_of_switches("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", bridge)):
                if time.monotonic() > deadline_s:
                    raise MachineFault(f"switch {bridge} had no rules {RULES_TIMEOUT_S:g} s after its restart")
                time.sleep(RULES_POLL_S)

    def _bring(self, link: Link, wanted: LinkState) -> None:
        commands = link_commands(
            link,
            self._states.get(link, LinkState()),
            wanted,
            self._network.naming,
            shaper=self._network.shaper,
            has_seed=self._has_seed,
            own_loss=self._network.loss_of,
        )
        self._run(commands)
        self._states[link] = wanted

    def _run(self, commands: NetworkCommands) -> None:
        for device, batch in commands.ip.items():
            self._run_batch("ip", device, batch)
        watch = self._network.queue_watch
        for device, batch in commands.tc.items():
            with watch.own(device, len(batch)) if watch is not None and device else nullcontext():
                self._run_batch("tc", device, batch)

    def _run_batch(self, tool: str, device: str, batch: list[list[str]]) -> None:
        """Runs commands in the network namespace of a host, or for "" in the switches'."""
        namespace = ""
        if device:
            namespace = namespace_of(self._network.host_pid(self._network.fabric.endpoint_names().index(device)))
        with network_namespace(namespace) if namespace else nullcontext():
            run_promptly([tool, "-batch", "-"], batch_text(batch))
