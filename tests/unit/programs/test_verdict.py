"""The checks of what a network carried for programs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from gradwire.datatypes.host_settings import HostTcp
from gradwire.datatypes.records import FaultRecord, PlannedFault
from gradwire.inside.program_protocol import PortTraffic, Report
from gradwire.network.fabric import Fabric
from gradwire.network.links import LinkSetting
from gradwire.programs.verdict import busiest, checks, line_bytes, line_use
from tests.unit.programs.test_laws import LINES

FABRIC = Fabric(2, 10e9)
FRAMES = 1_000_000
PORT = PortTraffic("h1-eth0", 10e9, FRAMES * 1514, FRAMES, 0)
LINE_S = FRAMES * 1538 * 8 / 10e9
SOUND = Report(
    duration_s=LINE_S,
    timed_out=False,
    ports=(PORT, PortTraffic("h2-eth0", 10e9, 0, 0, 0)),
    tcp_segments=FRAMES,
    tcp_retransmits=0,
    table_misses=0,
    upcalls=2,
    killed_for_memory=0,
)


def failed(report: Report, fabric: Fabric = FABRIC) -> list[str]:
    return [check.name for check in checks(report, fabric) if not check.ok]


def test_a_port_that_was_full_all_the_time_is_sound() -> None:
    assert line_bytes(PORT) == FRAMES * 1538
    assert line_use(PORT, LINE_S) == pytest.approx(1)
    assert failed(SOUND) == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"tcp_retransmits": 1}, "TCP retransmits"),
        ({"table_misses": 1}, "table misses"),
        ({"ports": (msgspec.structs.replace(PORT, drops=1),)}, "drops"),
    ],
)
def test_each_check_fails_alone(change: dict[str, object], check: str) -> None:
    assert failed(msgspec.structs.replace(SOUND, **change)) == [check]


def test_losses_that_were_asked_for_are_allowed_and_no_more() -> None:
    lossy, far = replace(FABRIC, loss=0.001), PortTraffic("s1-eth2", 10e9, FRAMES * 1514, FRAMES, 1000)
    lost = msgspec.structs.replace(SOUND, ports=(PORT, far), tcp_retransmits=1000)
    assert failed(lost, lossy) == []
    assert failed(msgspec.structs.replace(lost, ports=(PORT, msgspec.structs.replace(far, drops=2000))), lossy) == [
        "drops"
    ]


def test_losses_of_single_links_are_known() -> None:
    """The fabric's own loss is 0 there, so that every drop of such a link failed the run."""
    lossy = replace(FABRIC, link_settings=(LinkSetting("h1", loss=0.001),))
    lost = msgspec.structs.replace(SOUND, ports=(msgspec.structs.replace(PORT, drops=1000),), tcp_retransmits=1000)
    assert failed(lost, lossy) == []
    other = PortTraffic("h2-eth0", 10e9, FRAMES * 1514, FRAMES, 5000)
    assert failed(msgspec.structs.replace(lost, ports=(PORT, other)), lossy) == ["drops"]


def test_a_run_that_took_no_time_has_no_use() -> None:
    assert line_use(PORT, 0.0) == 0.0


def test_the_busiest_ports_come_first() -> None:
    assert [port.interface for port in busiest(SOUND.ports[::-1], 1)] == ["h1-eth0"]


def test_finite_buffers_drop_what_they_must_at_switches_and_nothing_at_hosts() -> None:
    finite = replace(FABRIC, gso_bytes=1514, buffer_bytes=100_000)
    switch = PortTraffic("s1-eth2", 10e9, FRAMES * 1514, FRAMES, 500)
    assert failed(msgspec.structs.replace(SOUND, ports=(PORT, switch), tcp_retransmits=500), finite) == []
    host = msgspec.structs.replace(PORT, drops=1)
    assert failed(msgspec.structs.replace(SOUND, ports=(host, switch)), finite) == ["drops"]


def test_queues_that_programs_put_below_a_band_may_drop() -> None:
    netem = msgspec.structs.replace(PORT, drops=100, replaced_by=("1:1 netem",))
    assert failed(msgspec.structs.replace(SOUND, ports=(netem, SOUND.ports[1]), tcp_retransmits=100)) == []


def test_buffers_of_single_links_are_known() -> None:
    setting = LinkSetting("h2", loss=0.001, buffer_bytes=100_000)
    finite = replace(FABRIC, gso_bytes=1514, link_settings=(setting,))
    switch = PortTraffic("s1-eth2", 10e9, FRAMES * 1514, FRAMES, 500)
    assert failed(msgspec.structs.replace(SOUND, ports=(PORT, switch), tcp_retransmits=500), finite) == []
    lossy_host = PortTraffic("h2-eth0", 10e9, FRAMES * 1514, FRAMES, 1000)
    assert failed(msgspec.structs.replace(SOUND, ports=(PORT, lossy_host)), finite) == []
    host = msgspec.structs.replace(PORT, drops=1)
    assert failed(
        msgspec.structs.replace(SOUND, ports=(host, switch)),
        replace(finite, link_settings=(replace(setting, loss=None),)),
    ) == ["drops"]


def test_stock_hosts_may_probe_and_not_send_everything_again() -> None:
    stock = replace(FABRIC, host_tcp=HostTcp.STOCK)
    assert failed(msgspec.structs.replace(SOUND, tcp_retransmits=FRAMES // 200), stock) == []
    assert failed(msgspec.structs.replace(SOUND, tcp_retransmits=FRAMES // 50), stock) == ["TCP retransmits"]


CUT = PlannedFault("cut", "link-down", 100_000_000, duration_ns=200_000_000, place="h1-eth0")
IN_TIME = FaultRecord(CUT, 100_000_000, 100_070_000, 300_070_000, 2)
LOSSY = replace(FABRIC, faulty=True)


def report_with(*records: FaultRecord, **changes: object) -> Report:
    return msgspec.structs.replace(SOUND, faults=records, **changes)


def failed_with(report: Report, *faults: PlannedFault, fabric: Fabric = LOSSY) -> list[str]:
    return [check.name for check in checks(report, fabric, faults) if not check.ok]


def test_a_fault_that_happened_in_its_time_is_named_and_what_it_loses_is_not_judged() -> None:
    lossy = msgspec.structs.replace(PORT, drops=7)
    report = report_with(IN_TIME, ports=(lossy,), tcp_retransmits=9)
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
    missed = report_with(replace(IN_TIME, fault=boot), replace(IN_TIME, fault=brain), table_misses=3)
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
