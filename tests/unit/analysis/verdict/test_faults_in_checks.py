"""What faults change in checks: other tenants' bytes are counted, and SENDs at a port that loses packets may be short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradwire.analysis.verdict.byte_checks import band_bytes_check, port_bytes_check
from gradwire.analysis.verdict.line_checks import line_checks
from gradwire.analysis.verdict.uplink_check import uplink_checks
from gradwire.datatypes.network_counts import BandCount
from gradwire.datatypes.records import FaultRecord, PlannedFault, PointRecord
from gradwire.network.fabric import Fabric, Topology
from tests.unit.analysis.verdict.sound_run import FABRIC, FAT_TREE, LEAF_SPINE, pushes, sound_log, sound_record

SENT_BYTES = 20_000_000
TENANT = PlannedFault("other", "tenant", 0, value=1e9, source=0, destination=3)
WAYS = {
    Topology.SINGLE_SWITCH: ("h1-eth0", "s1-eth4"),
    Topology.LEAF_SPINE: ("h1-eth0", "s1-eth3", "s3-eth2", "s2-eth2"),
    Topology.FAT_TREE: ("h1-eth0", "s1-eth3", "s3-eth2", "s5-eth2", "s4-eth1", "s2-eth2"),
}
"""The ports from the first host to the last."""


def with_tenant(fabric: Fabric, sent_bytes: int) -> PointRecord:
    """The record of a sound run beside a tenant, of which the ports counted SENT_BYTES and which says that it sent `sent_bytes`."""
    record = sound_record(fabric)
    counted = {(band.port, band.band): band for band in record.counts.bands}
    for port in WAYS[fabric.topology]:
        known = counted.get((port, 1), BandCount(port, 1, 0, 0, 0))
        counted[port, 1] = replace(known, bytes_sent=known.bytes_sent + round(SENT_BYTES * 1514 / 1448))
    fault = FaultRecord(TENANT, 0, 0, 10, 2, sent_bytes)
    return replace(record, counts=replace(record.counts, bands=tuple(counted.values())), faults=(fault,))


@pytest.mark.parametrize("fabric", [FABRIC, LEAF_SPINE, FAT_TREE], ids=lambda fabric: fabric.topology.value)
@pytest.mark.parametrize("check", [port_bytes_check, band_bytes_check])
def test_a_tenants_bytes_are_accounted_for_wherever_they_pass(check, fabric: Fabric) -> None:  # type: ignore[no-untyped-def]
    assert check(pushes(), fabric, with_tenant(fabric, SENT_BYTES)).ok
    assert not check(pushes(), fabric, with_tenant(fabric, 0)).ok
    assert not check(pushes(), fabric, with_tenant(fabric, 2 * SENT_BYTES)).ok


def test_a_tenants_bytes_are_accounted_for_at_the_uplinks_that_it_takes() -> None:
    fabric = Fabric(hosts=4, rate_bps=2e9, topology=Topology.LEAF_SPINE, leaves=2, spines=2)
    (right,) = uplink_checks(pushes(), fabric, with_tenant(LEAF_SPINE, SENT_BYTES), lambda *_: 0)
    assert right.ok, right.value
    (wrong,) = uplink_checks(pushes(), fabric, with_tenant(LEAF_SPINE, 0), lambda *_: 0)
    assert not wrong.ok


@pytest.mark.parametrize(
    ("fault", "is_looked_at"),
    [
        (PlannedFault("x", "loss", 0, place="h1-eth0", value=0.01), False),
        (PlannedFault("x", "link-down", 0, place="s1-eth1"), False),
        (PlannedFault("x", "switch-restart", 0, place="s1"), False),
        (PlannedFault("x", "loss", 0, place="h2-eth0", value=0.01), True),
        (PlannedFault("x", "rate", 0, place="h1-eth0", value=1e9), True),
    ],
    ids=["loss", "link", "switch", "elsewhere", "rate"],
)
def test_a_send_that_is_too_short_is_found_unless_its_port_lost_packets(
    fault: PlannedFault, is_looked_at: bool
) -> None:
    plan, log = pushes(), sound_log()
    sends = np.flatnonzero(plan.is_remote() & (plan.ops.rank == 0))
    at = np.flatnonzero((log.op == sends[0]) & (log.iteration == 1))
    end_ns = log.end_ns.copy()
    end_ns[at] = log.start_ns[at] + 100
    record = replace(sound_record(), faults=(FaultRecord(fault, 0, 0, int(log.end_ns.max()), 2),))
    checks = {each.name: each for each in line_checks(plan, FABRIC, replace(log, end_ns=end_ns), record, departs=True)}
    assert checks["send times"].ok is not is_looked_at


@pytest.mark.parametrize(
    ("delay_s", "due_ns", "ended_ns", "is_looked_at"),
    [
        pytest.param(1e-3, 50, 50, False, id="under way"),
        pytest.param(1e-3, -2_000_000, -2_000_000, True, id="before"),
        pytest.param(20e-6, 0, 80_000, False, id="ended late"),
        pytest.param(20e-6, -100_000, -80_000, True, id="ended late, and before"),
    ],
)
def test_packets_overtake_those_that_a_delay_still_holds_at_its_end(
    delay_s: float, due_ns: int, ended_ns: int, is_looked_at: bool
) -> None:
    """due_ns, ended_ns: when the end was due, and when its commands had been carried out, after a SEND of 100 ns began."""
    plan, log = pushes(), sound_log()
    sends = np.flatnonzero(plan.is_remote() & (plan.ops.rank == 0))
    at = np.flatnonzero((log.op == sends[0]) & (log.iteration == 1))
    end_ns = log.end_ns.copy()
    end_ns[at] = log.start_ns[at] + 100
    begun_ns = int(log.start_ns[at][0])
    delay = PlannedFault("x", "delay", 0, duration_ns=begun_ns + due_ns, place="h1-eth0", value=delay_s)
    record = replace(sound_record(), faults=(FaultRecord(delay, 0, 0, begun_ns + ended_ns, 2),))
    checks = {each.name: each for each in line_checks(plan, FABRIC, replace(log, end_ns=end_ns), record, departs=True)}
    assert checks["send times"].ok is not is_looked_at
