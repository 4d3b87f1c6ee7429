"""The check of faults, and what iterations took before, during and after them."""

from __future__ import annotations

import numpy as np
import pytest

from gradwire.analysis.iterations import fault_lines
from gradwire.analysis.verdict.fault_checks import RESTART_TOLERANCE_NS, TOLERANCE_NS, fault_check
from gradwire.datatypes.records import FaultRecord, PlannedFault
from tests.shared.parts import tells

CUT = PlannedFault("cut", "link-down", 1_000_000_000, duration_ns=500_000_000, place="h1-eth0")
END_NS = 9_000_000_000


def record(fault: PlannedFault = CUT, begun: int = 1_000_000_000, ended: int = 1_500_000_000) -> FaultRecord:
    return FaultRecord(fault, 1_000_000_000, begun, ended)


def test_faults_that_happened_as_they_should_pass_and_say_what_is_not_checked() -> None:
    found = fault_check([CUT], [record()], END_NS, "drops", "the last iteration ended")
    assert found.ok
    assert tells(found.value, "cut:", "h1-eth0 is down", "1.000000 s", "1.500000 s", "(not checked: drops)")


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([], "cut: the last iteration ended before it began"),
        ([FaultRecord(CUT, -1, -1, -1)], "cut: the last iteration ended before it began"),
        ([record(begun=1_000_000_001 + TOLERANCE_NS)], "cut: began at 1.001000 s instead of 1.000000 s"),
        ([record(begun=999_999_999)], "cut: began at"),
        ([record(ended=1_500_000_001 + TOLERANCE_NS)], "cut: ended at 1.501000 s instead of 1.500000 s"),
        ([record(ended=-1)], "cut: ended at"),
    ],
)
def test_faults_that_did_not_fail(records: list[FaultRecord], complaint: str) -> None:
    found = fault_check([CUT], records, END_NS, "", "the last iteration ended")
    assert not found.ok
    assert complaint in found.value


def test_a_fault_may_begin_with_the_run() -> None:
    first = PlannedFault("cut", "link-down", 0, duration_ns=500, place="h1-eth0")
    assert fault_check([first], [FaultRecord(first, 0, 0, 500)], END_NS, "", "the last iteration ended").ok


@pytest.mark.parametrize(
    ("fault", "early_ns"),
    [
        (
            PlannedFault("flaps", "flapping", 1_000_000_000, duration_ns=500_000_000, place="h1-eth0", value=0.02),
            20_000_000,
        ),
        (CUT, 0),
    ],
    ids=["flapping", "link"],
)
def test_a_link_that_flaps_may_be_up_for_a_period_when_its_time_is_over(fault: PlannedFault, early_ns: int) -> None:
    due_ns = 1_500_000_000
    for ended_ns, is_ok in ((due_ns - early_ns, True), (due_ns - early_ns - 1, False), (due_ns + TOLERANCE_NS, True)):
        assert fault_check([fault], [record(fault, ended=ended_ns)], END_NS, "", "the last iteration ended").ok is is_ok


def test_a_fault_without_an_end_lasts_as_long_as_the_replay() -> None:
    open_ended = PlannedFault("loss", "loss", 1_000_000_000, place="h1-eth0", value=0.1)
    assert fault_check(
        [open_ended], [record(open_ended, ended=END_NS + 1000)], END_NS, "", "the last iteration ended"
    ).ok
    assert not fault_check(
        [open_ended], [record(open_ended, ended=END_NS - 1)], END_NS, "", "the last iteration ended"
    ).ok


def test_restarts_may_take_longer() -> None:
    boot = PlannedFault("boot", "switch-restart", 1_000_000_000, duration_ns=500_000_000, place="s1")
    late = record(boot, begun=1_000_000_000 + RESTART_TOLERANCE_NS)
    assert fault_check([boot], [late], END_NS, "", "the last iteration ended").ok


def test_iterations_are_told_apart_by_the_fault() -> None:
    edges = np.array([0, 1, 2, 4, 5, 6]) * 500_000_000
    (line,) = fault_lines([record()], {"": edges})
    times = ("0.5000 s before", "1.0000 s during", "(iteration 2)", "0.5000 s after")
    assert tells(line, "fault.cut:", "h1-eth0 is down", "1.000000 s", "1.500000 s", *times)
    assert list(fault_lines([FaultRecord(CUT, -1, -1, -1)], {"": edges})) == []


def test_of_several_jobs_each_has_its_own_iterations() -> None:
    quick = np.array([0, 1, 2, 3], np.int64) * 10**9
    slow = np.array([0, 3], np.int64) * 10**9
    (line,) = fault_lines([FaultRecord(CUT, 0, int(1.2e9), int(1.3e9))], {"quick": quick, "slow": slow})
    of_quick = ("job quick", "1.0000 s before", "1.0000 s during", "(iteration 1)", "1.0000 s after")
    assert tells(line, *of_quick, "job slow", "3.0000 s during", "(iteration 0)")
