"""The check that messages between leaves take the spines and cores that the switches' rules choose."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

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
from gradwire.datatypes.plan import Int64, Plan
from gradwire.datatypes.records import PointRecord
from gradwire.network.fabric import CONTROL_BAND, ETHERNET_HEADER_BYTES, PREAMBLE_FCS_GAP_BYTES, Fabric
from gradwire.network.routes import line_interfaces
from gradwire.network.sprayed_ways import SprayedRoutes, chunk_bits, chunk_bytes, turns_of, way_of_turn

BEGINNINGS = 8
"""Places in a chunk where a connection is taken to begin, to find by how much its bursts may be uneven."""


def uplink_checks(plan: Plan, fabric: Fabric, record: PointRecord, spine_of: SpineOf | None) -> list[Check]:
    """The data of each line between two switches is the plan's and other tenants', with the tolerances of
    `band_bytes_check`.

    The port that uses most of its slack is reported. There is no check without a choice of spines, or if `spine_of`
    does not tell it.
    """
    if fabric.is_tiered and (len(fabric.spine_names()) < 2 or spine_of is None):
        return []
    counted: dict[str, int] = {}
    for count in record.counts.bands:
        if count.band != CONTROL_BAND:
            counted[count.port] = counted.get(count.port, 0) + count.bytes_sent
    data = np.flatnonzero(plan.is_remote() & (plan.ops.traffic_class >= 0))
    paths = paths_of(plan, fabric, spine_of)
    parts = _Sprayed(plan, fabric) if fabric.routing.policy.splits_messages else None
    flowlets = _Flowlets(fabric, record) if fabric.routing.policy.chooses_for_flowlets else None
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
        if parts is not None:
            shares = parts.shares(data, number, passing)
            passing = shares > 0
            expected = float((frames * shares).sum()) * record.iterations
        if flowlets is not None:
            passing &= plan.ops.group[data] == 1
            expected = float(frames[passing].sum()) * record.iterations + flowlets.frame_bytes(number)
        expected += sum(size_bytes for way, size_bytes in beside if number in way) * tcp_frame_share(fabric)
        slack = tolerance * expected + PORT_SLACK_BYTES * int(passing.sum()) * record.iterations
        slack += HANDSHAKE_BYTES * _pairs_past(fabric, number) * fabric.bands + FLOOR_BYTES
        slack += resent_bytes(fabric, record)
        slack += PORT_SLACK_BYTES * (0 if flowlets is None else flowlets.messages)
        slack += 0.0 if parts is None else parts.slack_bytes(data[passing], number)
        used = abs(counted.get(port, 0) - expected) / slack
        if used > worst:
            worst, text = used, f"{port}: {counted.get(port, 0)} bytes, plan {expected:.0f}"
    return [
        Check(
            "bytes by uplink",
            f"{text} ({worst:.0%} of the slack used)" + ("" if flowlets is None else f", {flowlets.flowlets} flowlets"),
            f"{tolerance:.0%} and the slack of bytes by class, at each of {len(ports)} ports",
            worst <= 1,
            "Messages took other spines than the switches' rules choose, so the uplinks were loaded in another way.",
        )
    ]


class _Sprayed:
    """The share of messages that passes a line where the bursts of each message take all ways in turn."""

    def __init__(self, plan: Plan, fabric: Fabric) -> None:
        self._plan, self._fabric, self._routes = plan, fabric, SprayedRoutes.of(fabric)
        self._ways = self._routes.ways
        self._passing: dict[tuple[int, int], list[int]] = {}
        self._way_of_burst = _way_of_burst(fabric)
        self._uneven: dict[tuple[int, int, int], float] = {}

    def shares(self, sends: Int64, line: int, multicast: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Share of each message that passes a line between switches. multicast: whether each message to a group, which
        has one way, passes it."""
        ops, host = self._plan.ops, self._plan.rank_host
        grouped = ops.group[sends] == 1
        single = sends[~grouped]
        found = np.where(grouped & multicast, 1.0, 0.0)
        pairs, pair_of = np.unique(
            np.stack([host[ops.rank[single]], host[ops.peer[single]]]), axis=1, return_inverse=True
        )
        of_pair = np.array([self._lines(*pair).count(line) / self._ways for pair in pairs.T.tolist()])
        if len(single):
            found[~grouped] = of_pair[pair_of.reshape(-1)]
        return found

    def slack_bytes(self, sends: Int64, line: int) -> float:
        """Bytes by which a line may differ from its share: for each connection, the unevenness of bursts in a row, and
        a chunk."""
        ops, host = self._plan.ops, self._plan.rank_host
        single = sends[ops.group[sends] == 0]
        keys = np.column_stack([ops.rank[single], ops.peer[single], ops.traffic_class[single], ops.lane[single]])
        ranks = np.unique(keys, axis=0)[:, :2]
        pairs, connections = np.unique(host[ranks], axis=0, return_counts=True)
        bursts = sum(
            count * self._uneven_bursts(source, target, line)
            for (source, target), count in zip(pairs.tolist(), connections.tolist(), strict=True)
        )
        burst_bytes = _segments(self._fabric) * (self._fabric.mtu_bytes + ETHERNET_HEADER_BYTES)
        return float(bursts * burst_bytes + chunk_bytes(self._fabric) * int(connections.sum()))

    def _uneven_bursts(self, source: int, target: int, line: int) -> float:
        """Largest difference between the bursts that pass a line and its share of them, for any number of bursts in a
        row. A burst goes the way of its first segment, and is shorter than a chunk: so some chunks have two, which may
        be those of the same line."""
        key = self._fabric.switch_of(source), self._fabric.switch_of(target), line
        if key not in self._uneven:
            passes = np.array([line in self._routes.path(source, target, way) for way in range(self._ways)], np.float64)
            passed = passes[self._way_of_burst]
            ahead = np.cumsum(passed - passed.mean(), axis=1)
            self._uneven[key] = float((ahead.max(axis=1) - ahead.min(axis=1)).max())
        return self._uneven[key]

    def _lines(self, source: int, target: int) -> list[int]:
        """The lines of all ways between two hosts, each as often as ways pass it."""
        if (source, target) not in self._passing:
            ways = [self._routes.path(source, target, way) for way in range(self._ways)]
            self._passing[source, target] = [line for way in ways for line in way]
        return self._passing[source, target]


