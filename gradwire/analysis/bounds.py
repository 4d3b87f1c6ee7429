"""Closed-form lower bounds of the iteration time, which show how far a strategy is from the best possible.

Each bound drops all limits but one, so the greatest of them is also a lower bound. They bound the mean over steady
iterations: a single iteration may be shorter if the one before it did a part of its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.analysis.fluid.paths import paths_of
from gradwire.datatypes.plan import Int64, OpKind, Plan, Role
from gradwire.faults import InternalFault
from gradwire.network.fabric import Fabric
from gradwire.network.links import Link
from gradwire.network.routes import lines_of, routes_of
from gradwire.network.sprayed_ways import SprayedRoutes
from gradwire.network.tiers import Tier
from gradwire.network.wire.ways import MessageWays

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

MAX_CHAINED_ITERATIONS = 9
"""Iterations after which the critical path is averaged if it has not become steady."""
AVERAGED_ITERATIONS = 4


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of an iteration, in seconds."""

    #: The busiest compute stream of any rank.
    compute_s: float
    #: Bytes over line rate on the busiest direction of a host link, or of a leaf's uplinks together.
    bandwidth_s: float
    #: The longest path of dependencies, with each message alone on an empty network.
    critical_path_s: float
    #: The busiest stream that only adds; 0 if there is none.
    aggregation_s: float = 0.0

    @property
    def lower_bound_s(self) -> float:
        """The greatest of the bounds."""
        return max(self._by_kind().values())

    @property
    def kind(self) -> str:
        """The name of the greatest bound: "compute", "aggregation", "bandwidth" or "critical path"."""
        by_kind = self._by_kind()
        return max(by_kind, key=lambda kind: by_kind[kind])

    def _by_kind(self) -> dict[str, float]:
        return {
            "compute": self.compute_s,
            "aggregation": self.aggregation_s,
            "bandwidth": self.bandwidth_s,
            "critical path": self.critical_path_s,
        }


def bounds(plan: Plan, fabric: Fabric, early_s: float = 0.0) -> Bounds:
    """All bounds of one steady iteration of `plan` on `fabric`. Raises InternalFault if the plan has a cycle.

    `early_s` is how early an emulated message may arrive (Fabric.grain_s); 0 gives the bounds of a real network. A
    busy port makes up for it with its next packet, so it shortens the bandwidth bound once, but the critical path at
    every message.
    """
    compute_s, aggregation_s = stream_bounds_s(plan)
    bandwidth_s = max(0.0, _bandwidth_bound_s(plan, fabric) - early_s)
    return Bounds(compute_s, bandwidth_s, critical_path_s(plan, fabric, early_s), aggregation_s)


def slowest_bps(fabric: Fabric) -> float:
    """Rate of the slowest ports that a message may pass, which may be those between switches; or of a flow that is
    limited to less."""
    return min([link.rate_bps for link in fabric.shape_links] + [fabric.flow_rate_bps] * (fabric.flow_rate_bps > 0))


def stream_bounds_s(plan: Plan) -> tuple[float, float]:
    """Times of the busiest stream that computes and of the busiest stream that only adds."""
    ops = plan.ops
    serial = (ops.kind == OpKind.COMPUTE) | (ops.kind == OpKind.REDUCE)
    if not serial.any():
        return 0.0, 0.0
    # Lanes of messages are numbers of queues, of which there may be as many as pairs of ranks.
    lanes = int(ops.lane[serial].max()) + 1
    stream = ops.rank[serial].astype(np.int64) * lanes + ops.lane[serial]
    busy_s = np.bincount(stream, weights=ops.duration_ns[serial]) / 1e9
    computes = np.bincount(stream, weights=ops.kind[serial] == OpKind.COMPUTE) > 0
    return float(busy_s[computes].max(initial=0.0)), float(busy_s[~computes].max(initial=0.0))


@dataclass(frozen=True)
class Transfers:
    """Messages that cross the network in one iteration: columns with one row per message and receiving host."""

    #: Index of the SEND.
    op: Int64
    #: Index of the sending host.
    src: Int64
    #: Index of the receiving host.
    dst: Int64
    #: Payload.
    size_bytes: Int64
    #: Whether this is the message's first row: a multicast message has several rows, but leaves its sender once.
    first: Bool


