"""Queues of hosts that a scenario describes are kept: over counts made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.analysis.verdict.host_queue_checks import host_queue_checks
from gradwire.datatypes.network_counts import BandCount, LineCount, NetworkCounts, ReplacedQueues
from gradwire.datatypes.records import PlannedFault
from gradwire.network.fabric import Fabric
from gradwire.network.lossless import Lossless

FABRIC = Fabric(2, 10e9)
LIMITED = replace(FABRIC, flow_rate_bps=2e9)
BANDS = tuple(BandCount(port, band, 9, 50, 0) for port in ("h1-eth0", "h2-eth0", "s1-eth1") for band in (0, 1))
LINES = tuple(LineCount(port, True, 100, 9, 0, 1, 1, 2) for port in ("h1-eth0", "h2-eth0", "s1-eth1"))
COUNTS = NetworkCounts(BANDS, 0, 0, 0, 0, lines=LINES, changed_ports=())
SLOWER = PlannedFault("slow", "rate", 0, place="s1-eth1", value=1e9)


def failed(fabric: Fabric, counts: NetworkCounts, *faults: PlannedFault) -> list[str]:
    return [check.value for check in host_queue_checks(fabric, counts, faults) if not check.ok]


@pytest.mark.parametrize(
    "counts",
    [
        replace(COUNTS, changed_ports=("h1-eth0",)),
        replace(COUNTS, replaced=(ReplacedQueues("h1-eth0", ("root htb",), 0, 0, 0),)),
        replace(COUNTS, lines=(replace(LINES[0], frames=101), *LINES[1:])),
    ],
    ids=["changed", "replaced", "passed by"],
)
def test_described_queues_are_kept_and_not_passed_by(counts: NetworkCounts) -> None:
    lossless = replace(FABRIC, lossless=Lossless())
    for fabric, faults in ((LIMITED, ()), (lossless, ()), (FABRIC, (SLOWER,))):
        assert failed(fabric, COUNTS, *faults) == []
        (value,) = failed(fabric, counts, *faults)
        assert "h1-eth0" in value


def test_other_queues_are_the_programs_own() -> None:
    changed = replace(COUNTS, changed_ports=("h2-eth0",))
    assert [*host_queue_checks(FABRIC, changed, ())] == []
    assert failed(FABRIC, changed, SLOWER) == []
    assert failed(FABRIC, changed, replace(SLOWER, kind="link-down", place="s1-eth2")) == []
    assert failed(FABRIC, changed, replace(SLOWER, place="h2-eth0")) != []


def test_nothing_is_said_of_a_run_that_nobody_watched() -> None:
    assert [*host_queue_checks(LIMITED, replace(COUNTS, changed_ports=None), ())] == []
