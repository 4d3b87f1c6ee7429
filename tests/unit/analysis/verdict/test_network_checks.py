"""Checks of what a network did, whatever ran on it, over counts made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from gradwire.analysis.port_traffic import busiest, ports_traffic
from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.program_checks import ProgramsState
from gradwire.analysis.verdict.verdict import judge_programs
from gradwire.datatypes.host_settings import HostTcp
from gradwire.datatypes.network_counts import BandCount, NetworkCounts, ReplacedQueues
from gradwire.datatypes.records import FaultRecord, PlannedFault
from gradwire.inside.program_protocol import Report
from gradwire.network.fabric import Fabric
from gradwire.network.links import LinkSetting
from gradwire.programs.reported import network_state
from tests.unit.analysis.verdict.test_laws import LINES

FABRIC = Fabric(2, 10e9)
FRAMES = 1_000_000
PORT = BandCount("h1-eth0", 1, FRAMES * 1514, FRAMES, 0)
LINE_S = FRAMES * 1538 * 8 / 10e9
COUNTS = NetworkCounts((PORT, BandCount("h2-eth0", 1, 0, 0, 0)), FRAMES, 0, upcalls=2, table_miss_packets=0)
SOUND = Report(duration_s=LINE_S, timed_out=False, counts=COUNTS, killed_for_memory=0)


def counted(*bands: BandCount, report: Report = SOUND, **changes: object) -> Report:
    """The report with other counts."""
    counts = replace(report.counts, **({"bands": bands} if bands else {}), **changes)  # type: ignore[arg-type]
    return msgspec.structs.replace(report, counts=counts)


def checks(report: Report, fabric: Fabric, faults: Sequence[PlannedFault] = ()) -> list[Check]:
    """All checks of a run of programs, without those of the programs themselves."""
    state = network_state(report, fabric, faults)
    _, *made, _ = judge_programs(state, ProgramsState(2), report.faults, round(report.duration_s * 1e9)).checks
    return made


def failed(report: Report, fabric: Fabric = FABRIC) -> list[str]:
    return [check.name for check in checks(report, fabric) if not check.ok]


def test_a_port_that_was_full_all_the_time_is_sound() -> None:
    port = ports_traffic(FABRIC, COUNTS)[0]
    assert port.line_bytes == FRAMES * 1538
    assert port.line_use(LINE_S) == pytest.approx(1)
    assert port.line_use(0.0) == 0.0
    assert failed(SOUND) == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"tcp_retransmits": 1}, "TCP retransmits"),
        ({"table_miss_packets": 1}, "table misses"),
        ({"bands": (replace(PORT, drops=1),)}, "drops"),
        ({"input_drops": 1}, "drops"),
    ],
)
def test_each_check_fails_alone(change: dict[str, object], check: str) -> None:
    assert failed(msgspec.structs.replace(SOUND, counts=replace(COUNTS, **change))) == [check]  # type: ignore[arg-type]


def test_losses_that_were_asked_for_are_allowed_and_no_more() -> None:
    lossy, far = replace(FABRIC, loss=0.001), BandCount("s1-eth2", 1, FRAMES * 1514, FRAMES, 1000)
    lost = counted(PORT, far, tcp_retransmits=1000)
    assert failed(lost, lossy) == []
    assert failed(counted(PORT, replace(far, drops=2000), report=lost), lossy) == ["drops"]


def test_losses_of_single_links_are_known() -> None:
    """The fabric's own loss is 0 there, so that every drop of such a link failed the run."""
    lossy = replace(FABRIC, link_settings=(LinkSetting("h1", loss=0.001),))
    lost = counted(replace(PORT, drops=1000), tcp_retransmits=1000)
    assert failed(lost, lossy) == []
    other = BandCount("h2-eth0", 1, FRAMES * 1514, FRAMES, 5000)
    assert failed(counted(PORT, other, report=lost), lossy) == ["drops"]


def test_the_busiest_ports_come_first() -> None:
    assert [port.interface for port in busiest(ports_traffic(FABRIC, COUNTS)[::-1], 1)] == ["h1-eth0"]


def test_finite_buffers_drop_what_they_must_at_switches_and_nothing_at_hosts() -> None:
    finite = replace(FABRIC, gso_bytes=1514, buffer_bytes=100_000)
    switch = BandCount("s1-eth2", 1, FRAMES * 1514, FRAMES, 500)
    assert failed(counted(PORT, switch, tcp_retransmits=500), finite) == []
    host = replace(PORT, drops=1)
    assert failed(counted(host, switch), finite) == ["drops"]


def test_queues_that_programs_put_below_a_band_may_drop() -> None:
    netem = ReplacedQueues("h1-eth0", ("1:1 netem",), FRAMES * 1514, FRAMES, drops=100)
    assert failed(counted(COUNTS.bands[1], replaced=(netem,), tcp_retransmits=100)) == []


