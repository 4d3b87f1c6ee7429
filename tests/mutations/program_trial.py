"""Runs programs with a fault in their network, and says what became of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pytest

from gradwire.analysis.port_traffic import ports_traffic
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.network_checks import network_checks
from gradwire.datatypes.records import PlannedFault
from gradwire.faults import Fault as GradwireFault
from gradwire.inside.program_protocol import Report
from gradwire.network.fabric import Fabric
from gradwire.programs import execution
from gradwire.programs.execution import JobRequest
from gradwire.programs.launch import Started
from gradwire.programs.reported import network_state
from gradwire.vm.machine import Boot
from gradwire.vm.session import JobSession, PaceListener, session
from tests.mutations.fault import NOTHING, PROGRAMS, SLOWED, Fault, Outcome, refuse_broken, refuse_unused
from tests.mutations.inside import FAULT_FILE

HARMLESS = 0.001
JOBS = {"gradwire.inside.exec_job": "tests.mutations.inside_programs"}
WALL_LIMIT_S = 180.0
MEMORY_MB = 1024
FABRIC = Fabric(hosts=3, rate_bps=10e9)
HALF = PlannedFault("half", "rate", at_ns=20_000_000, duration_ns=10_000_000, place="h3-eth0", value=5e9)
FAULTS_OF_BASES: Mapping[str, tuple[PlannedFault, ...]] = {PROGRAMS: (), SLOWED: (HALF,)}
"""What a scenario asks for in these points."""
TALK = """
import os, socket, sys
first, second = ("10.0.0.1", "10.0.0.2")
if os.environ["GRADWIRE_HOST"] == "h1":
    said = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(100):
        said.sendto(b"x" * 1000, (second, 9))
    sent = socket.create_connection((second, 7000), timeout=10)
    sent.sendall(bytes(60_000_000))
    sent.shutdown(socket.SHUT_WR)
    sent.recv(1)
elif os.environ["GRADWIRE_HOST"] == "h2":
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind((second, 9))
    taken = socket.create_server((second, 7000)).accept()[0]
    while taken.recv(1 << 20):
        pass
"""
"""h1 sends h2 datagrams, which nobody misses, and then 50 ms of TCP. h3 has a line and sends nothing."""


@dataclass(frozen=True)
class Ran:
    """What a run left: a report, or what ended it."""

    report: Report | None
    error: str = ""

    @property
    def measures(self) -> tuple[float, float]:
        """Duration, and bytes that left all ports."""
        assert self.report is not None
        return self.report.duration_s, float(sum(port.line_bytes for port in ports_traffic(FABRIC, self.report.counts)))


def run(base: str, family: str, fault: str) -> Ran:
    """Runs the programs in the virtual-time kernel with a fault, besides those of the base."""
    with tempfile.TemporaryDirectory(prefix="gradwire-") as temporary, pytest.MonkeyPatch.context() as patch:
        folder = Path(temporary)
        (folder / FAULT_FILE).write_text(f"{family}\n{fault}\n")
        patch.setattr("gradwire.programs.conversation.session", _with_fault)
        talk = Started([sys.executable, "-c", TALK], [0, 1])
        request = JobRequest(
            FABRIC, [talk], MEMORY_MB, 20.0, WALL_LIMIT_S, WALL_LIMIT_S, (), folder, FAULTS_OF_BASES[base]
        )
        try:
            ran = Ran(execution.execute(request).report)
        except GradwireFault as error:
            refuse_broken(str(error))
            ran = Ran(None, f"{type(error).__name__}: {error}")
        refuse_unused(folder, fault)
        return ran


def _with_fault(boot: Boot, key: bytes, listener: PaceListener | None) -> AbstractContextManager[JobSession]:
    """The machine's session, whose job is started through `inside_programs`."""
    return session(replace(boot, argv=[JOBS.get(word, word) for word in boot.argv]), key, listener)


@lru_cache(maxsize=len(FAULTS_OF_BASES))
def sound(base: str) -> Ran:
    """The programs' run without a fault."""
    return run(base, "tc", NOTHING)


def outcome(family: str, fault: Fault) -> Outcome:
    """What becomes of a fault."""
    ran = run(fault.base, family, fault.name)
    if ran.report is None:
        return Outcome(family, fault.name, ("run",), ran.error)
    failed = tuple(check.name for check in judged(fault.base, ran.report) if not check.ok)
    if failed:
        return Outcome(family, fault.name, failed)
    time, size = (abs(one / other - 1) for one, other in zip(ran.measures, sound(fault.base).measures, strict=True))
    remark = f"times {time:.2%} apart, bytes {size:.2%}"
    return Outcome(family, fault.name, (), remark, harmless=max(time, size) <= HARMLESS)


def judged(base: str, report: Report) -> list[Check]:
    """The checks of programs' runs."""
    return network_checks(network_state(report, FABRIC, FAULTS_OF_BASES[base]))
