"""How many bytes the checks of counters allow: to the byte, by the allowances that they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gradwire.analysis.verdict.byte_checks import band_bytes_check, port_bytes_check
from gradwire.analysis.verdict.uplink_check import uplink_checks
from gradwire.datatypes.host_settings import HostTcp
from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.plan import Plan, Role
from gradwire.datatypes.records import PointRecord
from gradwire.network.fabric import Fabric, Topology
from gradwire.workloads.builder import PlanBuilder
from tests.unit.analysis.verdict.sound_run import (
    FABRIC,
    ITERATIONS,
    LEAF_SPINE,
    SIZE_BYTES,
    TOKEN_BYTES,
    pushes,
    sound_record,
)

FRAME_SHARE = 1514 / 1448
"""Of a full frame at MTU 1500, what tc counts for each byte of payload."""
ACK_SHARE = 66 / (2 * 1514)
LOSS = 0.001


def counting(record: PointRecord, port: str, band: int, size_bytes: int) -> PointRecord:
    """The record with this many bytes in one band of a port, and all others as they were."""
    others = [each for each in record.counts.bands if (each.port, each.band) != (port, band)]
    return replace(record, counts=replace(record.counts, bands=(*others, BandCount(port, band, size_bytes, 0, 0))))


@pytest.mark.parametrize("loss", [0.0, LOSS])
def test_hosts_ports_may_count_this_much_and_no_byte_more(loss: float) -> None:
    """1 % and three times the loss more than full frames, ACKs, 200 bytes per message and 500 a connection, and 100,000 of anything."""
    fabric = replace(FABRIC, loss=loss)
    full = (6 * SIZE_BYTES + 3 * TOKEN_BYTES) * ITERATIONS * FRAME_SHARE
    beside = 200 * 9 * ITERATIONS + 500 * 4 * 3 * fabric.bands + 100_000
    most = int(full * (1.01 + 3 * loss + ACK_SHARE) + beside)
    record = sound_record(fabric)
    at_others = sum(
        each.bytes_sent
        for each in record.counts.bands
        if each.port.startswith("h") and (each.port, each.band) != ("h1-eth0", 1)
    )
    for size_bytes, is_ok in ((most - at_others, True), (most - at_others + 1, False)):
        assert port_bytes_check(pushes(), fabric, counting(record, "h1-eth0", 1, size_bytes)).ok is is_ok


@pytest.mark.parametrize("loss", [0.0, LOSS])
@pytest.mark.parametrize("way", [1, -1], ids=["more", "less"])
@pytest.mark.parametrize(("hosts", "ack_share"), [(HostTcp.TUNED, 0.0), (HostTcp.STOCK, ACK_SHARE)])
def test_a_band_may_differ_by_this_much_and_no_byte_more(
    hosts: HostTcp, ack_share: float, way: int, loss: float
) -> None:
    """2 % and three times the loss, 500 bytes from each of three other hosts, 200 a message, and 100,000 of anything. On
    stock hosts, it also has the ACKs of all three messages in the band."""
    fabric = replace(FABRIC, loss=loss, host_tcp=hosts)
    full = SIZE_BYTES * ITERATIONS * FRAME_SHARE
    slack = (0.02 + 3 * loss) * full + 500 * 3 + 100_000 + 200 * ITERATIONS + ack_share * 3 * full
    edge = int(full + way * slack) + (way < 0)
    for size_bytes, is_ok in ((edge, True), (edge + way, False)):
        assert band_bytes_check(pushes(), fabric, counting(sound_record(fabric), "h1-eth0", 1, size_bytes)).ok is is_ok


@pytest.mark.parametrize(
    ("changes", "share", "again_bytes"),
    [({}, 0.02, 0), ({"loss": LOSS}, 0.02 + 3 * LOSS, 0), ({"buffer_bytes": 10**6}, 0.02, 7 * 1514)],
    ids=["lossless", "loss", "buffer"],
)
@pytest.mark.parametrize("way", [1, -1], ids=["more", "less"])
def test_a_line_between_switches_may_differ_by_this_much_and_no_byte_more(
    way: int, changes: dict[str, Any], share: float, again_bytes: int
) -> None:
    """As a band, but with both classes of both hosts together, and 2 x 2 pairs of hosts in each band. TCP sent seven frames again."""
    fabric = replace(LEAF_SPINE, spines=2, **changes)
    sent = sound_record(LEAF_SPINE)
    sent = replace(sent, counts=replace(sent.counts, tcp_retransmits=7))
    of_class = 2 * SIZE_BYTES * ITERATIONS * FRAME_SHARE
    slack = share * 2 * of_class + 200 * 4 * ITERATIONS + 500 * 2 * 2 * fabric.bands + 100_000 + again_bytes
    edge = int(2 * of_class + way * slack) + (way < 0) - round(of_class)
    for size_bytes, is_ok in ((edge, True), (edge + way, False)):
        record = counting(counting(sent, "s1-eth3", 2, round(of_class)), "s1-eth3", 1, size_bytes)
        (check,) = uplink_checks(pushes(), fabric, record, lambda *_: 0)
        assert check.ok is is_ok, check.value


SIX = Fabric(hosts=6, rate_bps=2e9, topology=Topology.LEAF_SPINE, leaves=3, spines=1)
"""Three leaves of two hosts each: 2 x 4 ordered pairs of hosts meet across a leaf's uplink, in each direction."""


def one_token() -> Plan:
    """A worker sends itself on to the next iteration by way of another host."""
    builder = PlanBuilder("token")
    worker, other = builder.rank(Role.WORKER, 0), builder.rank(Role.SERVER, 1)
    compute = builder.compute(worker, 1e-3)
    there, came = builder.message(builder.queue(worker), other, TOKEN_BYTES)
    back, returned = builder.message(builder.queue(other), worker, TOKEN_BYTES)
    builder.depend(there, compute)
    builder.depend(back, came)
    builder.iteration(worker, compute, returned)
    return builder.build(compute_s=1e-3, samples=1)


@pytest.mark.parametrize(
    ("port", "pairs"), [("h1-eth0", 5), ("s1-eth1", 5), ("s1-eth3", 8), ("s3-eth3", 8), ("s4-eth2", 8)]
)
def test_each_pair_of_hosts_that_meets_at_a_port_may_open_its_connection_there(port: str, pairs: int) -> None:
    """In a band that has no message of the plan: 500 bytes for each of them, and 100,000 of anything."""
    nothing = PointRecord(
        "virtual", ITERATIONS, 1, (), NetworkCounts((), 0, 0, upcalls=0, table_miss_packets=0), 1.0, 0.0, "prio"
    )
    most = 500 * pairs + 100_000
    for size_bytes, is_ok in ((most, True), (most + 1, False)):
        assert band_bytes_check(one_token(), SIX, counting(nothing, port, 1, size_bytes)).ok is is_ok
