"""The flows of a plan and the ports that each of them passes, as columns.

A flow is a connection: the messages of one send queue to one rank, or to one multicast group, in one traffic class, in
the order in which they are sent. What a flow sends passes all its ports at once and at one rate. A multicast flow
passes each port of its tree once, and its slowest port decides. A flow whose bursts take several ways in turn
(`fabric.routing = "spray"`) passes the ports of all of them, each with a share of what it sends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.datatypes.plan import Int64, Plan
from gradwire.network.fabric import Fabric, band_of_class
from gradwire.network.routes import SummitOf, line_ends, lines_of, routes_of
from gradwire.network.switch_hash import FlowPorts
from gradwire.network.wire.ways import MessageWays

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

SpineOf = SummitOf
"""Chooses the spine or core between two endpoints, where switches are in tiers (network/routes.py)."""


@dataclass(frozen=True)
class Paths:
    """Ports, flows, and the way of each flow.

    Ports are numbered as the lines of network/routes.py, which they send on.
    """

    #: Line rate of each port.
    port_bytes_per_ns: Float64
    #: Numbers of the devices at the near and the far end of each port's line.
    port_from: Int64
    port_to: Int64
    #: Flow i passes the ports route_port[route_start[i]:route_start[i + 1]], each once, with such a share of its bytes.
    route_start: Int64
    route_port: Int64
    route_share: Float64
    #: Strict-priority band of each flow; 0 is served first.
    flow_band: Int64
    #: Payload per byte on the line of each flow.
    flow_goodput_share: Float64
    #: Number of SENDs of each flow in an iteration.
    flow_sends: Int64
    #: Flow of each SEND that passes a port; -1 for other ops.
    flow_of_send: Int64
    #: Payload and the overhead of full frames of each such SEND; 0 for other ops.
    line_bytes: Float64
    #: Whether each flow passes several ports at a time: it goes to a multicast group, or takes several ways in turn.
    flow_forks: Bool
    #: Number of hosts.
    hosts: int
    #: Whether each flow may take no more than `flow_bytes_per_ns`.
    flow_is_limited: Bool
    flow_bytes_per_ns: float


def paths_of(plan: Plan, fabric: Fabric, spine_of: SpineOf | None = None) -> Paths:
    """The paths of a plan's messages. Raises InternalFault if a message could take several spines and no `spine_of`
    says which."""
    ops, remote = plan.ops, np.flatnonzero(plan.is_remote())
    keys = _packed(plan, remote)
    _, first, flow = np.unique(keys, return_index=True, return_inverse=True)
    sends = remote[first]
    route_start, route_port, route_share = _routes(plan, fabric, sends, MessageWays(plan, fabric, spine_of))
    sprayed = np.bincount(np.repeat(np.arange(len(sends)), np.diff(route_start)), route_share < 1.0, len(sends)) > 0
    share = np.where(ops.group[sends] == 1, fabric.multicast_goodput_share(), fabric.goodput_share())

    flow_of_send: Int64 = np.full(len(ops), -1, dtype=np.int64)
    # Two aggregators on one switch have no port between them.
    passes = np.diff(route_start)[flow] > 0
    flow_of_send[remote[passes]] = flow[passes]
    line_bytes: Float64 = np.zeros(len(ops))
    line_bytes[remote] = ops.size_bytes[remote] / share[flow]
    numbers = {name: number for number, name in enumerate((*fabric.endpoint_names(), *fabric.switch_names()))}
    ends = np.array([[numbers[near], numbers[far]] for near, far in line_ends(fabric)], np.int64)
    return Paths(
        port_bytes_per_ns=port_rates_bps(fabric) / 8e9,
        port_from=ends[:, 0],
        port_to=ends[:, 1],
        route_start=route_start,
        route_port=route_port,
        route_share=route_share,
        flow_band=np.array(
            [band_of_class(traffic_class) for traffic_class in ops.traffic_class[sends].tolist()], np.int64
        ),
        flow_goodput_share=share.astype(np.float64),
        flow_sends=np.bincount(flow, minlength=len(sends)).astype(np.int64),
        flow_of_send=flow_of_send,
        line_bytes=line_bytes,
        flow_forks=(ops.group[sends] == 1) | sprayed,
        hosts=fabric.hosts,
        # An aggregator's link is not shaped, and neither are its flows.
        flow_is_limited=(plan.rank_host[ops.rank[sends]] < fabric.hosts) & (fabric.flow_rate_bps > 0),
        flow_bytes_per_ns=fabric.flow_rate_bps / 8e9,
    )


def ports_between(
    fabric: Fabric, source: int, target: int, spine_of: SpineOf | None = None, hashed: FlowPorts | None = None
) -> list[int]:
    """The ports on the way from one host to another, numbered as in Paths. Raises InternalFault as `paths_of` does.

    hashed: what the switches hash of the connection, where they do.
    """
    return routes_of(fabric, spine_of).path(source, target, hashed)


def _packed(plan: Plan, sends: Int64) -> Int64:
    """One number for each SEND's queue, receiver and class."""
    ops = plan.ops
    receivers = int(ops.peer[sends].max(initial=0)) + 1
    lowest, highest = int(ops.traffic_class.min(initial=0)), int(ops.traffic_class.max(initial=0))
    key = ops.lane[sends].astype(np.int64) * receivers + ops.peer[sends]
    key = key * (highest - lowest + 1) + (ops.traffic_class[sends] - lowest)
    packed: Int64 = key * 2 + ops.group[sends]
    return packed


def port_rates_bps(fabric: Fabric) -> Float64:
    """Line rate of each port, numbered as in Paths."""
    return np.array([link.rate_bps for link in lines_of(fabric)], np.float64)


def _routes(plan: Plan, fabric: Fabric, sends: Int64, ways: MessageWays) -> tuple[Int64, Int64, Float64]:
    """The ports of each of these SENDs, compressed: where each one's begin, the ports, and their shares."""
    ops = plan.ops
    to_one = ops.group[sends] == 0
    source, target = plan.rank_host[ops.rank[sends]], plan.rank_host[np.where(to_one, ops.peer[sends], 0)]
    direct = to_one & _on_one_switch(fabric, source, target)
    ends = np.stack([np.where(source < fabric.hosts, source, -1), np.where(target < fabric.hosts, target, -1)], axis=1)
    ends[:, 1] += np.where(ends[:, 1] < 0, 0, fabric.hosts)
    others = [ways.shares(send) for send in sends[~direct].tolist()]
    lengths = (ends >= 0).sum(axis=1)
    lengths[~direct] = [len(route) for route in others]
    start: Int64 = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ports, shares = np.zeros(start[-1], np.int64), np.ones(start[-1])
    of_direct = np.repeat(direct, lengths)
    ports[of_direct] = ends[direct][ends[direct] >= 0]
    ports[~of_direct] = [port for route in others for port, _ in route]
    shares[~of_direct] = [share for route in others for _, share in route]
    return start, ports, shares


def _on_one_switch(fabric: Fabric, source: npt.NDArray[np.int32], target: npt.NDArray[np.int32]) -> Bool:
    """Whether two endpoints have nothing but one switch between them, so that a way is the port of either. Of ways
    that need not be the shortest, nothing is said."""
    if not fabric.routing.policy.takes_shortest_ways:
        return np.zeros(len(source), np.bool_)
    switch = np.array([fabric.switch_of(endpoint) for endpoint in range(len(fabric.endpoint_names()))], np.int64)
    on_one: Bool = switch[source] == switch[target]
    return on_one
