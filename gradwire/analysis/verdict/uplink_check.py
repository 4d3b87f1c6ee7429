"""The check that messages between leaves take the spines and cores that the switches' rules choose."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.fluid.paths import Paths, SpineOf, paths_of, ports_between
from gradwire.analysis.verdict.byte_checks import (
    BAND_TOLERANCE,
    FLOOR_BYTES,
    HANDSHAKE_BYTES,
    LOSS_FACTOR,
    PORT_SLACK_BYTES,
    resent_bytes,
    tcp_frame_share,
    tenants_of,
)
from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.fabric import CONTROL_BAND, ETHERNET_HEADER_BYTES, PREAMBLE_FCS_GAP_BYTES, Fabric, Routing
from gradwire.datatypes.plan import Int64, Plan
from gradwire.datatypes.records import PointRecord
from gradwire.datatypes.routes import line_interfaces


def uplink_checks(plan: Plan, fabric: Fabric, record: PointRecord, spine_of: SpineOf | None) -> list[Check]:
    """The data of each line between two switches is the plan's and other tenants', with the tolerances of
    `band_bytes_check`.

    The port that uses most of its slack is reported. There is no check without a choice of spines, or if `spine_of`
    does not tell it.
    """
    if fabric.graph is None and (len(fabric.spine_names()) < 2 or spine_of is None):
        return []
    counted: dict[str, int] = {}
    for count in record.counts.bands:
        if count.band != CONTROL_BAND:
            counted[count.port] = counted.get(count.port, 0) + count.bytes_sent
    data = np.flatnonzero(plan.is_remote() & (plan.ops.traffic_class >= 0))
    paths = paths_of(plan, fabric, spine_of)
    frames = paths.line_bytes[data] * (
        1 - PREAMBLE_FCS_GAP_BYTES / (fabric.mtu_bytes + ETHERNET_HEADER_BYTES + PREAMBLE_FCS_GAP_BYTES)
    )
    beside = [
        (ports_between(fabric, tenant.fault.source, tenant.fault.destination, spine_of), tenant.sent_bytes)
        for tenant in tenants_of(record)
    ]
    tolerance = BAND_TOLERANCE + LOSS_FACTOR * fabric.most_loss
    worst, text = -1.0, ""
    ports = line_interfaces(fabric)[2 * fabric.hosts :]
    for number, port in enumerate(ports, 2 * fabric.hosts):
        passing = np.isin(paths.flow_of_send[data], _flows_past(paths, number))
        expected = float(frames[passing].sum()) * record.iterations
        expected += sum(size_bytes for way, size_bytes in beside if number in way) * tcp_frame_share(fabric)
        slack = tolerance * expected + PORT_SLACK_BYTES * int(passing.sum()) * record.iterations
        slack += HANDSHAKE_BYTES * _pairs_past(fabric, number) * fabric.bands + FLOOR_BYTES
        slack += resent_bytes(fabric, record)
        used = abs(counted.get(port, 0) - expected) / slack
        if used > worst:
            worst, text = used, f"{port}: {counted.get(port, 0)} bytes, plan {expected:.0f}"
    return [
        Check(
            "bytes by uplink",
            f"{text} ({worst:.0%} of the slack used)",
            f"{tolerance:.0%} and the slack of bytes by class, at each of {len(ports)} ports",
            worst <= 1,
            "Messages took other spines than the switches' rules choose, so the uplinks were loaded in another way.",
        )
    ]


def _pairs_past(fabric: Fabric, number: int) -> int:
    """Pairs of hosts whose packets may pass a line between switches: of those below it with all others, or of all in a
    graph."""
    if fabric.graph is not None or fabric.routing in (Routing.STATIC, Routing.CONTROLLER):
        return fabric.hosts * (fabric.hosts - 1)
    trunks = fabric.tree.trunks
    lower = trunks[(number - 2 * fabric.hosts) % len(trunks)].lower
    below = fabric.hosts_per_leaf * (1 if lower < fabric.tree.leaf_count else fabric.tree.leaves)
    return below * (fabric.hosts - below)


def _flows_past(paths: Paths, port: int) -> Int64:
    """The flows that pass a port."""
    flow = np.repeat(np.arange(len(paths.route_start) - 1), np.diff(paths.route_start))
    return np.asarray(flow[paths.route_port == port])
