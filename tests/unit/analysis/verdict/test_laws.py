"""Laws of a network, over counts made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.law_checks import law_checks
from gradwire.analysis.verdict.network_checks import NetworkState, passed_on_check
from gradwire.datatypes.network_counts import LineCount, NetworkCounts
from gradwire.datatypes.pauses import PauseState
from gradwire.network.fabric import Fabric
from gradwire.network.topology import Topology
from tests.unit.datatypes.test_pauses import count

FABRIC = Fabric(2, 10e9)
GIVEN = {"h1-eth0": 700, "s1-eth1": 300, "h2-eth0": 300, "s1-eth2": 700}
LINES = tuple(
    LineCount(
        port,
        is_there=True,
        frames=frames,
        size_bytes=frames * 1514,
        lost=0,
        ahead_ns=54_000,
        ahead_at_ns=5,
        limit_ns=60_000,
    )
    for port, frames in GIVEN.items()
)


def changed(port: str, **values: Any) -> tuple[LineCount, ...]:
    """The lines, of which one counted something else; as many full frames as it counted, unless its bytes are given."""
    if "frames" in values:
        values = {"size_bytes": 1514 * values["frames"], **values}
    return tuple(replace(line, **values) if line.port == port else line for line in LINES)


def passed_on(fabric: Fabric, lines: tuple[LineCount, ...], lost_packets: int = 0) -> list[Check]:
    counts = NetworkCounts((), 0, 0, upcalls=0, table_miss_packets=lost_packets, lines=lines)
    return [*passed_on_check(NetworkState(fabric, counts))]


def failed(lines: tuple[LineCount, ...], fabric: Fabric = FABRIC, lost_packets: int = 0) -> list[str]:
    checks = [*law_checks(fabric, lines), *passed_on(fabric, lines, lost_packets)]
    assert len(checks) == 4
    return [check.name for check in checks if not check.ok]


def test_lines_at_their_rate_are_sound() -> None:
    assert failed(LINES) == []
    assert failed(changed("h1-eth0", ahead_ns=60_000)) == []
    assert failed(changed("h1-eth0", size_bytes=700 * 1522)) == []
    assert failed(tuple(replace(line, frames=0, size_bytes=0) for line in LINES)) == []


@pytest.mark.parametrize(
    ("lines", "law"),
    [
        (changed("h1-eth0", ahead_ns=60_001), "line rate"),
        (changed("s1-eth2", beyond_bytes=1, beyond_first_ns=7, beyond_last_ns=9), "line rate"),
        (changed("h2-eth0", is_there=False), "lines"),
        (changed("s1-eth2", size_bytes=700 * 1522 + 1), "frame lengths"),
        (changed("h1-eth0", size_bytes=120 * 9014 + 580 * 42), "frame lengths"),
        ((*LINES[:-1], replace(LINES[-1], port="elsewhere"), replace(LINES[-1], port="h9-eth0")), "lines"),
        (changed("s1-eth2", frames=699), "passed on by switches"),
        (changed("h1-eth0", frames=1700), "passed on by switches"),
    ],
)
def test_each_law_fails_alone(lines: tuple[LineCount, ...], law: str) -> None:
    assert law in failed(lines)
    assert set(failed(lines)) <= {law, "passed on by switches"}


def test_what_was_counted_as_lost_need_not_be_passed_on() -> None:
    """A packet may be as many frames as a burst has."""
    frames = -(-FABRIC.gso_bytes // FABRIC.mss_bytes())
    assert failed(changed("s1-eth2", frames=700 - frames), lost_packets=1) == []
    assert failed(changed("s1-eth2", frames=700 - frames - 1), lost_packets=1) == ["passed on by switches"]
    assert failed(changed("h1-eth0", frames=705, lost=5)) == []


def test_what_did_not_fit_into_headroom_need_not_be_passed_on() -> None:
    counts = NetworkCounts((), 0, 0, upcalls=0, table_miss_packets=0, lines=changed("s1-eth2", frames=699))
    dropped = PauseState(0, 0, (count("s1-eth1", 1, dropped=1),))
    for pauses, is_kept in ((None, False), (dropped, True)):
        (check,) = passed_on_check(NetworkState(FABRIC, counts, pauses=pauses))
        assert check.ok == is_kept


def test_a_switch_may_copy_frames() -> None:
    assert failed(changed("s1-eth2", frames=1400)) == []


def test_frames_between_switches_are_not_passed_on_to_a_host() -> None:
    fabric = Fabric(2, 10e9, Topology.LEAF_SPINE, leaves=2, spines=1)
    hosts = {link.a.interface: link.b.interface for link in fabric.links() if link.a.device in fabric.host_names()}
    assert len(hosts) == 2
    frames = {port.interface: 0 if port.interface in hosts.values() else 50 for port, _ in fabric.ports()}
    lines = tuple(replace(LINES[0], port=port, frames=number) for port, number in frames.items())
    (check,) = passed_on(fabric, lines)
    assert (check.ok, check.value) == (False, "0 of 100 frames")


def test_the_worst_line_is_named_with_when_and_by_how_much() -> None:
    lines = changed(
        "h1-eth0", ahead_ns=9_000_000, beyond_bytes=12_345_678, beyond_first_ns=10**8, beyond_last_ns=3 * 10**8
    )
    (rate,) = [check for check in law_checks(FABRIC, lines) if check.name == "line rate"]
    assert all(part in rate.value for part in ("h1-eth0", "9,000.0 us", "0.100000", "0.300000", "12,345,678"))


def test_a_kernel_without_counters_of_lines_is_not_judged_by_them() -> None:
    assert [*law_checks(FABRIC, ()), *passed_on(FABRIC, ())] == []
    assert passed_on(replace(FABRIC, controller="own.py"), LINES) == []
