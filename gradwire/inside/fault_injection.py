"""Carries out a network's faults inside the machine: a thread that sleeps until they are due, while another waits for
the agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from gradwire.agents.agent_processes import AgentDied
from gradwire.agents.connections import HostEntry, SocketOptions
from gradwire.agents.tenant import Tenant
from gradwire.controller.process import ControllerProcess
from gradwire.datatypes.records import TENANTS_CLASS, FaultRecord, PlannedFault
from gradwire.faults import MachineFault
from gradwire.inside.injection import Act, FaultSchedule, NetworkPatient
from gradwire.network.fabric import band_of_class
from gradwire.network_namespace import namespace_of
from gradwire.topo.network import Network


class EndedByFault(MachineFault):
    """A run that did not come to its end while a scenario's faults were in it."""


class Patient(NetworkPatient):
    """The network, its controller, and the tenants that share it, to whom faults are done."""

    def __init__(
        self, network: Network, controller: ControllerProcess, controller_port: int, *, has_seed: bool
    ) -> None:
        super().__init__(network, controller, controller_port, has_seed=has_seed)
        self._tenants: dict[str, Tenant] = {}

    def let_in(self, faults: Sequence[PlannedFault], options: SocketOptions) -> None:
        """Connects the flows of tenants among the faults. Raises MachineFault if that cannot be done."""
        fabric = self._network.fabric
        for fault in faults:
            if fault.kind == "tenant":
                source, destination = (
                    HostEntry(host, fabric.host_ip(host), namespace_of(self._network.host_pid(host)))
                    for host in (fault.source, fault.destination)
                )
                payload_bps = fault.value * fabric.goodput_share()
                band = band_of_class(TENANTS_CLASS)
                self._tenants[fault.name] = Tenant(source, destination, payload_bps, band, options)

    def sent_bytes(self, fault: PlannedFault) -> int:
        """The payload of a tenant that has ended; 0 for other faults."""
        return self._tenants[fault.name].sent_bytes if fault.name in self._tenants else 0

    def apply(self, fault: PlannedFault, act: Act, active: Collection[PlannedFault]) -> None:
        """Begins or ends a fault; `active` are those that are in the network afterwards. Raises MachineFault if a
        command fails."""
        if fault.kind != "tenant":
            super().apply(fault, act, active)
            return
        tenant = self._tenants[fault.name]
        (tenant.begin if act is Act.BEGIN else tenant.end)()


class Injection:
    """The faults of one replay. `begin` and `iterated` are called by the thread that waits for the agents."""

    def __init__(self, faults: Sequence[PlannedFault], patient: Patient) -> None:
        self._agenda = FaultSchedule(faults)
        self._patient = patient
        self._start_ns = 0
        self._is_over = False
        self._trouble: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="faults", daemon=True)

    @property
    def records(self) -> tuple[FaultRecord, ...]:
        """The record of each fault so far, with the bytes that tenants have sent."""
        return tuple(
            replace(record, sent_bytes=self._patient.sent_bytes(record.fault)) for record in self._agenda.records
        )

    def begin(self, start_ns: int) -> None:
        """The replay begins at this time of the monotonic clock."""
        self._start_ns = start_ns
        self._thread.start()

    def iterated(self, done: int) -> None:
        """All agents have done this many iterations."""
        with self._changed:
            self._agenda.iterated(done, self._now_ns())
            self._changed.notify()

    def end(self) -> None:
        """Takes out what is still in the network. Raises MachineFault if something could not be done."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        if self._trouble is not None:
            raise MachineFault(f"a fault could not be carried out: {self._trouble}") from self._trouble
        for fault in self._agenda.end_all():
            self._patient.apply(fault, Act.END, self._agenda.active)
            self._agenda.noted(fault, Act.END, self._now_ns())
        self._patient.settle()

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def _work(self) -> None:
        try:
            with self._changed:
                while not self._is_over:
                    self._do_what_is_due()
                    next_ns = self._agenda.next_ns()
                    self._changed.wait(None if next_ns is None else max(0, next_ns - self._now_ns()) / 1e9)
        except BaseException as trouble:  # noqa: BLE001 (the thread that waits for the agents tells it)
            self._trouble = trouble

    def _do_what_is_due(self) -> None:
        while not self._is_over and (taken := self._agenda.take_due(self._now_ns())):
            fault, act = taken
            self._patient.apply(fault, act, self._agenda.active)
            self._agenda.noted(fault, act, self._now_ns())


@contextmanager
def ended_by_name(faults: Sequence[PlannedFault], injection: Injection) -> Iterator[None]:
    """Raises EndedByFault, with the scenario's faults, if an agent ends early within the block; and ends the network's
    faults."""
    try:
        yield
    except AgentDied as died:
        named = "; ".join(_told(fault, injection.records) for fault in faults)
        raise EndedByFault(f"{died.said or died} (faults: {named})") from died
    finally:
        injection.end()


def _told(fault: PlannedFault, records: Sequence[FaultRecord]) -> str:
    """A fault and its times, as far as they are known."""
    begun = next(
        (
            f" from {record.begun_ns / 1e9:.6f} s"
            for record in records
            if record.fault == fault and record.begun_ns >= 0
        ),
        "",
    )
    ended = next(
        (f" to {record.ended_ns / 1e9:.6f} s" for record in records if record.fault == fault and record.ended_ns >= 0),
        "",
    )
    return f"fault.{fault.name}, {fault.what}{begun}{ended}"