def transfers(plan: Plan) -> Transfers:
    """Every remote message of one iteration; multicast messages have a row per receiving host other than the
    sender's."""
    ops, host = plan.ops, plan.rank_host.astype(np.int64)
    remote = plan.is_remote()
    unicast = np.flatnonzero(remote & (ops.group == 0))
    op, dst = [unicast], [host[ops.peer[unicast]]]
    first = [np.ones(len(unicast), dtype=np.bool_)]
    for index in np.flatnonzero(remote & (ops.group == 1)):
        group = ops.peer[index]
        members = np.unique(host[plan.group_rank[plan.group_start[group] : plan.group_start[group + 1]]])
        members = members[members != host[ops.rank[index]]]
        op.append(np.full(len(members), index))
        dst.append(members)
        first.append(np.arange(len(members)) == 0)
    ops_all = np.concatenate(op).astype(np.int64)
    return Transfers(
        ops_all, host[ops.rank[ops_all]], np.concatenate(dst), ops.size_bytes[ops_all], np.concatenate(first)
    )


def once(wanted: Bool, *keys: Int64) -> Bool:
    """Marks the first wanted row of each combination of the keys.

    A multicast message is copied where its paths part: it goes up from its leaf once, and down to each other leaf once.
    """
    rows = np.flatnonzero(wanted)
    _, first = np.unique(np.stack([key[rows] for key in keys]), axis=1, return_index=True)
    first_rows: Bool = np.zeros(len(wanted), dtype=np.bool_)
    first_rows[rows[first]] = True
    return first_rows


def _line_bytes(plan: Plan, fabric: Fabric, moved: Transfers) -> Float64:
    """Bytes of each transfer on the line: payload plus the overhead of full frames."""
    multicast = plan.ops.group[moved.op] == 1
    share = np.where(multicast, fabric.multicast_goodput_share(), fabric.goodput_share())
    line: Float64 = moved.size_bytes / share
    return line


def _bandwidth_bound_s(plan: Plan, fabric: Fabric) -> float:
    moved = transfers(plan)
    # An aggregator sits on a switch: its port has no rate limit, so it gives no bound.
    limited = ~_aggregating(plan, max(plan.hosts, fabric.hosts))
    busiest_s = busiest_s_of(fabric, moved, _line_bytes(plan, fabric, moved), limited)
    # Of flowlets, nobody knows which way each takes.
    is_known = fabric.routing.policy.foresees_loads and not fabric.is_tiered
    return max(busiest_s, _line_bound_s(plan, fabric)) if is_known else busiest_s


def busiest_s_of(fabric: Fabric, moved: Transfers, line: Float64, limited: Bool) -> float:
    """The longest time in seconds that the transfers take on any host's link or, in tiers, on a part's uplinks
    together.

    line: bytes on the line of each transfer. limited: whether each endpoint's link has a rate.
    """
    count = len(limited)
    out = np.bincount(moved.src[moved.first], weights=line[moved.first], minlength=count)
    into = np.bincount(moved.dst, weights=line, minlength=count)
    busiest_s = float((np.maximum(out, into) / _endpoint_bps(fabric, count))[limited].max(initial=0.0)) * 8
    return max(busiest_s, _uplink_bound_s(fabric, moved, line))


def _endpoint_bps(fabric: Fabric, count: int) -> Float64:
    """Line rate of each of `count` endpoints' links, where it has one."""
    rates_bps: Float64 = np.full(count, fabric.rate_bps)
    rates_bps[: fabric.hosts] = fabric.host_bps
    return rates_bps


def _line_bound_s(plan: Plan, fabric: Fabric) -> float:
    """The longest time that the bytes of any line of a graph take there, by the ways that its routes give them."""
    paths = paths_of(plan, fabric)
    sends = np.flatnonzero(paths.flow_of_send >= 0)
    of_flow = np.bincount(paths.flow_of_send[sends], paths.line_bytes[sends], len(paths.flow_band))
    flow = np.repeat(np.arange(len(paths.flow_band)), np.diff(paths.route_start))
    of_port = np.bincount(paths.route_port, of_flow[flow] * paths.route_share, len(paths.port_bytes_per_ns))
    return float((of_port / paths.port_bytes_per_ns).max(initial=0.0)) / 1e9


def _aggregating(plan: Plan, count: int) -> Bool:
    """Returns whether each of `count` endpoints has an aggregator, shape (count,)."""
    has_aggregator: Bool = np.zeros(count, dtype=np.bool_)
    has_aggregator[plan.rank_host[plan.rank_role == Role.AGGREGATOR]] = True
    return has_aggregator


