"""Checks that captured packets, the plan, the agents' logs and the ports'
counters agree: four views of the same traffic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gradwire.analysis.bounds import transfers
from gradwire.analysis.iterations import logged_periods_s, timed_workers, worker_periods_s, worker_times_s
from gradwire.analysis.packets.capture_files import Capture
from gradwire.analysis.packets.captures import PortLocation, location_of
from gradwire.analysis.verdict.byte_checks import HANDSHAKE_BYTES
from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import Int64, OpLog, PointRecord
from gradwire.datatypes.wire.framing import HELLO
from gradwire.faults import InternalFault
from gradwire.network.fabric import Fabric
from gradwire.network.wire.flows import connections_of

TIME_TOLERANCE = 0.01
"""The difference that `gradwire reproduce` counts as a tie. A period by packets lasts from one first message to the
next, not from barrier to barrier: single iterations of ten strategies differed by up to 0.22 %, the means of 68
captured points by up to 0.02 %."""


def capture_checks(
    plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord, captures: Sequence[Capture], complete: bool
) -> list[Check]:
    """All checks of captured packets; empty without captures. `complete` tells that the op log is, so its iterations
    have times.

    Raises InternalFault unless there is one capture for each of `record.captures`, in that order.
    """
    if len(captures) != len(record.captures):
        raise InternalFault(f"{len(record.captures)} ports were captured, and {len(captures)} captures were given")
    if not captures:
        return []
    placed = [
        (location_of(fabric, about.port), capture) for about, capture in zip(record.captures, captures, strict=True)
    ]
    at_hosts = [(location, capture) for location, capture in placed if location.endpoint is not None]
    checks = [_completeness_check(record), _captured_bytes_check(fabric, record, placed)]
    if at_hosts:
        checks += [_messages(plan, record, at_hosts), _stream_bytes(plan, fabric, at_hosts)]
        if record.iterations > max(record.warmup, 1) and complete:
            checks += _times(plan, log, record, at_hosts)
    return checks


def _completeness_check(record: PointRecord) -> Check:
    """The kernel dropped no packet for lack of room, and all packets are in the file."""
    written = sum(about.packets for about in record.captures)
    seen, dropped = sum(a.seen for a in record.captures), sum(a.dropped for a in record.captures)
    return Check(
        "capture",
        f"{written} of {seen} packets at {len(record.captures)} ports, {dropped} dropped",
        "all, 0 dropped",
        written == seen and dropped == 0,
        "The capture has gaps, so the bytes, messages and times read from it are not those of the run.",
    )


def _captured_bytes_check(fabric: Fabric, record: PointRecord, placed: list[tuple[PortLocation, Capture]]) -> Check:
    """Checks that the captured bytes in each direction of a port equal the counts of the port and of the other end of
    its link.

    HANDSHAKE_BYTES per pair of endpoints and band are tolerated: a capture begins before the counters are read and
    ends after.
    """
    counted: dict[str, int] = {}
    for count in record.counts.bands:
        counted[count.port] = counted.get(count.port, 0) + count.bytes_sent
    limit = HANDSHAKE_BYTES * fabric.endpoints * fabric.bands
    worst, text = -1, ""
    for location, capture in placed:
        packets = capture.packets
        for port, mine in ((location.port, packets.outbound), (location.far_port, ~packets.outbound)):
            captured = int(packets.frame_bytes[mine].sum())
            of_port = counted.get(port, 0)  # a port whose queues programs replaced has no bands
            if abs(captured - of_port) > worst:
                worst = abs(captured - of_port)
                text = f"{location.port}: {captured} bytes captured, {port} counted {of_port}"
    return Check(
        "captured bytes",
        text,
        f"equal within {limit} bytes",
        0 <= worst <= limit,
        "The capture lacks packets that passed the port, or the sizes read from it differ from the port's count.",
    )


def expected_messages(plan: Plan, endpoint: int, *, outbound: bool) -> Int64:
    """The messages (op numbers) of one iteration that leave an endpoint through its port, or arrive there."""
    moved = transfers(plan)
    return np.unique(moved.op[(moved.src if outbound else moved.dst) == endpoint])


def _messages(plan: Plan, record: PointRecord, at_hosts: list[tuple[PortLocation, Capture]]) -> Check:
    """Every message that the plan sends through a port was captured there
    once per iteration, and no other message was."""
    expected = missing = repeated = foreign = 0
    for location, capture in at_hosts:
        messages = capture.messages
        for outbound in (True, False):
            wanted = expected_messages(plan, location.endpoint or 0, outbound=outbound == location.is_near)
            mine = messages.outbound == outbound
            keys = messages.iteration[mine] * len(plan.ops) + messages.message[mine]
            planned = np.isin(messages.message[mine], wanted) & (messages.iteration[mine] < record.iterations)
            planned &= (
                messages.size_bytes[mine] == plan.ops.size_bytes[np.clip(messages.message[mine], 0, len(plan.ops) - 1)]
            )
            captured, times = np.unique(keys[planned], return_counts=True)
            expected += len(wanted) * record.iterations
            missing += len(wanted) * record.iterations - len(captured)
            repeated += int((times - 1).sum())
            foreign += int((~planned).sum())
    return Check(
        "captured messages",
        f"{expected - missing} of {expected}, {repeated} repeated, {foreign} foreign",
        "each message once per iteration, with the plan's size",
        missing == repeated == foreign == 0,
        "The messages in the packets are not those that the plan sends through these ports.",
    )


def _stream_bytes(plan: Plan, fabric: Fabric, at_hosts: list[tuple[PortLocation, Capture]]) -> Check:
    """TCP's payload is the captured messages and one hello per connection, to the
    byte; on a lossy fabric, resent bytes add to it."""
    ops = plan.ops
    streamed = expected = 0
    loses = bool(fabric.losses) or fabric.drops or fabric.host_tcp.is_stock
    connections = _connections(plan)
    for location, capture in at_hosts:
        messages = capture.messages
        inside = (messages.message >= 0) & (messages.message < len(ops))
        unicast = inside & (ops.group[np.where(inside, messages.message, 0)] == 0)
        streamed += int(capture.packets.stream_bytes.sum())
        expected += int(messages.wire_bytes[unicast].sum()) + HELLO.size * connections[location.endpoint or 0]
    return Check(
        "captured payload",
        f"{streamed} bytes of TCP",
        f"{'at least ' if loses else ''}{expected} of messages and their connections",
        streamed >= expected if loses else streamed == expected,
        "Some bytes of a connection belong to none of the messages read from it.",
    )


def _connections(plan: Plan) -> Counter[int]:
    """Number of the plan's connections that begin or end at each endpoint."""
    return Counter(endpoint for c in connections_of(plan) for endpoint in (c.src_host, c.dst_host))