def test_buffers_of_single_links_are_known() -> None:
    setting = LinkSetting("h2", loss=0.001, buffer_bytes=100_000)
    finite = replace(FABRIC, gso_bytes=1514, link_settings=(setting,))
    switch = BandCount("s1-eth2", 1, FRAMES * 1514, FRAMES, 500)
    assert failed(counted(PORT, switch, tcp_retransmits=500), finite) == []
    lossy_host = BandCount("h2-eth0", 1, FRAMES * 1514, FRAMES, 1000)
    assert failed(counted(PORT, lossy_host), finite) == []
    host = replace(PORT, drops=1)
    assert failed(
        counted(host, switch),
        replace(finite, link_settings=(replace(setting, loss=None),)),
    ) == ["drops"]


def test_stock_hosts_may_probe_and_not_send_everything_again() -> None:
    stock = replace(FABRIC, host_tcp=HostTcp.STOCK)
    assert failed(counted(tcp_retransmits=FRAMES // 200), stock) == []
    assert failed(counted(tcp_retransmits=FRAMES // 50), stock) == ["TCP retransmits"]


CUT = PlannedFault("cut", "link-down", 100_000_000, duration_ns=200_000_000, place="h1-eth0")
IN_TIME = FaultRecord(CUT, 100_000_000, 100_070_000, 300_070_000, 2)
LOSSY = replace(FABRIC, faulty=True)


def report_with(*records: FaultRecord, **changes: object) -> Report:
    counts = replace(COUNTS, **changes)  # type: ignore[arg-type] # all of them are counts
    return msgspec.structs.replace(SOUND, counts=counts, faults=records)


def failed_with(report: Report, *faults: PlannedFault, fabric: Fabric = LOSSY) -> list[str]:
    return [check.name for check in checks(report, fabric, faults) if not check.ok]


def test_a_fault_that_happened_in_its_time_is_named_and_what_it_loses_is_not_judged() -> None:
    lossy = replace(PORT, drops=7)
    report = report_with(IN_TIME, bands=(lossy,), tcp_retransmits=9)
    assert failed_with(report, CUT) == []
    *_, told = checks(report, LOSSY, [CUT])
    assert told.value == (
        "cut: link h1-eth0 is down from 0.100070 s to 0.300070 s (not checked: drops, TCP retransmits)"
    )


@pytest.mark.parametrize(
    "records",
    [
        (),
        (replace(IN_TIME, begun_ns=-1, ended_ns=-1),),
        (replace(IN_TIME, begun_ns=102_000_000),),
        (replace(IN_TIME, ended_ns=302_000_000),),
        (replace(IN_TIME, ended_ns=200_000_000),),
    ],
)
def test_a_fault_at_another_time_or_of_another_length_is_not_sound(records: tuple[FaultRecord, ...]) -> None:
    assert failed_with(report_with(*records), CUT) == ["faults"]


def test_one_that_began_after_the_end_says_so() -> None:
    (told,) = [check for check in checks(report_with(), LOSSY, [CUT]) if check.name == "faults"]
    assert told.value == "cut: all programs had ended before it began"


def test_rules_are_judged_unless_a_switch_restarts() -> None:
    boot = PlannedFault("boot", "switch-restart", 100_000_000, duration_ns=200_000_000, place="s1")
    brain = PlannedFault("brain", "controller-restart", 100_000_000, duration_ns=200_000_000)
    missed = report_with(replace(IN_TIME, fault=boot), replace(IN_TIME, fault=brain), table_miss_packets=3)
    assert failed_with(missed, boot) == []
    assert failed_with(missed, brain, fabric=FABRIC) == ["table misses"]
    lost = report_with(replace(IN_TIME, fault=brain), tcp_retransmits=1)
    assert failed_with(lost, brain, fabric=FABRIC) == ["TCP retransmits"]


@pytest.mark.parametrize("kind", ["link-down", "switch-restart"])
@pytest.mark.parametrize("faulty", [False, True])
def test_what_is_not_checked_because_of_a_fault_is_named(kind: str, faulty: bool) -> None:
    fault = replace(CUT, kind=kind, place="s1" if kind == "switch-restart" else "h1-eth0")
    report = report_with(replace(IN_TIME, fault=fault), lines=LINES)
    told = ((FABRIC, ()), (replace(FABRIC, faulty=faulty), [fault]))
    without, having = ({check.name: check.value for check in checks(report, fabric, faults)} for fabric, faults in told)
    assert "passed on by switches" in without
    named = having["faults"].rpartition("(not checked: ")[2].removesuffix(")").split(", ")
    assert set(without) - set(having) == set(named)
