"""Checks that messages crossed their lines no faster than these carry them, by the times of the agents' log.

A shaper forgives an idle port its burst, and lets the packet go that overdraws it. So a port may be ahead of its rate
by these bytes at any time. And HTB counts the time of each packet in whole nanoseconds, rounded down, so a port's own
rate is a little higher than asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.bounds import Bool, message_ns, parts_of, slowest_bps
from gradwire.analysis.iterations import Float64
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.plan_names import PlanNames
from gradwire.analysis.verdict.checks import VIRTUAL_CLOCK, Check
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.datatypes.records import LOSING, FaultRecord, Int64, OpLog, PointRecord
from gradwire.datatypes.wire.framing import Framing
from gradwire.network.fabric import Fabric
from gradwire.network.routes import line_interfaces, lines_of, ports_in_words
from gradwire.network.tiers import Tier
from gradwire.network.wire.ways import MessageWays

MOST_WINDOWS = 64
"""Into how many windows a port's time is divided, each from one of its begins to
every later end. More of them find shorter excesses."""
LEAST_WINDOWS = 8
WINDOW_WORK = 50_000_000
"""Messages times windows that are looked at, at most, beyond LEAST_WINDOWS: about a second."""


def line_checks(plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord, *, departs: bool = False) -> list[Check]:
    """All checks of this module, on a log that has each op of the plan once per iteration.

    departs: whether a SEND ends when its last byte has left the host. Otherwise when it ends says nothing of the line.
    """
    logged = LoggedOps.of(plan, log, record.faults)
    exact_timers = record.clock == VIRTUAL_CLOCK
    sends = [_send_times(plan, fabric, logged, exact_timers, record.faults)] if departs else []
    return [*sends, _message_times(plan, fabric, logged, exact_timers), _port_rates(plan, fabric, logged, exact_timers)]


def _ahead_bytes(fabric: Fabric, rate_bps: float, *, exact_timers: bool) -> float:
    """Largest lead of a port over its rate, in bytes on the line: a burst of GSO takes more there than its length, 45
    headers and gaps.

    Fabric.grain_s leaves that out, which is 2.8 us at 10 Gbit/s. Messages of the papers' scenarios were early by as
    much.
    """
    return fabric.burst_bytes(rate_bps, exact_timers=exact_timers) + fabric.gso_bytes / fabric.goodput_share()


def _fastest_bps(fabric: Fabric, rate_bps: float) -> float:
    """The rate that a shaper keeps: a nanosecond is missing from the time of each burst.

    At 200 Gbit/s and MTU 9000 a port was 0.024 % too fast over 23 ms, at 40 Gbit/s 0.006 %; this allows 0.038 % and
    0.007 %.
    """
    burst_ns = fabric.gso_bytes / fabric.goodput_share() * 8e9 / rate_bps
    return rate_bps * (1 + 1 / burst_ns)


def _message_times(plan: Plan, fabric: Fabric, logged: LoggedOps, exact_timers: bool) -> Check:
    """From a SEND's first byte to its RECV's end, a message takes at
    least its bytes over the slowest line on its way."""
    recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV)
    sends = plan.ops.message[recvs]
    rate_bps = slowest_bps(fabric)
    grain_ns = _ahead_bytes(fabric, rate_bps, exact_timers=exact_timers) * 8e9 / rate_bps
    rounded = rate_bps / _fastest_bps(fabric, rate_bps)
    least_ns = np.maximum(message_ns(plan, fabric)[sends] * rounded - grain_ns, 0.0)
    early_ns = least_ns[None, :] - (logged.end[:, recvs] - logged.start[:, sends])
    wrong = int((early_ns > 0).sum())
    value = f"none of {early_ns.size} messages too fast"
    if wrong:
        iteration, column = divmod(int(early_ns.argmax()), len(recvs))
        which = f"{PlanNames(plan).message(int(sends[column]))} in iteration {iteration}"
        value = (
            f"{wrong} of {early_ns.size} messages too fast, the worst being {which} by {early_ns.max() / 1e3:.1f} us"
        )
    return Check(
        "message times",
        value,
        f"bytes over the slowest line's rate, less {grain_ns / 1e3:.1f} us that an idle port forgives",
        not wrong,
        "A message arrived before its bytes could: they went missing, the line was too fast, or a log's times are "
        "wrong.",
    )


def _send_times(
    plan: Plan, fabric: Fabric, logged: LoggedOps, exact_timers: bool, faults: Sequence[FaultRecord]
) -> Check:
    """A SEND lasts at least as long as its bytes are on its host's line, but for the burst that an idle port forgives.

    The agent adds what the last packet takes on the line, so that a port that is ahead by a packet does not show. What
    fits into a frame ends when the socket has it (agents/transfer.py). Where a fault loses packets at the host's own
    port, these never get to the line, and where a delay ends there, packets that come after its end overtake those
    that it still holds. The last one may leave at once: such SENDs are not looked at.
    """
    ops = plan.ops
    framed_bytes = ops.size_bytes + Framing(len(plan.workers)).header_bytes
    sends = np.flatnonzero(plan.is_remote() & (framed_bytes > fabric.mss_bytes()))
    sends = sends[plan.rank_host[ops.rank[sends]] < fabric.hosts]
    goodput = np.where(ops.group[sends] == 1, fabric.multicast_goodput_share(), fabric.goodput_share())
    sources = plan.rank_host[ops.rank[sends]]
    bursts_ns = np.array(
        [
            fabric.burst_bytes(rate_bps, exact_timers=exact_timers) / fabric.goodput_share() * 8e9 / rate_bps
            for rate_bps in fabric.host_bps
        ]
    )
    fastest_bps = np.array([_fastest_bps(fabric, rate_bps) for rate_bps in fabric.host_bps])[sources]
    line_ns = ops.size_bytes[sends] / goodput * 8e9 / fastest_bps
    early_ns = (line_ns - bursts_ns[sources])[None, :] - (logged.end[:, sends] - logged.start[:, sends])
    faulty = _at_faulty_ports(plan, fabric, logged, sends, faults)
    early_ns[faulty] = -np.inf
    wrong = int((early_ns > 0).sum())
    value = f"none of {early_ns.size - int(faulty.sum())} SENDs too short"
    if wrong:
        iteration, column = divmod(int(early_ns.argmax()), len(sends))
        which = f"{PlanNames(plan).message(int(sends[column]))} in iteration {iteration}"
        value = f"{wrong} of {early_ns.size} SENDs too short, the worst being {which} by {early_ns.max() / 1e3:.1f} us"
    return Check(
        "send times",
        value,
        f"bytes over the rate of the host's line, less {bursts_ns.max() / 1e3:.1f} us",
        not wrong,
        "A send queue took its next message before the last had left the host: more was under way than the strategy "
        "allows.",
    )


def _at_faulty_ports(
    plan: Plan, fabric: Fabric, logged: LoggedOps, sends: Int64, faults: Sequence[FaultRecord]
) -> Bool:
    """Returns which of these SENDs, by iteration, were under way while a fault at their host's own link lost packets,
    or a delay of it ended."""
    host = plan.rank_host[plan.ops.rank[sends]]
    faulty = np.zeros((len(logged.end), len(sends)), np.bool_)
    for record in faults:
        delay_ns = record.fault.value * 1e9 if record.fault.kind == "delay" and record.ended_ns >= 0 else 0.0
        if record.due_ns < 0 or not (record.fault.kind in LOSING or delay_ns):
            continue
        at_fault = record.fault.place
        ends = [(link.a, link.b) for link in fabric.links()[: fabric.hosts]]
        at = [at_fault in (near.interface, far.interface, far.device) for near, far in ends]
        ended_ns = record.ended_ns if record.ended_ns >= 0 else np.inf
        # It begins, and ends, between when it is due and when its commands have been carried out.
        lasts_ns = record.fault.duration_ns
        end_due_ns = record.due_ns + lasts_ns if lasts_ns >= 0 else ended_ns
        begun_ns = min(ended_ns, end_due_ns) - delay_ns if delay_ns else record.due_ns
        meanwhile = (logged.start[:, sends] < ended_ns) & (logged.end[:, sends] > begun_ns)
        faulty |= meanwhile & np.array(at)[host][None, :]
    return faulty


@dataclass(frozen=True)
class _Moved:
    """Messages of all iterations that crossed the network, a row for each RECV."""

    src: Int64
    dst: Int64
    #: Bytes on a line.
    line_bytes: Float64
    begin_ns: Int64
    end_ns: Int64
    #: The SEND's flat index in the log, by which copies of a multicast message are known.
    message: Int64
    #: The SEND in the plan.
    op: Int64

    def rows(self, chosen: Int64) -> _Moved:
        """Some of the rows."""
        return _Moved(
            self.src[chosen],
            self.dst[chosen],
            self.line_bytes[chosen],
            self.begin_ns[chosen],
            self.end_ns[chosen],
            self.message[chosen],
            self.op[chosen],
        )


def _moved_messages(plan: Plan, fabric: Fabric, logged: LoggedOps) -> _Moved:
    ops, count = plan.ops, len(plan.ops)
    recvs = np.flatnonzero(ops.kind == OpKind.RECV)
    recvs = recvs[plan.is_remote()[ops.message[recvs]]]
    sends = ops.message[recvs]
    goodput = np.where(ops.group[sends] == 1, fabric.multicast_goodput_share(), fabric.goodput_share())
    host, times = plan.rank_host.astype(np.int64), logged.iterations
    return _Moved(
        np.tile(host[ops.rank[sends]], times),
        np.tile(host[ops.rank[recvs]], times),
        np.tile(ops.size_bytes[sends] / goodput, times),
        logged.start[:, sends].reshape(-1),
        logged.end[:, recvs].reshape(-1),
        (np.arange(times)[:, None] * count + sends).reshape(-1),
        np.tile(sends, times),
    )


@dataclass(frozen=True)
class _Line:
    """One direction of a link, or of a leaf's or a pod's uplinks together, and the messages that crossed it."""

    name: str
    rate_bps: float
    ahead_bytes: float
    moved: _Moved


def _port_rates(plan: Plan, fabric: Fabric, logged: LoggedOps, exact_timers: bool) -> Check:
    """Checks that in any window, a port carries at most the bytes of its rate and of its largest lead.

    A message crosses a port between its SEND's first byte and its RECV's end. The windows begin at up to MOST_WINDOWS
    of a port's begins, spread evenly, and end at each of its ends.
    """
    worst, text, lines = 0.0, "nothing crossed a line", 0
    moved = _moved_messages(plan, fabric, logged)
    windows = int(np.clip(WINDOW_WORK // max(1, len(moved.src)), LEAST_WINDOWS, MOST_WINDOWS))
    for line in _lines(plan, fabric, moved, exact_timers):
        lines += 1
        used, begin_ns, end_ns = _fullest_window(line, windows)
        if used > worst:
            worst = used
            text = f"{line.name}: {used:.1%} of what it can carry from {begin_ns / 1e9:.6f} to {end_ns / 1e9:.6f} s"
    return Check(
        "port rates",
        text,
        f"100 % of rate and grain in {windows} windows at each of {lines} ports",
        worst <= 1,
        "More bytes passed a port than its rate allows, so the links did not run at the configured rate throughout.",
    )


def _fullest_window(line: _Line, windows: int) -> tuple[float, int, int]:
    """The greatest share of a window's bytes that was used, with the window's begin and end."""
    by_end = np.argsort(line.moved.end_ns, kind="stable")
    moved = line.moved.rows(by_end)
    begins = np.unique(moved.begin_ns)
    begins = begins[np.unique(np.linspace(0, len(begins) - 1, min(windows, len(begins))).astype(np.int64))]
    worst = (0.0, 0, 0)
    for begin_ns in begins.tolist():
        carried = np.cumsum(np.where(moved.begin_ns >= begin_ns, moved.line_bytes, 0.0))
        possible = np.maximum(moved.end_ns - begin_ns, 0) * line.rate_bps / 8e9 + line.ahead_bytes
        used = carried / possible
        fullest = int(used.argmax())
        worst = max(worst, (float(used[fullest]), begin_ns, int(moved.end_ns[fullest])))
    return worst


def _lines(plan: Plan, fabric: Fabric, moved: _Moved, exact_timers: bool) -> Iterator[_Line]:
    """Every line with a rate that something crossed, each direction by itself."""
    limits = [
        (_fastest_bps(fabric, rate_bps), _ahead_bytes(fabric, rate_bps, exact_timers=exact_timers))
        for rate_bps in fabric.host_bps
    ]
    # Of a multicast message, the copy that came first tells when its last byte had left its sender. Ranks on one host
    # share a copy.
    ways = (("out of", moved.src, moved.message), ("into", moved.dst, moved.message * fabric.endpoints + moved.dst))
    for way, at, copies in ways:
        chosen = _first_of_each(moved, copies)
        for host, mine in _by_value(at[chosen]):
            if host < fabric.hosts:
                yield _Line(f"{way} h{host + 1}", *limits[host], moved.rows(chosen[mine]))
    # Where bursts take all ways in turn, no line has a whole message; bytes by uplink compares what lines have.
    if fabric.routing.policy.plan_says_lines(fabric):
        yield from _trunks(plan, fabric, moved, exact_timers)
    for tier in fabric.tree.tiers:
        yield from _uplinks(fabric, tier, moved, exact_timers)


def _trunks(plan: Plan, fabric: Fabric, moved: _Moved, exact_timers: bool) -> Iterator[_Line]:
    """The lines between switches of a graph, or that switches hash to, with the messages to one rank on their ways."""
    single = np.flatnonzero(plan.ops.group[moved.op] == 0)
    ways, links, interfaces = MessageWays(plan, fabric), lines_of(fabric), line_interfaces(fabric)
    words = ports_in_words(fabric)
    if fabric.routing.policy.hashes_connections:
        sends, pair_of = np.unique(moved.op[single], return_inverse=True)
    else:
        _, first, pair_of = np.unique(
            np.stack([moved.src, moved.dst])[:, single], axis=1, return_index=True, return_inverse=True
        )
        sends = moved.op[single][first]
    crossing: dict[int, list[int]] = {}
    for pair, send in enumerate(sends.tolist()):
        for line in ways.way(send):
            if line >= 2 * fabric.hosts:
                crossing.setdefault(line, []).append(pair)
    for line, found in sorted(crossing.items()):
        rate_bps = links[line].rate_bps
        ahead = _ahead_bytes(fabric, rate_bps, exact_timers=exact_timers)
        rows = single[np.isin(pair_of.reshape(-1), found)]
        yield _Line(words[interfaces[line]], _fastest_bps(fabric, rate_bps), ahead, moved.rows(rows))


def _uplinks(fabric: Fabric, tier: Tier, moved: _Moved, exact_timers: bool) -> Iterator[_Line]:
    limits = [
        (
            sum(_fastest_bps(fabric, rate_bps) for rate_bps in rates),
            sum(_ahead_bytes(fabric, rate_bps, exact_timers=exact_timers) for rate_bps in rates),
        )
        for rates in tier.rates_bps
    ]
    src, dst = parts_of(fabric, tier, moved.src), parts_of(fabric, tier, moved.dst)
    parts = len(tier.names) + 1
    crossing = np.flatnonzero(src != dst)
    ways = (
        ("up from", src, moved.message),
        ("down to", dst, moved.message * parts + dst),
    )
    for way, at, copies in ways:
        chosen = crossing[_first_of_each(moved.rows(crossing), copies[crossing])]
        for part, mine in _by_value(at[chosen]):
            if part >= 0:
                yield _Line(f"{way} {tier.names[part]}", *limits[part], moved.rows(chosen[mine]))


def _first_of_each(moved: _Moved, key: Int64) -> Int64:
    """Indices of the rows that ended first among those with the same key."""
    by_end = np.argsort(moved.end_ns, kind="stable")
    _, first = np.unique(key[by_end], return_index=True)
    return np.asarray(by_end[first])


def _by_value(values: Int64) -> Iterator[tuple[int, Int64]]:
    """Each value with the positions that have it."""
    order = np.argsort(values, kind="stable")
    groups, begin = np.unique(values[order], return_index=True)
    yield from zip(groups.tolist(), np.split(order, begin[1:]), strict=False)
