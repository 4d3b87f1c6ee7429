"""Findings of the doctor's proof (its flow: tests/end_to_end/machine/test_trial.py), and what calibration sends beside plain transfers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.datatypes.plan import OpKind
from gradwire.faults import MachineFault, UnfitMachine
from gradwire.network.fabric import Fabric
from gradwire.runs import proof as module
from gradwire.runs.calibrate import (
    REQUEST_BYTES,
    ROUND_TRIPS,
    PatternResult,
    duplex,
    request_response,
    round_trips_s,
)
from gradwire.runs.proof import judged_flow, proof, trial_on
from gradwire.vm.code_digest import machine_modules
from gradwire.vm.doctor import Finding
from gradwire.vm.kernel_death import Cause, KernelFault
from gradwire.vm.machines import Clock
from gradwire.workloads.checker import check
from gradwire.workloads.patterns import compile_transfers
from tests.shared.parts import tells

IDEAL_S = 0.0512 * 1538 / 1448


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cached_kernel", lambda: Path("kernel"))
    monkeypatch.setattr(module, "try_kernel", lambda *_, **__: 0.31)
    monkeypatch.setattr(module, "measure_one_flow", lambda *_: PatternResult(IDEAL_S * 1.0004, IDEAL_S))


def test_a_flow_at_its_rate_is_told_with_the_boot_before_it() -> None:
    finding = proof([Finding("tc", True, ""), Finding("tshark", False, "", required=False)])
    assert (finding.ok, finding.mend) == (True, "")
    assert tells(finding.detail, "9.41 Gbit/s", "9.41", "(1.000)", "0.3 s")


def test_a_slower_flow_is_a_fault() -> None:
    finding = judged_flow(PatternResult(2 * IDEAL_S, IDEAL_S), 0.3)
    assert not finding.ok
    assert tells(finding.detail, "4.71 Gbit/s", "9.41", "(2.000)")
    assert "report" in finding.mend


def test_it_is_not_tried_where_something_is_lacking() -> None:
    finding = proof(
        [Finding("tc", False, ""), Finding("Open vSwitch", False, ""), Finding("tshark", False, "", "", False)]
    )
    assert not finding.ok
    assert tells(finding.detail, "not tried", ": tc, Open vSwitch")
    assert "tshark" not in finding.detail


@pytest.mark.parametrize(
    ("fault", "seen", "mend"),
    [
        (
            KernelFault("it does not run", Cause("x", "why", "do this"), ["last"]),
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
    finding = proof([])
    assert (finding.ok, finding.detail, finding.mend, finding.required) == (False, seen, mend, True)


def test_only_the_virtual_clock_has_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module, "try_kernel", lambda *words: tried.append(words))
    monkeypatch.setattr(module, "require_root", lambda: None)
    trial_on(Clock("wall", 200))(1024)
    assert tried == []
    monkeypatch.setattr(module, "byte_code_folder", tried.append)
    trial_on(Clock())(1024)
    assert tried == [(Path("kernel"), 1024), machine_modules()]


def test_a_cache_that_cannot_be_written_is_found_before_the_first_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise UnfitMachine("not writable")

    monkeypatch.setattr(module, "try_kernel", lambda *_: 0.3)
    monkeypatch.setattr(module, "byte_code_folder", fail)
    with pytest.raises(UnfitMachine, match="not writable"):
        trial_on(Clock())(1024)


def test_each_response_follows_its_request_and_the_next_request_its_response() -> None:
    plan = request_response(3)
    check(plan)
    sends = np.flatnonzero(plan.ops.kind == OpKind.SEND)
    assert plan.ops.rank[sends].tolist() == [0, 1] * ROUND_TRIPS
    assert set(plan.ops.size_bytes[sends].tolist()) == {REQUEST_BYTES}


def test_a_round_trip_ideally_takes_four_frames_time() -> None:
    # 1,000 bytes, a header of 48 + 1, IP and TCP's 52, and 38 of Ethernet: 1,139 bytes on the line.
    assert round_trips_s(Fabric(3, 10e9)) / ROUND_TRIPS == pytest.approx(4 * 1139 * 8 / 10e9)


def test_both_directions_are_sent_at_once() -> None:
    plan = compile_transfers("duplex", 3, duplex(64_000))
    check(plan)
    data = plan.ops.traffic_class >= 0
    assert plan.ops.rank[data & (plan.ops.kind == OpKind.SEND)].tolist() == [0, 1]
