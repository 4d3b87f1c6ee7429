"""The load of each link over time: bytes of messages from the op log, in bins.

The log tells when a message's first and last byte arrived (a short message that was read in one go is taken to have
begun as long before its end as it takes at line rate). In between, its bytes are assumed to pass evenly, but no link
carries more than its line rate: if messages need more, the one that arrived first goes first and the others catch up
later. So bins are estimates, and sums are exact.

Before a run, the plan tells which lines between switches an iteration loads most, and how many flows meet there. A flow
is a connection, or what a queue sends to a multicast group. A line is one direction of a link. How long a line is busy
is what its bytes take at its rate, with the overhead of full frames; no iteration is shorter than the longest of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.bounds import message_ns, once, switches_of
from gradwire.analysis.fluid.paths import Paths, paths_of
from gradwire.analysis.iterations import Float64
from gradwire.analysis.logged import Bool, LoggedOps, WireMessages, wire_messages
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import Int64
from gradwire.network.fabric import CONTROL_BAND, Fabric
from gradwire.network.routes import SummitOf, line_titles
from gradwire.network.sprayed_ways import SprayedRoutes
from gradwire.network.wire.ways import MessageWays

SpineOf = SummitOf
"""Chooses the spine or core between two endpoints where switches are in tiers (network/routes.py); None if it is
unknown."""
NAMED = 3
"""Lines that are named, those that are busy longest first."""


def unknown_spine(_source: int, _target: int, _members: tuple[int, ...]) -> None:
    """A `SpineOf` that knows no spine."""
    return


@dataclass(frozen=True)
class LinkLoad:
    """Load of one direction of a link."""

    #: "h3 out", or "leaf1-spine2 to spine2".
    name: str
    #: Line rate.
    rate_bps: float
    #: Share of the line rate in each bin, shape (bins,).
    share: Float64


def link_loads(logged: LoggedOps, fabric: Fabric, edges_ns: Int64, spine_of: SpineOf = unknown_spine) -> list[LinkLoad]:
    """Load of every host port and every link between switches in both directions, between increasing bin edges of the
    run's clock.

    Messages whose spine `spine_of` does not know count on no such link. Ports of aggregators have no line rate and no
    load.
    """
    messages = wire_messages(logged)
    alone_ns = message_ns(logged.plan, fabric)[messages.send]
    begun = np.minimum(messages.header_ns, messages.arrived_ns - alone_ns).astype(np.float64)
    line_bytes = _line_bytes(logged, messages, fabric)
    loads = []

    def add(name: str, rate_bps: float, chosen: Bool | Int64, share: float | Float64 = 1.0) -> None:
        arrived = messages.arrived_ns[chosen].astype(np.float64)
        moved = binned_bytes(edges_ns, begun[chosen], arrived, share * line_bytes[chosen], rate_bps / 8e9)
        loads.append(LinkLoad(name, rate_bps, moved * 8 * 1e9 / np.diff(edges_ns) / rate_bps))

    titles, hosts = line_titles(fabric), fabric.hosts
    for host, rate_bps in enumerate(fabric.host_bps):
        add(titles[host], rate_bps, (messages.src == host) & messages.first)
        add(titles[hosts + host], rate_bps, messages.dst == host)
    if trunks := fabric.trunk_links():
        if fabric.routing.policy.writes_ways:
            for name, rate_bps, chosen, shares in _sprayed(messages, fabric):
                add(name, rate_bps, chosen, shares)
            return loads
        if fabric.routing.policy.plan_says_lines(fabric):
            passing = passing_by_way(MessageWays(logged.plan, fabric, spine_of), messages, fabric)
        else:
            passing = _passing(messages, fabric, _summits(logged.plan, messages, fabric, spine_of))
        for number, (link, (up, down)) in enumerate(zip(trunks, passing, strict=True), 2 * hosts):
            add(titles[number], link.rate_bps, up)
            add(titles[number + len(trunks)], link.rate_bps, down)
    return loads


def _sprayed(messages: WireMessages, fabric: Fabric) -> Iterator[tuple[str, float, Int64, Float64]]:
    """Yields the name and rate of each line between switches, the rows of the messages whose bursts pass it in turn
    with other lines, and the share of each message that does. A multicast is counted in the same way."""
    routes, links, titles = SprayedRoutes.of(fabric), fabric.trunk_links(), line_titles(fabric)
    pairs, pair_of = np.unique(np.stack([messages.src, messages.dst]), axis=1, return_inverse=True)
    of_pairs = [
        Counter(line for way in range(routes.ways) for line in routes.path(pair[0], pair[1], way))
        for pair in pairs.T.tolist()
    ]
    for number, link in enumerate(links):
        for line in (number, len(links) + number):
            of_pair = np.array([found[2 * fabric.hosts + line] / routes.ways for found in of_pairs])
            share = of_pair[pair_of.reshape(-1)]
            passing = np.flatnonzero(once(share > 0, messages.iteration, messages.send))
            yield titles[2 * fabric.hosts + line], link.rate_bps, passing, share[passing]


def _line_bytes(logged: LoggedOps, messages: WireMessages, fabric: Fabric) -> Float64:
    ops = logged.plan.ops
    grouped = ops.group[messages.send] == 1
    share = np.where(grouped, fabric.multicast_goodput_share(), fabric.goodput_share())
    line: Float64 = ops.size_bytes[messages.send] / share
    return line


def binned_bytes(edges_ns: Int64, begun: Float64, ended: Float64, size: Float64, bytes_per_ns: float) -> Float64:
    """Bytes that passed in each bin, shape (bins,), for messages that began and ended at these times."""
    ended = np.maximum(ended, begun + 1.0)
    left = size * np.clip((ended - edges_ns[0]) / (ended - begun), 0.0, 1.0)
    order = np.argsort(begun, kind="stable")
    moved = np.zeros(len(edges_ns) - 1)
    active, taken_in = np.zeros(0, np.int64), 0
    for number, (since, until) in enumerate(zip(edges_ns[:-1].tolist(), edges_ns[1:].tolist(), strict=True)):
        begun_by_now = int(np.searchsorted(begun[order], until))
        active = np.concatenate([active, order[taken_in:begun_by_now]])
        taken_in = begun_by_now
        active = active[left[active] > 0]
        active = active[np.argsort(ended[active], kind="stable")]
        start = np.maximum(begun[active], since)
        wanted = left[active] * np.clip((until - start) / np.maximum(ended[active] - start, 1e-9), 0.0, 1.0)
        # A message that has ended wants all its remaining bytes.
        wanted[ended[active] <= until] = left[active][ended[active] <= until]
        room = np.maximum(bytes_per_ns * (until - since) - np.concatenate([[0.0], np.cumsum(wanted)[:-1]]), 0.0)
        passed = np.minimum(wanted, room)
        left[active] -= passed
        moved[number] = passed.sum()
    return moved


def _summits(plan: Plan, messages: WireMessages, fabric: Fabric, spine_of: SpineOf) -> Int64:
    """The spine or core that each message passes; -1 if there is none or it is unknown."""
    source, target = switches_of(fabric, messages.src), switches_of(fabric, messages.dst)
    spine_of_path: dict[tuple[int, int, tuple[int, ...]], int | None] = {}
    summits = np.full(len(messages), -1, np.int64)
    for row in np.flatnonzero(source != target).tolist():
        only = fabric.tree.only_summit(int(source[row]), int(target[row]))
        if only is not None:
            summits[row] = only
            continue
        path = int(messages.src[row]), int(messages.dst[row]), _members(plan, int(messages.send[row]))
        if path not in spine_of_path:
            spine_of_path[path] = spine_of(*path)
        summit = spine_of_path[path]
        summits[row] = -1 if summit is None else summit
    return summits


def _members(plan: Plan, send: int) -> tuple[int, ...]:
    """Hosts of the multicast group of a SEND, sorted; empty for a single receiver."""
    if not plan.ops.group[send]:
        return ()
    group = plan.ops.peer[send]
    members = plan.group_rank[plan.group_start[group] : plan.group_start[group + 1]]
    return tuple(np.unique(plan.rank_host[members]).tolist())


def _passing(messages: WireMessages, fabric: Fabric, summits: Int64) -> list[tuple[Bool, Bool]]:
    """The messages that go up and down each link between switches; a multicast message is on each link once."""
    source, target = switches_of(fabric, messages.src), switches_of(fabric, messages.dst)
    rows: list[tuple[list[Int64], list[Int64]]] = [([], []) for _ in fabric.tree.trunks]
    crossing = np.flatnonzero((source != target) & (summits >= 0))
    ways, way_of = np.unique(
        np.stack([source[crossing], target[crossing], summits[crossing]]), axis=1, return_inverse=True
    )
    for number, (near, far, summit) in enumerate(ways.T.tolist()):
        mine = crossing[way_of.reshape(-1) == number]
        for direction, trunks in enumerate(fabric.tree.between(near, [far], summit)):
            for trunk in trunks:
                rows[trunk][direction].append(mine)

    def marked(found: list[Int64]) -> Bool:
        wanted: Bool = np.zeros(len(messages), dtype=np.bool_)
        wanted[np.concatenate(found) if found else np.zeros(0, np.int64)] = True
        return once(wanted, messages.iteration, messages.send)

    return [(marked(up), marked(down)) for up, down in rows]


def passing_by_way(ways: MessageWays, messages: WireMessages, fabric: Fabric) -> list[tuple[Bool, Bool]]:
    """The messages that go either way over each link between switches, where switches are in no tiers, or hash
    connections; a multicast message is on each link once."""
    trunks = len(fabric.trunk_links())
    rows: list[list[int]] = [[] for _ in range(2 * trunks)]
    for row, (send, target) in enumerate(zip(messages.send.tolist(), messages.dst.tolist(), strict=True)):
        for line in ways.branch(send, target):
            if line >= 2 * fabric.hosts:
                rows[line - 2 * fabric.hosts].append(row)

    def marked(found: list[int]) -> Bool:
        wanted: Bool = np.zeros(len(messages), dtype=np.bool_)
        wanted[found] = True
        return once(wanted, messages.iteration, messages.send)

    return [(marked(rows[trunk]), marked(rows[trunks + trunk])) for trunk in range(trunks)]


@dataclass(frozen=True)
class LoadedLine:
    """One direction of a link between switches."""

    #: "leaf1-spine2 to spine2".
    name: str
    #: Time that an iteration's bytes take on it.
    busy_s: float
    #: Flows of data that pass it.
    flows: int


def has_choices(fabric: Fabric) -> bool:
    """Returns whether it is known which of several ways between switches are taken, and there may be several."""
    return fabric.routing.policy.foresees_loads and (not fabric.is_tiered or len(fabric.spine_names()) > 1)


def loaded_lines(plan: Plan, fabric: Fabric, spine_of: SpineOf | None = None) -> list[LoadedLine]:
    """The lines between switches that the data of a plan pass, those that are busy longest first.

    fabric: with the multicast groups of its plan. Raises InternalFault as `paths_of` does.
    """
    paths = paths_of(plan, fabric, spine_of)
    flow, port, share = _data_passing(paths)
    sends = np.flatnonzero(paths.flow_of_send >= 0)
    of_flow = np.bincount(paths.flow_of_send[sends], paths.line_bytes[sends], len(paths.flow_band))
    ports = len(paths.port_bytes_per_ns)
    busy_s = np.bincount(port, of_flow[flow] * share, ports) / paths.port_bytes_per_ns / 1e9
    flows = np.bincount(port, minlength=ports)
    titles = line_titles(fabric)
    between = [line for line in range(2 * fabric.hosts, ports) if flows[line]]
    found = [LoadedLine(titles[line], float(busy_s[line]), int(flows[line])) for line in between]
    return sorted(found, key=lambda line: (-line.busy_s, -line.flows))


def _data_passing(paths: Paths) -> tuple[Int64, Int64, Float64]:
    """Each flow of data with each port that it passes, and the share of the flow that passes it."""
    flow = np.repeat(np.arange(len(paths.flow_band)), np.diff(paths.route_start))
    data = paths.flow_band[flow] != CONTROL_BAND
    return flow[data], paths.route_port[data], paths.route_share[data]


def lines_in_words(lines: Sequence[LoadedLine]) -> str:
    """The most loaded lines: "leaf1-spine2 to spine2 is busy for 0.2061 s of each
    iteration with 2 flows, ..."; "" if there are none."""
    if not lines:
        return ""
    first, *others = lines[:NAMED]
    said = [f"{first.name} is busy for {first.busy_s:.4g} s of each iteration with {flows_in_words(first.flows)}"]
    said += [f"{line.name} for {line.busy_s:.4g} s with {line.flows}" for line in others]
    if len(lines) > NAMED:
        mean_s = sum(line.busy_s for line in lines) / len(lines)
        said.append(f"the mean of {len(lines)} is {mean_s:.4g} s")
    return ", ".join(said)


def flows_in_words(flows: int) -> str:
    """ "1 flow" or "2 flows"."""
    return "1 flow" if flows == 1 else f"{flows} flows"
