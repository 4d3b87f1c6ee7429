"""Checks of flow control: each fails for what it is there for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.verdict.pause_checks import pause_checks
from gradwire.datatypes.pauses import PauseCount, PauseState
from gradwire.network.fabric import Fabric
from gradwire.network.lossless import Lossless
from tests.shared.parts import tells
from tests.unit.datatypes.test_pauses import count

FABRIC = Fabric(2, 10e9, classes=1, gso_bytes=16384, lossless=Lossless())
SOUND = (
    count("h1-eth0", stops=3),
    count("h2-eth0"),
    count("s1-eth1", pauses=3, resumes=3, headroom_bytes=60_000, most_headroom_bytes=41_000),
    count("s1-eth2", headroom_bytes=60_000),
)


def failed(*counts: PauseCount, lost: int = 0) -> list[str]:
    return [check.name for check in pause_checks(FABRIC, PauseState(0, lost, counts)) if not check.ok]


def test_a_sound_run_passes_all() -> None:
    checks = list(pause_checks(FABRIC, PauseState(0, 0, SOUND)))
    assert [check.name for check in checks] == ["flow control", "headroom", "pauses"]
    assert all(check.ok for check in checks)
    assert tells(checks[1].value, "0 dropped", "41,000 bytes", "h1 out (s1-eth1)")


def test_a_network_without_flow_control_has_none() -> None:
    assert list(pause_checks(replace(FABRIC, lossless=None), None)) == []


def test_a_run_that_tells_of_no_port_or_not_of_all_fails() -> None:
    assert [check.ok for check in pause_checks(FABRIC, None)] == [False]
    assert failed(*SOUND[:3]) == ["flow control"]


@pytest.mark.parametrize(
    ("place", "changes", "name"),
    [
        (2, {"dropped": 1}, "headroom"),
        (2, {"most_headroom_bytes": 60_001}, "headroom"),
        (2, {"resumes": 2}, "pauses"),
        (0, {"stops": 2}, "pauses"),
    ],
)
def test_each_defect_fails_its_check(place: int, changes: dict[str, int], name: str) -> None:
    counts = list(SOUND)
    counts[place] = replace(counts[place], **changes)  # type: ignore[arg-type] # all of them are counters
    assert failed(*counts) == [name]


def test_a_pause_that_was_never_told_fails() -> None:
    assert failed(*SOUND, lost=1) == ["pauses"]
