"""What a scenario sets of hosts' kernels, in the verdict: whether it was there, and what depends on it."""

from __future__ import annotations

from dataclasses import replace

from gradwire.analysis.verdict.host_checks import parameter_checks, replaced_settings
from gradwire.analysis.verdict.verdict import Verdict, judge
from gradwire.datatypes.host_settings import HostParameter, HostSetting
from gradwire.datatypes.records import PointRecord
from gradwire.network.fabric import Fabric
from tests.shared.parts import tells
from tests.unit.analysis.verdict.sound_run import FABRIC, pushes, sound_log, sound_record
from tests.unit.analysis.verdict.test_every_check import controlled

BBR = ("net.ipv4.tcp_congestion_control", "bbr")


def with_hosts(pattern: str, *sysctls: tuple[str, str]) -> Fabric:
    return replace(FABRIC, host_settings=(HostSetting(pattern, sysctls),))


def found(fabric: Fabric, record: PointRecord | None = None) -> PointRecord:
    """A sound record of a run whose hosts were set as the fabric says."""
    parameters = tuple(
        HostParameter(host, key, "before", is_own=False, at_end=parameter.value)
        for host, asked in zip(fabric.host_names(), fabric.host_parameters, strict=True)
        for key, parameter in asked.items()
    )
    return replace(record or sound_record(), host_parameters=parameters)


def failed(fabric: Fabric, record: PointRecord) -> list[str]:
    return [check.name for check in judged(fabric, record).checks if not check.ok]


def judged(fabric: Fabric, record: PointRecord) -> Verdict:
    return judge(pushes(), fabric, sound_log(), record)


def test_a_parameter_has_to_be_there_at_the_end_whatever_sets_its_numbers_apart() -> None:
    fabric = with_hosts("h[12]", ("net.ipv4.ip_local_port_range", "32768 60999"))
    record = found(fabric)
    assert failed(fabric, record) == []
    tabs = tuple(replace(each, at_end="32768\t60999") for each in record.host_parameters)
    assert failed(fabric, replace(record, host_parameters=tabs)) == []
    assert failed(fabric, replace(record, host_parameters=tabs[:1])) == ["host parameters"]
    other = replace(tabs[1], at_end="1 2")
    assert failed(fabric, replace(record, host_parameters=(tabs[0], other))) == ["host parameters"]
    (check,) = parameter_checks(fabric, (tabs[0], other))
    assert tells(check.value, "1 of 2", "net.ipv4.ip_local_port_range", "h2", "'1 2'")


def test_without_any_there_is_no_check() -> None:
    assert parameter_checks(FABRIC, ()) == []


def test_settings_of_gradwires_own_are_named_with_their_hosts() -> None:
    own = [
        HostParameter(f"h{number}", "net.ipv4.tcp_rmem", "1\t2", is_own=True, at_end="3 4") for number in range(1, 6)
    ]
    (line,) = replaced_settings(own)
    assert tells(line, "net.ipv4.tcp_rmem = '1 2'", "h1, h2, h3", "2 more")
    assert replaced_settings([replace(own[0], is_own=False)]) == []


def test_the_congestion_control_of_hosts_is_read_back_from_sockets() -> None:
    fabric = with_hosts("all", BBR)
    assert failed(fabric, found(fabric, controlled("bbr"))) == []
    assert failed(fabric, found(fabric, controlled("cubic"))) == ["congestion control"]
    some = with_hosts("h4", BBR)  # the server's: its senders have the kernel's own
    assert failed(some, found(some, controlled("cubic"))) == ["congestion control"]


def test_the_rate_probe_may_be_slow_where_tcp_is_set_and_never_fast() -> None:
    slow = replace(sound_record(), rate_probe=1.2)
    assert failed(FABRIC, slow) == ["rate probe"]
    fabric = with_hosts("h1", ("net.ipv4.tcp_limit_output_bytes", "4096"))
    assert failed(fabric, found(fabric, slow)) == []
    assert failed(fabric, found(fabric, replace(slow, rate_probe=0.9))) == ["rate probe"]
    other = with_hosts("h1", ("net.ipv4.ip_forward", "1"))
    assert failed(other, found(other, slow)) == ["rate probe"]


def test_tcp_may_send_again_what_is_not_lost_where_that_is_set() -> None:
    record = sound_record()
    again = replace(record, counts=replace(record.counts, tcp_retransmits=3))
    assert failed(FABRIC, again) == ["TCP retransmits"]
    fabric = with_hosts("all", ("net.ipv4.tcp_early_retrans", "3"))
    assert failed(fabric, found(fabric, again)) == []


def test_marks_are_not_due_where_hosts_do_not_ask_for_ecn() -> None:
    marking = replace(FABRIC, ecn_bytes=500_000)
    record = sound_record(marking)
    bands = tuple(
        replace(band, above_threshold=10, limit_bytes=2**31 - 1, threshold_bytes=500_000, all_marked_bytes=500_000)
        if band.port.startswith("s")
        else band
        for band in record.counts.bands
    )
    unmarked = replace(record, counts=replace(record.counts, bands=bands))
    assert "ECN marks" in failed(marking, unmarked)
    fabric = replace(marking, host_settings=(HostSetting("all", (("net.ipv4.tcp_ecn", "0"),)),))
    assert "ECN marks" not in failed(fabric, found(fabric, unmarked))