def _times(plan: Plan, log: OpLog, record: PointRecord, at_hosts: list[tuple[PortLocation, Capture]]) -> list[Check]:
    """Checks that the mean of a worker's measured iterations is the same by packets alone and by its agent's log,
    within TIME_TOLERANCE.

    Where the log says as well that a worker's iterations last another time from first message to first message than
    from end to end, for they differ in length, its first SENDs are what the packets are compared with. The captured
    host with the largest difference is reported. There is no check if no worker sends anything past a captured port.
    """
    first = max(record.warmup, 1)  # an iteration by packets begins with the one before it, which iteration 0 lacks
    logged_s = worker_times_s(plan, log, record.iterations)[first:].mean(axis=0)
    worst, text = -1.0, ""
    for location, capture in at_hosts:
        ranks = timed_workers(plan, location.endpoint or 0, capture.messages)
        if not len(ranks):
            continue
        captured = float(worker_periods_s(capture.messages, ranks, record.iterations)[first - 1 :].mean())
        logged = float(logged_s[np.searchsorted(plan.workers, ranks)].mean())
        names = f"worker {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} workers"
        apart = abs(captured / logged - 1)
        if apart > TIME_TOLERANCE:
            sent = float(logged_periods_s(plan, log, ranks, record.iterations)[first - 1 :].mean())
            if abs(captured / sent - 1) < apart:
                logged, apart, names = sent, abs(captured / sent - 1), f"{names}, from first message to first message"
        if not apart <= worst:
            worst = apart
            text = f"{captured:.6g} s by the packets at {location.port}, {logged:.6g} s by the agents ({names})"
    if not text:
        return []
    return [
        Check(
            "iterations from packets",
            f"{text}, {worst:.2%} apart",
            f"{TIME_TOLERANCE:.0%}",
            0 <= worst <= TIME_TOLERANCE,
            "The agents' clock or logs disagree with what happened on the wire.",
        )
    ]
