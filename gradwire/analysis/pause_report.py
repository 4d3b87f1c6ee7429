"""The reports of priority flow control: where a network's buffers can deadlock, before a run; which ports paused which
others, after it; and both as events of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

import numpy as np

from gradwire.datatypes.pauses import MOST_EVENTS, PauseCount, PauseEvents, PauseState, circle_in_words, deadlock_in
from gradwire.datatypes.plan import Plan
from gradwire.network.buffer_cycles import circle_of_ways
from gradwire.network.fabric import Fabric
from gradwire.network.routes import SummitOf, line_interfaces, port_lines, ports_in_words, routes_of
from gradwire.network.switch_hash import FlowPorts
from gradwire.network.wire.ways import MessageWays

MOST_HOSTS = 256
"""Largest number of hosts for which the ways between all of them are looked at."""
ONE_CONNECTION = FlowPorts(49152, 5000)
"""Ports of a connection from the first port that a system gives out (RFC 6335) to one of a user's."""
MOST_PORTS = 3
"""Number of ports that are named, those that were paused longest first."""


def far_ends_of(fabric: Fabric) -> Mapping[str, str]:
    """The port at the other end of each port's link, by names of interfaces."""
    ends = [(link.a.interface, link.b.interface) for link in fabric.links()]
    return {**dict(ends), **{b: a for a, b in ends}}


def inputs_in_words(fabric: Fabric) -> dict[str, str]:
    """The line that ends at each port, by the port's interface, which is named as well: "h2 out (s1-eth2)"."""
    lines = port_lines(fabric)
    return {port: f"{lines[far]} ({port})" for port, far in far_ends_of(fabric).items()}


def _lines_in_words(fabric: Fabric) -> list[str]:
    """The ports that send on lines, by the numbers of these."""
    words = ports_in_words(fabric)
    return [words[interface] for interface in line_interfaces(fabric)]


def buffer_circles(plan: Plan, fabric: Fabric, summit_of: SummitOf | None = None) -> dict[int, tuple[str, ...]]:
    """By traffic class: ports that can be paused each for the next, as the plan's messages go; without classes that
    have no such circle, or are not paused."""
    if fabric.lossless is None:
        return {}
    ops, ways = plan.ops, MessageWays(plan, fabric, summit_of)
    names, found = _lines_in_words(fabric), {}
    remote = np.flatnonzero(plan.is_remote() & (ops.group == 0))
    for traffic_class in fabric.lossless.paused_classes(fabric.classes):
        sends = remote[ops.traffic_class[remote] == traffic_class]
        if circle := circle_of_ways({tuple(ways.way(send)) for send in sends.tolist()}):
            found[traffic_class] = tuple(names[line] for line in circle)
    return found


def circle_between_hosts(fabric: Fabric, summit_of: SummitOf | None = None) -> tuple[str, ...]:
    """Ports that can be paused each for the next if all hosts send to each other, as programs may; empty if there are none, and
    where bursts or a user's controller decide on ways. Where switches choose by connection, ways are those of one of them."""
    is_known = not (fabric.routing.policy.writes_ways or fabric.controller)
    if fabric.lossless is None or not is_known or fabric.hosts > MOST_HOSTS:
        return ()
    routes, names = routes_of(fabric, summit_of), _lines_in_words(fabric)
    ports = ONE_CONNECTION if fabric.routing.policy.hashes_connections else None
    ways = (routes.path(*ends, ports) for ends in permutations(range(fabric.hosts), 2))
    return tuple(names[line] for line in circle_of_ways(ways))


def circle_foreseen(whose: str, circle: tuple[str, ...]) -> str:
    """Warning of a circle of buffers before a run. whose: the ways that make it."""
    return (
        f"fabric.lossless: {whose} make a circle of buffers, {' -> '.join((*circle, circle[0]))}. Each of "
        "these ports waits for the next one where that is paused, so all of them may wait for ever (deadlock). Ways that go up "
        "and then down (leaf-spine, fat-tree), or other routes, have no circle"
    )


def pause_lines(fabric: Fabric, state: PauseState | None) -> Iterator[str]:
    """Pauses by port and class, headroom and memory, for the report of a run; nothing without flow control."""
    if fabric.lossless is None or state is None:
        return
    told = paused_longest(state)
    if not told:
        inputs = [count for count in state.counts if count.headroom_bytes]
        most = max(inputs, key=lambda count: count.most_bytes, default=None)
        beside = (
            f"; {most.most_bytes:,} bytes that came by {inputs_in_words(fabric)[most.port]} waited at most"
            if most
            else ""
        )
        yield f"nothing was paused: fabric.lossless had no effect{beside}"
        return
    far_ends, lines = far_ends_of(fabric), port_lines(fabric)
    named = [_paused(count, lines[far_ends[count.port]]) for count in told[:MOST_PORTS]]
    others = f"; and {len(told) - len(named)} more" if len(told) > len(named) else ""
    of_all = f"{sum(count.pauses for count in told):,} times, for {_ms(sum(count.paused_ns for count in told))}"
    yield f"paused {of_all} of all ports together: {'; '.join(named)}{others}"
    most = max(told, key=lambda count: count.most_headroom_bytes / count.headroom_bytes)
    if state.told > MOST_EVENTS:
        yield f"of {state.told:,} pauses and resumes, a trace has the first {MOST_EVENTS:,}"
    yield f"headroom: {most.most_headroom_bytes:,} of {most.headroom_bytes:,} bytes at most, of {inputs_in_words(fabric)[most.port]}"
    if circle := deadlock_in(state, far_ends):
        yield f"at the end, ports of class {circle[0].band - 1} wait in a circle (deadlock): {circle_in_words(circle)}"


def paused_longest(state: PauseState) -> list[PauseCount]:
    """The classes of ports that paused their far ends, the longest first."""
    return sorted((count for count in state.counts if count.pauses), key=lambda count: -count.paused_ns)


def _paused(count: PauseCount, line: str) -> str:
    return f"{line} by {count.port}, class {count.band - 1}, {count.pauses:,} times for {_ms(count.paused_ns)}"


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:,.3f} ms"


def pause_events(
    events: PauseEvents, fabric: Fabric, begin_ns: int, end_ns: int, process: int
) -> Iterator[dict[str, Any]]:
    """A slice for each pause that overlaps a time, cut off there, in the Trace Event Format (analysis/timeline/trace.py):
    asynchronous ones, with a track for each port and class that is paused."""
    far_ends, lines, begun = far_ends_of(fabric), port_lines(fabric), dict[tuple[int, int], int]()
    columns = (events.time_ns.tolist(), events.port.tolist(), events.band.tolist(), events.pauses.tolist())
    ended = []
    for time_ns, port, band, pauses in zip(*columns, strict=True):
        if pauses:
            begun.setdefault((port, band), time_ns)
        elif (port, band) in begun:
            ended.append((begun.pop((port, band)), time_ns, port, band))
    ended += [(since_ns, end_ns, port, band) for (port, band), since_ns in begun.items()]
    for since_ns, until_ns, port, band in sorted(ended):
        if since_ns < end_ns and until_ns > begin_ns:
            by = events.ports[port]
            name = f"{lines[far_ends[by]]} is paused by {by}, class {band - 1}"
            about = {"cat": "pause", "name": name, "id": f"{by}/{band}", "pid": process, "tid": process}
            for phase, at_ns in (("b", max(since_ns, begin_ns)), ("e", min(until_ns, end_ns))):
                yield {"ph": phase, **about, "ts": round((at_ns - begin_ns) / 1e3, 3)}
