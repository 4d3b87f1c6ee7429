"""Findings of the doctor's proof (its flow: tests/end_to_end/machine/test_trial.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.cli import proof as module
from gradwire.cli.proof import judge_flow, prove_network
from gradwire.faults import MachineFault
from gradwire.runs.calibrate import PatternResult
from gradwire.vm.doctor import Diagnosis
from gradwire.vm.kernel_death import DeathCause, KernelFault
from tests.shared.parts import tells

IDEAL_S = 0.0512 * 1538 / 1448


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cached_kernel", lambda: Path("kernel"))
    monkeypatch.setattr(module, "try_kernel", lambda *_, **__: 0.31)
    monkeypatch.setattr(module, "measure_one_flow", lambda *_: PatternResult(IDEAL_S * 1.0004, IDEAL_S))


def test_a_flow_at_its_rate_is_told_with_the_boot_before_it() -> None:
    finding = prove_network([Diagnosis("tc", True, ""), Diagnosis("tshark", False, "", required=False)])
    assert finding.ok
    assert tells(finding.detail, "9.41 Gbit/s", "9.41", "(1.000)", "0.3 s")


def test_a_slower_flow_is_a_fault() -> None:
    finding = judge_flow(PatternResult(2 * IDEAL_S, IDEAL_S), 0.3)
    assert not finding.ok
    assert tells(finding.detail, "4.71 Gbit/s", "9.41", "(2.000)")
    assert "report" in finding.mend


def test_it_is_not_tried_where_something_is_lacking() -> None:
    finding = prove_network(
        [Diagnosis("tc", False, ""), Diagnosis("Open vSwitch", False, ""), Diagnosis("tshark", False, "", "", False)]
    )
    assert not finding.ok
    assert tells(finding.detail, "not tried", ": tc, Open vSwitch")
    assert "tshark" not in finding.detail


@pytest.mark.parametrize(
    ("fault", "seen", "mend"),
    [
        (
            KernelFault("it does not run", DeathCause("x", "why", "do this"), ["last"]),
            "it does not run: why\nlast",
            "do this",
        ),
        (MachineFault("no room"), "no room", "as it says; if it says nothing, please report this"),
    ],
)
def test_a_fault_becomes_a_finding(monkeypatch: pytest.MonkeyPatch, fault: Exception, seen: str, mend: str) -> None:
    def fail(*_: Any, **__: Any) -> float:
        raise fault

    monkeypatch.setattr(module, "try_kernel", fail)
    finding = prove_network([])
    assert (finding.ok, finding.detail, finding.mend, finding.required) == (False, seen, mend, True)