def _segments(fabric: Fabric) -> int:
    """Segments of a full burst."""
    return max(1, fabric.gso_bytes // fabric.mss_bytes())


def _way_of_burst(fabric: Fabric) -> Int64:
    """The ways of full bursts one after the other, a row for each of several places where a connection may begin in a chunk."""
    chunk, turns = 1 << chunk_bits(fabric), turns_of(fabric)
    way = np.array([way_of_turn(fabric, turn) for turn in range(turns)], np.int64)
    begins = np.arange(0, chunk, max(1, chunk // BEGINNINGS))[:, None]
    found: Int64 = way[(begins + _segments(fabric) * np.arange(2 * turns)[None, :]) // chunk % turns]
    return found


class _Flowlets:
    """The bytes that pass each line by the ways that the senders' hosts chose for their flowlets."""

    def __init__(self, fabric: Fabric, record: PointRecord) -> None:
        routes = SprayedRoutes.of(fabric)
        self._on_line: Counter[int] = Counter()
        self.messages = sum(agent.messages_sent for agent in record.agents)
        self.flowlets = 0
        for count in (count for agent in record.agents for count in agent.flowlets):
            self.flowlets += count.flowlets
            for line in routes.path(count.src_host, count.dst_host, count.way):
                self._on_line[line] += count.size_bytes
        self._share = tcp_frame_share(fabric)

    def frame_bytes(self, line: int) -> float:
        """Bytes of the frames that pass a line, as tc counts them."""
        return self._on_line[line] * self._share


def _pairs_past(fabric: Fabric, number: int) -> int:
    """Pairs of hosts whose packets may pass a line between switches: of those below it with all others, or of all in a
    graph."""
    if not (fabric.is_tiered and fabric.routing.policy.takes_shortest_ways):
        return fabric.hosts * (fabric.hosts - 1)
    trunks = fabric.tree.trunks
    lower = trunks[(number - 2 * fabric.hosts) % len(trunks)].lower
    below = fabric.hosts_per_leaf * (1 if lower < fabric.tree.leaf_count else fabric.tree.leaves)
    return below * (fabric.hosts - below)


def _flows_past(paths: Paths, port: int) -> Int64:
    """The flows that pass a port."""
    flow = np.repeat(np.arange(len(paths.route_start) - 1), np.diff(paths.route_start))
    return np.asarray(flow[paths.route_port == port])
