"""Checks whether the ranks of a class are served alike by a fabric, and finds the lines that one of them sends
on.

Max-min rates are found port by port from what flows pass (analysis/fluid/sharing.py). Let flows be divided into
classes, and ports into those of one rate that as many flows of each class pass. If the flows of a class pass as many
ports of each kind, the division is equitable, and filling treats all flows of a class alike in every step: they have
one rate, and a port of each kind with as many flows of each class stands for all ports of that kind. That is checked
here, flow by flow, and never assumed.

Ports that cannot bind are left out before: those whose rate is at least that of all flows that may pass them at once,
where all that a host sends counts as much as its own port lets through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gradwire.analysis.fluid.delays import Delays, own_delays
from gradwire.analysis.fluid.network import SAME_DELAY_NS, hop_lags_ns
from gradwire.analysis.fluid.paths import Float64, Paths, SpineOf, port_rates_bps
from gradwire.datatypes.class_plans import ClassPlan, NotByClass
from gradwire.datatypes.plan import Int64
from gradwire.network.fabric import Fabric, band_of_class
from gradwire.network.routes import routes_of

ROUNDING = 1e-9
"""Rounding error of sums of rates, as a share."""


def refuse_unlike_ways(fabric: Fabric) -> None:
    """Raises NotByClass for a fabric whose ways no class has in common."""
    if reason := fabric.routing.policy.unlike_ways:
        raise NotByClass(reason)


@dataclass(frozen=True)
class FlowPaths:
    """The ways of some flows, one line for each port that a flow passes."""

    #: Flow and port of each line.
    flow: Int64
    port: Int64
    #: Sending host of each flow.
    source: Int64
    port_bytes_per_ns: Float64

    @property
    def flows(self) -> int:
        """Number of flows."""
        return len(self.source)

    def slowest_bytes_per_ns(self) -> Float64:
        """The rate of the slowest port of each flow."""
        slowest = np.full(self.flows, np.inf)
        np.minimum.at(slowest, self.flow, self.port_bytes_per_ns[self.port])
        return slowest

    def binding(self, left_in: int = 0) -> FlowPaths:
        """Returns these ways without the ports that cannot bind. The ports on which hosts send are kept, and so are the
        first `left_in` ports."""
        ports, hosts = len(self.port_bytes_per_ns), int(self.source.max()) + 1
        port, host = np.divmod(np.unique(self.port * hosts + self.source[self.flow]), hosts)
        most = np.bincount(port, self.port_bytes_per_ns[host], ports)
        binds = most > self.port_bytes_per_ns * (1 + ROUNDING)
        binds[np.unique(self.source)] = True
        binds[:left_in] = True
        kept = binds[self.port]
        return FlowPaths(self.flow[kept], self.port[kept], self.source, self.port_bytes_per_ns)


def ways_of(fabric: Fabric, spine_of: SpineOf | None, source: Int64, target: Int64) -> FlowPaths:
    """The ways between these hosts."""
    routes = routes_of(fabric, spine_of)
    ways = [routes.path(*ends) for ends in zip(source.tolist(), target.tolist(), strict=True)]
    flow = np.repeat(np.arange(len(ways)), [len(way) for way in ways])
    port = np.array([port for way in ways for port in way], np.int64)
    return FlowPaths(flow, port, source, port_rates_bps(fabric) / 8e9)


@dataclass(frozen=True)
class RankFlows:
    """The flows that cross the network between ranks, kind by kind.

    Flows of a kind have in common their sender's and their receiver's class, and which copies they go between.
    """

    #: Sending and receiving host of each flow, and its kind, ascending.
    source: Int64
    target: Int64
    kind: Int64
    #: Kind of each SEND that crosses the network; -1 for other ops.
    kind_of_send: Int64

    @property
    def kinds(self) -> int:
        """Number of kinds."""
        return int(self.kind[-1]) + 1 if len(self.kind) else 0

    @property
    def first(self) -> Int64:
        """The first flow of each kind, and the number of all."""
        found: Int64 = np.searchsorted(self.kind, np.arange(self.kinds + 1))
        return found


@dataclass(frozen=True)
class ClassLines:
    """The paths and delays of one rank of each class."""

    paths: Paths
    #: Delays of links, and the bytes that may be under way in spite of them.
    delays: Delays


def class_lines(classes: ClassPlan, fabric: Fabric, spine_of: SpineOf | None) -> ClassLines:
    """The ports and flows that one rank of each class sees. Raises NotByClass where the division into classes is not
    equitable, and where flows of several delays meet."""
    refuse_unlike_ways(fabric)
    flows = flows_of(classes)
    if not len(flows.source):
        return _lines(classes, fabric, flows, [], [], np.empty(0), np.empty(0))
    all_ways = ways_of(fabric, spine_of, flows.source, flows.target)
    travel_s = _travel_s(fabric, all_ways, flows)
    counts, rates, routes = _kinds_passed(fabric, all_ways, flows)
    repeats = [[counts[port, kind] for port in route] for kind, route in enumerate(routes)]
    return _lines(classes, fabric, flows, routes, repeats, rates, travel_s)


def flows_of(classes: ClassPlan) -> RankFlows:
    """The flows of all ranks. Raises NotByClass where some copies of a message cross the network and others do not."""
    members, hosts = classes.members, classes.host_of_rank
    found = classes.sent()
    kind_of_send = np.full(len(classes.plan.ops), -1, np.int64)
    none = np.empty(0, np.int64)
    machine = hosts // classes.plan.nics_per_host
    ends: list[Int64] = []
    kinds = np.full(len(found.sender), -1, np.int64)
    triples = zip(found.sender.tolist(), found.peer.tolist(), found.kind.tolist(), strict=True)
    for number, (sender, peer, peers) in enumerate(triples):
        target = classes.receivers(peer, classes.peers[peers])
        source = np.tile(members[sender], classes.peers[peers].messages)
        apart = machine[source] != machine[target]
        if apart.any() != apart.all():
            raise NotByClass("some messages of ranks that do the same stay on a machine, and others leave it")
        if apart.all():
            kinds[number] = len(ends)
            ends.append(np.stack([hosts[source], hosts[target]]))
    kind_of_send[found.sends] = kinds[found.of_send]
    if not ends:
        return RankFlows(none, none, none, kind_of_send)
    source, target = np.concatenate(ends, axis=1)
    return RankFlows(source, target, np.repeat(np.arange(len(ends)), [each.shape[1] for each in ends]), kind_of_send)


def _travel_s(fabric: Fabric, ways: FlowPaths, flows: RankFlows) -> Float64:
    """Seconds that bytes of each kind of flows are under way, without their time on the line. Raises NotByClass if
    flows of a kind differ in that, or if flows with different delays meet at a port that may hold them."""
    delays = own_delays(fabric)
    if not any(delays.port_s):
        return np.zeros(flows.kinds)
    start = np.searchsorted(ways.flow, np.arange(ways.flows + 1))
    paths = _plain_paths(fabric, ways, start)
    if hop_lags_ns(paths, delays).any():
        raise NotByClass("links have delays, and flows come to ports after different ones")
    late_s: Float64 = np.bincount(ways.flow, np.array(delays.port_s)[ways.port], ways.flows).astype(np.float64)
    of_kind = late_s[flows.first[:-1]]
    if (np.abs(late_s - of_kind[flows.kind]) > SAME_DELAY_NS / 1e9).any():
        raise NotByClass("links have delays, and messages of ranks that do the same take ways of different ones")
    return of_kind


def _plain_paths(fabric: Fabric, ways: FlowPaths, route_start: Int64) -> Paths:
    """The ways of all flows as the engine reads them, as far as lags need them."""
    count, ports = ways.flows, len(ways.port_bytes_per_ns)
    return Paths(
        port_bytes_per_ns=ways.port_bytes_per_ns,
        port_from=np.zeros(ports, np.int64),
        port_to=np.zeros(ports, np.int64),
        route_start=route_start,
        route_port=ways.port,
        route_share=np.ones(len(ways.port)),
        flow_band=np.zeros(count, np.int64),
        flow_goodput_share=np.ones(count),
        flow_sends=np.ones(count, np.int64),
        flow_of_send=np.empty(0, np.int64),
        line_bytes=np.empty(0),
        flow_forks=np.zeros(count, np.bool_),
        hosts=fabric.hosts,
        flow_is_limited=np.zeros(count, np.bool_),
        flow_bytes_per_ns=0.0,
    )


Counts = Mapping[tuple[int, int], int]
"""Numbers of flows that pass a port, by the kinds of the port and of the flows; without zeros."""


def _kinds_passed(fabric: Fabric, ways: FlowPaths, flows: RankFlows) -> tuple[Counts, Float64, list[list[int]]]:
    """For each kind of ports, the number of flows of each kind that pass it and its rate, and the kinds of ports that
    flows of each kind pass. Raises NotByClass.

    Ports into hosts that cannot bind may be left out or not: a host that gets all from one other cannot be held up by its
    port, although hosts like it get theirs from several.
    """
    refused: NotByClass | None = None
    for left_in in (0, 2 * fabric.hosts):
        binding = ways.binding(left_in)
        port_kind, counts, rates = _port_kinds(binding, flows.kind, flows.kinds)
        try:
            return counts, rates, _routes(binding, port_kind, flows)
        except NotByClass as reason:
            refused = refused or reason
    assert refused is not None
    raise NotByClass(f"{refused}{_one_way(fabric)}") from refused


def _one_way(fabric: Fabric) -> str:
    """Advice for ranks that differ because switches choose among several ways for each; "" if there is only one
    way."""
    several = [f"{key} = 1" for key in fabric.topology.structure.several_summits(fabric)]
    if not several:
        return ""
    return (
        f" (ranks take different ones of several spines or cores: with {' and '.join(several)}, which has the rate of all of "
        "them, they share the load evenly)"
    )


def _port_kinds(ways: FlowPaths, kind_of_flow: Int64, kinds: int) -> tuple[Int64, Counts, Float64]:
    """The kind of each port, the number of flows of each kind at a port of each kind, and the rates of ports of each
    kind."""
    pairs, times = np.unique(ways.port * kinds + kind_of_flow[ways.flow], return_counts=True)
    port, kind = np.divmod(pairs, kinds)
    used, first = np.unique(port, return_index=True)
    found: dict[tuple[float, bytes, bytes], int] = {}
    counts: dict[tuple[int, int], int] = {}
    port_kind = np.full(len(ways.port_bytes_per_ns), -1, np.int64)
    for number, start, end in zip(used.tolist(), first.tolist(), [*first[1:].tolist(), len(port)], strict=True):
        passing, of_each = kind[start:end], times[start:end]
        key = float(ways.port_bytes_per_ns[number]), passing.tobytes(), of_each.tobytes()
        if key not in found:
            found[key] = len(found)
            counts |= {
                (found[key], flow): count for flow, count in zip(passing.tolist(), of_each.tolist(), strict=True)
            }
        port_kind[number] = found[key]
    return port_kind, counts, np.array([rate for rate, _, _ in found])


def _routes(ways: FlowPaths, port_kind: Int64, flows: RankFlows) -> list[list[int]]:
    """The kinds of ports that flows of each kind pass. Raises NotByClass where flows of one kind pass others."""
    order = np.lexsort((port_kind[ways.port], ways.flow))
    kind = port_kind[ways.port[order]]
    lengths = np.bincount(ways.flow, minlength=ways.flows)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    firsts, routes = flows.first.tolist(), []
    for first, end in pairwise(firsts):
        length = lengths[first:end]
        passed = kind[starts[first] : starts[end]]
        if (length != length[0]).any() or (passed.reshape(end - first, -1) != passed[: length[0]]).any():
            raise NotByClass("messages of ranks that do the same share ports with others or with fewer others")
        routes.append(np.unique(passed[: length[0]]).tolist())
    return routes


def _lines(
    classes: ClassPlan,
    fabric: Fabric,
    flows: RankFlows,
    routes: Sequence[Sequence[int]],
    repeats: Sequence[Sequence[int]],
    rates: Float64,
    travel_s: Float64,
) -> ClassLines:
    """Ports and flows as the engine reads them. A flow that a port has m of passes it m times.

    travel_s: of each kind of flow.
    """
    ops = classes.plan.ops
    remote = np.flatnonzero(flows.kind_of_send >= 0)
    keys = np.stack([ops.lane[remote].astype(np.int64), flows.kind_of_send[remote], ops.traffic_class[remote]])
    distinct, flow = np.unique(keys, axis=1, return_inverse=True) if len(remote) else (keys, np.empty(0, np.int64))
    flow = flow.reshape(-1)
    ports = [
        [port for port, times in zip(routes[kind], repeats[kind], strict=True) for _ in range(times)]
        for kind in distinct[1].tolist()
    ]
    flow_of_send = np.full(len(ops), -1, np.int64)
    flow_of_send[remote] = flow
    line_bytes = np.zeros(len(ops))
    line_bytes[remote] = ops.size_bytes[remote] / fabric.goodput_share()
    start = np.zeros(len(ports) + 1, np.int64)
    np.cumsum([len(route) for route in ports], out=start[1:])
    count = len(ports)
    nowhere: npt.NDArray[np.int64] = np.zeros(len(rates), np.int64)
    paths = Paths(
        port_bytes_per_ns=rates,
        port_from=nowhere,
        port_to=nowhere,
        route_start=start,
        route_port=np.array([port for route in ports for port in route], np.int64),
        route_share=np.ones(start[-1]),
        flow_band=np.array([band_of_class(each) for each in distinct[2].tolist()], np.int64),
        flow_goodput_share=np.full(count, float(fabric.goodput_share())),
        flow_sends=np.bincount(flow, minlength=count).astype(np.int64),
        flow_of_send=flow_of_send,
        line_bytes=line_bytes,
        flow_forks=np.zeros(count, np.bool_),
        hosts=fabric.hosts,
        flow_is_limited=np.full(count, fabric.flow_rate_bps > 0),
        flow_bytes_per_ns=fabric.flow_rate_bps / 8e9,
    )
    late_s = tuple(travel_s[distinct[1]].tolist()) if travel_s.any() else ()
    return ClassLines(paths, Delays(flow_s=late_s))