def switches_of(fabric: Fabric, endpoints: Int64) -> Int64:
    """Index of the switch of each endpoint (see Fabric); leaves come before spines."""
    leaf = np.array([fabric.leaf_of(host) for host in range(fabric.hosts)], np.int64)
    switches: Int64 = np.where(
        endpoints < fabric.hosts, leaf[np.minimum(endpoints, fabric.hosts - 1)], endpoints - fabric.hosts
    )
    return switches


def parts_of(fabric: Fabric, tier: Tier, endpoints: Int64) -> Int64:
    """Index of the part of a tier, such as the leaf, that each endpoint is in; -1 for an aggregator above."""
    parts: Int64 = np.array(tier.part_of_switch, np.int64)[switches_of(fabric, endpoints)]
    return parts


def _uplink_bound_s(fabric: Fabric, moved: Transfers, line: Float64) -> float:
    """Bytes between leaves over the summed rate of a leaf's uplinks, for any distribution over spines; and between
    pods likewise."""
    return max((_tier_bound_s(fabric, tier, moved, line) for tier in fabric.tree.tiers), default=0.0)


def _tier_bound_s(fabric: Fabric, tier: Tier, moved: Transfers, line: Float64) -> float:
    source, target = parts_of(fabric, tier, moved.src), parts_of(fabric, tier, moved.dst)
    crosses = source != target
    goes_up, goes_down = once(crosses & (source >= 0), moved.op), once(crosses & (target >= 0), moved.op, target)
    parts, rates_bps = len(tier.names), np.array(tier.part_bps)
    up = np.bincount(source[goes_up], weights=line[goes_up], minlength=parts)
    down = np.bincount(target[goes_down], weights=line[goes_down], minlength=parts)
    return float((np.maximum(up, down) / rates_bps).max(initial=0.0)) * 8


def critical_path_s(plan: Plan, fabric: Fabric, early_s: float = 0.0) -> float:
    """Time from one end boundary to the next in the steady state if nothing ever waited for a shared link, queue or
    stream.

    Iterations are chained from a cold start until one leaves what an earlier one left for the next, and those in
    between are averaged: that two in a row take the same time shows nothing, since of three iterations the third may
    be shorter, again and again. If none does, the last AVERAGED_ITERATIONS are averaged. Raises InternalFault if the
    plan has a cycle.
    """
    return chained_s(plan, np.maximum(message_ns(plan, fabric) - early_s * 1e9, 0.0))


def chained_s(plan: Plan, message_ns: Float64) -> float:
    """Iteration time in seconds of the plan's chains of ops if the message of each SEND takes this long. Raises
    InternalFault if the plan has a cycle."""
    levels = _levels(plan, message_ns)
    ends: Float64 | None = None
    boundary_ns: list[float] = []
    left_ns: list[Float64] = []
    for iteration in range(MAX_CHAINED_ITERATIONS):
        ends = _chain(plan, levels, ends)
        boundary_ns.append(float(ends[plan.end_op].max()))
        left_ns.append(ends[levels.lagged.source] - boundary_ns[-1])
        for earlier in range(iteration - 1, -1, -1):
            mean_ns = (boundary_ns[iteration] - boundary_ns[earlier]) / (iteration - earlier)
            if np.allclose(left_ns[iteration], left_ns[earlier], rtol=0.0, atol=1e-9 * mean_ns):
                return mean_ns / 1e9
    return (boundary_ns[-1] - boundary_ns[-1 - AVERAGED_ITERATIONS]) / AVERAGED_ITERATIONS / 1e9


def message_ns(plan: Plan, fabric: Fabric) -> Float64:
    """Time in ns that the message of each SEND takes on an empty network; 0 within a host and for other ops.

    A message between leaves passes one spine, so its rate is at most that of one uplink; and between pods one core.
    Where bursts take all ways in turn, it is at most that of all uplinks together. The delays of links come on top.
    """
    moved = transfers(plan)
    rate, delay_s = _alone(plan, fabric, moved)
    wire: Float64 = np.full(len(plan.ops), np.inf)
    # A multicast message takes the time of its nearest receiver: a lower bound must not assume the farthest.
    np.minimum.at(wire, moved.op, _line_bytes(plan, fabric, moved) * 8 * 1e9 / rate + delay_s * 1e9)
    wire[np.isinf(wire)] = 0.0
    return wire


def _alone(plan: Plan, fabric: Fabric, moved: Transfers) -> tuple[Float64, Float64]:
    """The highest rate and the shortest delay that each transfer can have on an empty network."""
    count = max(plan.hosts, fabric.hosts)
    aggregating = _aggregating(plan, count)
    rates_bps = np.where(aggregating, np.inf, _endpoint_bps(fabric, count))
    delays_s = np.zeros(count)
    delays_s[: fabric.hosts] = [link.delay_s for link in fabric.shape_links[: fabric.hosts]]
    rate = np.minimum(rates_bps[moved.src], rates_bps[moved.dst])
    delay_s = delays_s[moved.src] + delays_s[moved.dst]
    if fabric.flow_rate_bps:
        rate = np.minimum(rate, np.where(aggregating[moved.src], np.inf, fabric.flow_rate_bps))
    if not fabric.is_tiered:
        slowest, summed = _on_ways(plan, fabric, moved)
        return np.minimum(rate, slowest), summed
    trunks = fabric.trunk_links()
    for tier in fabric.tree.tiers:
        # A message between a leaf and an aggregator on a spine crosses an uplink too.
        source, target = parts_of(fabric, tier, moved.src), parts_of(fabric, tier, moved.dst)
        crosses = source != target
        # What is above the tier is part -1, and so the last element.
        together = sum if fabric.routing.policy.writes_ways else max
        fastest = np.array([*(together(rates) for rates in tier.rates_bps), np.inf])
        shortest = np.array([*(min(trunks[number].delay_s for number in numbers) for numbers in tier.uplinks), 0.0])
        rate[crosses] = np.minimum(rate[crosses], np.minimum(fastest[source], fastest[target])[crosses])
        delay_s[crosses] += (shortest[source] + shortest[target])[crosses]
    return rate, delay_s


def _on_ways(plan: Plan, fabric: Fabric, moved: Transfers) -> tuple[Float64, Float64]:
    """The rate of the slowest line on each transfer's way through a graph, and the delays of all."""
    links = lines_of(fabric)
    # A multicast's tree has branches of its own, which need not be the way to that receiver alone.
    apart = np.flatnonzero((plan.ops.group[moved.op] == 1) | fabric.routing.policy.hashes_connections)
    rate_bps, delay_s = np.full(len(moved.op), np.inf), np.zeros(len(moved.op))
    if len(apart):
        messages = MessageWays(plan, fabric)
        targets = zip(moved.op[apart].tolist(), moved.dst[apart].tolist(), strict=True)
        rate_bps[apart], delay_s[apart] = _along(links, [messages.branch(op, target) for op, target in targets])
    single = np.setdiff1d(np.arange(len(moved.op)), apart)
    if len(single):
        ends = np.stack([moved.src, moved.dst])[:, single]
        pairs, way_of = np.unique(ends, axis=1, return_inverse=True)
        slowest, summed = _between(fabric, links, pairs.T.tolist())
        rate_bps[single], delay_s[single] = slowest[way_of.reshape(-1)], summed[way_of.reshape(-1)]
    return rate_bps, delay_s


def _between(fabric: Fabric, links: Sequence[Link], pairs: Sequence[tuple[int, int]]) -> tuple[Float64, Float64]:
    """The rate and the delay of the way between two hosts, for each pair of them."""
    if fabric.routing.policy.writes_ways:
        rates_bps, delays_s = np.array([_over_all_ways(fabric, *pair) for pair in pairs]).T
        return rates_bps, delays_s
    routes = routes_of(fabric)
    return _along(links, [routes.path(source, target) for source, target in pairs])


def _along(links: Sequence[Link], ways: Sequence[Sequence[int]]) -> tuple[Float64, Float64]:
    """The rate of the slowest line of each way, and the delays of all of its lines together."""
    slowest = np.array([min(links[line].rate_bps for line in way) for way in ways])
    return slowest, np.array([sum(links[line].delay_s for line in way) for way in ways])


def _over_all_ways(fabric: Fabric, source: int, target: int) -> tuple[float, float]:
    """The rate that the ways between two hosts have together, and the delay of the shortest, where bursts take all of
    them in turn."""
    links, routes = lines_of(fabric), SprayedRoutes.of(fabric)
    ways = {tuple(routes.path(source, target, way)) for way in range(routes.ways)}
    rate_bps = sum(min(links[line].rate_bps for line in way) for way in ways)
    return rate_bps, min(sum(links[line].delay_s for line in way) for way in ways)


@dataclass(frozen=True)
class _LevelEdges:
    """Edges into the ops of one level, sorted into runs of edges with the same target."""

    #: Source op of each edge.
    source: Int64
    #: Weight of each edge.
    weight_ns: Float64
    #: Target op of each run.
    target: Int64
    #: Index of the first edge of each run.
    run: Int64


def _edges_of(source: Int64, target: Int64, weight_ns: Float64) -> _LevelEdges:
    order = np.argsort(target, kind="stable")
    targets, run = np.unique(target[order], return_index=True)
    return _LevelEdges(source[order], weight_ns[order], targets, run.astype(np.int64))


@dataclass(frozen=True)
class _Levels:
    """A plan's ops in topological order."""

    #: Ops of each level.
    ops: list[Int64]
    #: Edges into each level.
    edges: list[_LevelEdges]
    #: Edges from the previous iteration.
    lagged: _LevelEdges


def _levels(plan: Plan, message_ns: Float64) -> _Levels:
    count = len(plan.ops)
    consumer = np.repeat(np.arange(count), np.diff(plan.dep_start))
    same = plan.dep_lag == 0
    recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV)
    sends = plan.ops.message[recvs]
    source = np.concatenate([plan.dep_op[same], sends]).astype(np.int64)
    target = np.concatenate([consumer[same], recvs]).astype(np.int64)
    weight = np.concatenate([np.zeros(int(same.sum())), message_ns[sends]])
    level = _level_of(count, source, target)

    by_level = np.argsort(level, kind="stable").astype(np.int64)
    op_cuts = np.searchsorted(level[by_level], np.arange(1, level.max(initial=0) + 1))
    edge_order = np.argsort(level[target], kind="stable")
    edge_cuts = np.searchsorted(level[target][edge_order], np.arange(1, level.max(initial=0) + 1))
    edges = [_edges_of(source[part], target[part], weight[part]) for part in np.split(edge_order, edge_cuts)]
    lagged = _edges_of(plan.dep_op[~same], consumer[~same], np.zeros(int((~same).sum())))
    return _Levels(np.split(by_level, op_cuts), edges, lagged)


def _level_of(count: int, source: Int64, target: Int64) -> Int64:
    """Length in edges of the longest path into each op (Kahn's algorithm, one frontier at a time)."""
    waiting = np.bincount(target, minlength=count)
    order = np.argsort(source, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=count))])
    successors = target[order]
    level: Int64 = np.full(count, -1, dtype=np.int64)
    frontier, depth = np.flatnonzero(waiting == 0), 0
    while len(frontier):
        level[frontier] = depth
        lengths = start[frontier + 1] - start[frontier]
        first = np.repeat(start[frontier] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        touched = successors[first + np.arange(int(lengths.sum()))]
        np.subtract.at(waiting, touched, 1)
        frontier = np.unique(touched[waiting[touched] == 0])
        depth += 1
    stuck = np.flatnonzero(level < 0)
    if len(stuck):
        raise InternalFault(
            f"the plan's dependencies form a cycle: {len(stuck)} of its {count} ops can never start, "
            f"op {int(stuck[0])} among them; report this with the scenario"
        )
    return level


def _chain(plan: Plan, levels: _Levels, ends_before: Float64 | None) -> Float64:
    """End of each op in ns if it starts as soon as its dependencies end; the previous iteration's ops ended at
    `ends_before`."""
    duration_ns = np.where(plan.ops.kind == OpKind.RECV, 0, plan.ops.duration_ns)
    start = np.zeros(len(plan.ops))
    if ends_before is not None and len(levels.lagged.target):
        start[levels.lagged.target] = np.maximum.reduceat(ends_before[levels.lagged.source], levels.lagged.run)
    ends: Float64 = np.zeros(len(plan.ops))
    for ops, edges in zip(levels.ops, levels.edges, strict=True):
        if len(edges.target):
            arrived = np.maximum.reduceat(ends[edges.source] + edges.weight_ns, edges.run)
            start[edges.target] = np.maximum(start[edges.target], arrived)
        ends[ops] = start[ops] + duration_ns[ops]
    return ends
