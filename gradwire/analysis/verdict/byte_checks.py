"""Checks that the plan's bytes, the agents' counts and the ports' counters agree: no more and no less traffic than
planned.

tc counts whole frames without preamble, FCS and gap: 1514 bytes for 1448 bytes of payload at MTU 1500 (66 bytes of
headers per segment). A message adds a framing header, and its last segment need not be full. Pure ACKs travel in the
control band: at most one of 66 bytes for every two segments (RFC 5681), far fewer if bursts are merged on arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.bounds import Bool, Transfers, once, parts_of, transfers
from gradwire.analysis.iterations import Float64
from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.plan import Int64, OpKind, Plan, Role
from gradwire.datatypes.records import TENANTS_CLASS, FaultRecord, PointRecord
from gradwire.datatypes.wire.framing import Framing
from gradwire.network.fabric import (
    ETHERNET_HEADER_BYTES,
    IP_TCP_HEADER_BYTES,
    IP_UDP_HEADER_BYTES,
    Fabric,
    band_of_class,
)
from gradwire.network.links import Port

PORT_SLACK_BYTES = 200
"""Allowance per message for its partly filled last segment and its framing, as a port counts them."""
PORT_TOLERANCE = 0.01
"""Tolerates 1 % of traffic that is not the plan's, or segments that are not full. In 1,939 points at MTU 1500 with
more than 1 GB of TCP, ports counted 0.10 to 0.28 % more than full frames, ACKs included."""
BAND_TOLERANCE = 0.02
"""Tolerates 2 % of a class's bytes in another band. None of 4,200 points used
more than 34 % of this and the other slack together."""
FLOOR_BYTES = 100_000
"""Allowed difference of a sum of counters, however little the plan sends: less than two GSO bursts."""
HANDSHAKE_BYTES = 500
"""Allowance per connection and direction: SYN, FIN, their answers and the first bytes that name it, with headers."""
LOSS_FACTOR = 3
"""Factor of the loss share by which the bytes may exceed the plan's: a lost burst is sent again, partly twice."""
SACK_BYTES = 28
"""Bytes that an ACK may carry besides its timestamp: two of padding, two of an option's header, and three ranges (RFC
2018)."""


def agent_bytes_check(plan: Plan, record: PointRecord) -> Check:
    """Each agent sent and received the plan's messages between hosts, by their number and to the byte, framing
    included.

    A multicast message is sent once and received by every member of its group.
    """
    moved = transfers(plan)
    sends, arriving = moved.op[moved.first], _remote_receives(plan)
    framing_bytes = Framing(len(plan.workers)).header_bytes
    framed = plan.ops.size_bytes + framing_bytes
    worst, text, limit = -1, "no agents", "as planned"
    for agent in record.agents:
        mine = np.isin(plan.rank_host, agent.hosts)
        sent, received = (ops[mine[plan.ops.rank[ops]]] for ops in (sends, arriving))
        expected = np.array([len(sent), framed[sent].sum(), len(received), framed[plan.ops.message[received]].sum()])
        counted = np.array([agent.messages_sent, agent.bytes_sent, agent.messages_received, agent.bytes_received])
        apart = int(np.abs(counted - expected * record.iterations).sum())
        if apart > worst:
            worst = apart
            text = f"{_way(counted, 'sent')}, {_way(counted[2:], 'received')}"
            limit = (
                f"{_way(expected * record.iterations, 'sent')}, {_way(expected[2:] * record.iterations, 'received')}"
            )
    return Check(
        "agents' bytes",
        text,
        limit,
        worst == 0,
        "The agents' messages or bytes differ from the plan's, so another workload was measured.",
    )


def _way(counted: Int64, way: str) -> str:
    return f"{counted[1]} bytes of {counted[0]} messages {way}"


def _remote_receives(plan: Plan) -> Int64:
    recvs = np.flatnonzero(plan.ops.kind == OpKind.RECV).astype(np.int64)
    sends = plan.ops.message[recvs]
    return recvs[plan.is_remote()[sends]]


def port_bytes_check(plan: Plan, fabric: Fabric, record: PointRecord) -> Check:
    """The bytes that left all hosts by their ports' counters are the plan's payload as frames, within PORT_TOLERANCE,
    plus ACKs.

    Other tenants' flows count with what their TCP sent. The lower limit is the payload alone. The upper limit is the
    payload as full frames x 1.01, ACKs (`_ack_share`), PORT_SLACK_BYTES per message, HANDSHAKE_BYTES per
    possible connection, and FLOOR_BYTES. Only ports "h*-eth0" count; aggregators have none.
    """
    moved = _from_hosts(plan, fabric, transfers(plan))
    first = moved.first
    tenants = tenants_of(record)
    tenants_bytes = sum(tenant.sent_bytes for tenant in tenants)
    payload = int(moved.size_bytes[first].sum()) * record.iterations + tenants_bytes
    messages = int(first.sum()) * record.iterations
    ports = {Port(host, 0).interface for host in fabric.host_names()}
    counted = sum(band.bytes_sent for band in record.counts.bands if band.port in ports)
    frames = float(_frame_bytes(plan, fabric, moved)[first].sum()) * record.iterations
    frames += tenants_bytes * tcp_frame_share(fabric)
    handshakes = HANDSHAKE_BYTES * (fabric.hosts * (fabric.hosts - 1) * fabric.bands + len(tenants))
    tolerance = 1 + PORT_TOLERANCE + LOSS_FACTOR * fabric.most_loss
    limit = int(frames * (tolerance + _ack_share(fabric)) + PORT_SLACK_BYTES * messages + handshakes + FLOOR_BYTES)
    limit += resent_bytes(fabric, record)
    return Check(
        "port counters",
        f"{counted} bytes",
        f"{payload} to {limit} bytes",
        payload <= counted <= limit,
        "The network carried less than the plan's traffic, or other traffic was measured with it.",
    )


def _from_hosts(plan: Plan, fabric: Fabric, moved: Transfers) -> Transfers:
    """The transfers that leave through a host's own port."""
    aggregating = np.zeros(max(plan.hosts, fabric.hosts), dtype=np.bool_)
    aggregating[plan.rank_host[plan.rank_role == Role.AGGREGATOR]] = True
    kept = ~aggregating[moved.src] & (moved.src < fabric.hosts)
    return Transfers(moved.op[kept], moved.src[kept], moved.dst[kept], moved.size_bytes[kept], moved.first[kept])


def _frame_bytes(plan: Plan, fabric: Fabric, moved: Transfers) -> Float64:
    """Bytes that tc counts for each transfer if all its frames are full."""
    headers = np.where(plan.ops.group[moved.op] == 1, IP_UDP_HEADER_BYTES, IP_TCP_HEADER_BYTES)
    frames: Float64 = moved.size_bytes * (fabric.mtu_bytes + ETHERNET_HEADER_BYTES) / (fabric.mtu_bytes - headers)
    return frames


def resent_bytes(fabric: Fabric, record: PointRecord) -> int:
    """Largest number of bytes that ports carried twice because finite buffers dropped packets: TCP counts the segments
    that it sends again, and a full frame bounds each.

    0 for other networks: those without drops have none, and those that lose at random have LOSS_FACTOR.
    """
    return (
        record.counts.tcp_retransmits * (fabric.mtu_bytes + ETHERNET_HEADER_BYTES)
        if fabric.drops or fabric.routing.policy.writes_ways
        else 0
    )


def _and_tenants(plan: Plan, moved: Transfers, tenants: Sequence[FaultRecord]) -> Transfers:
    """The transfers of an iteration, followed by the traffic of each tenant, under numbers that no op has."""
    return Transfers(
        np.append(moved.op, len(plan.ops) + np.arange(len(tenants))),
        np.append(moved.src, np.array([tenant.fault.source for tenant in tenants], np.int64)),
        np.append(moved.dst, np.array([tenant.fault.destination for tenant in tenants], np.int64)),
        np.append(moved.size_bytes, np.array([tenant.sent_bytes for tenant in tenants], np.int64)),
        np.append(moved.first, np.ones(len(tenants), np.bool_)),
    )


def tenants_of(record: PointRecord) -> list[FaultRecord]:
    """Other tenants that sent something while the plan was replayed."""
    return [fault for fault in record.faults if fault.sent_bytes]


def tcp_frame_share(fabric: Fabric) -> float:
    """Bytes that tc counts per byte of TCP's payload in full frames."""
    return (fabric.mtu_bytes + ETHERNET_HEADER_BYTES) / fabric.mss_bytes()


def _ack_share(fabric: Fabric) -> float:
    """Upper limit of the bytes of pure ACKs per byte of data frames.

    Where packets are dropped, marked, or overtake one another, receivers answer each frame at once: what is out of order
    (RFC 5681, section 4.2), and with DCTCP whenever a mark begins or ends (RFC 8257, section 3.2). Linux does so too with
    the first ones after a pause (quick ACKs, net/ipv4/tcp_input.c), which counts where a burst is a single frame: 64 KiB
    are 45.
    """
    frame_bytes = fabric.mtu_bytes + ETHERNET_HEADER_BYTES
    ack_bytes = IP_TCP_HEADER_BYTES + ETHERNET_HEADER_BYTES
    if fabric.has_switch_queues or fabric.routing.policy.splits_messages:
        return (ack_bytes + SACK_BYTES) / frame_bytes
    return ack_bytes / (frame_bytes if fabric.gso_bytes < 2 * frame_bytes else 2 * frame_bytes)


@dataclass(frozen=True)
class _PortSet:
    """A set of ports that together carry a known part of the plan."""

    #: Name in the report.
    name: str
    #: Interface names of the ports.
    ports: frozenset[str]
    #: Number of ordered pairs of hosts whose packets pass here.
    pairs: int
    #: Whether each row of the transfers passes here.
    transfer: Bool


def band_bytes_check(plan: Plan, fabric: Fabric, record: PointRecord) -> Check:
    """At each host port, each switch port towards a host, and each leaf's and pod's uplinks, every band carries its
    class's bytes.

    A data band must agree with the plan's frames, and with those of other tenants, within BAND_TOLERANCE,
    PORT_SLACK_BYTES per message, HANDSHAKE_BYTES per pair of hosts and FLOOR_BYTES. The control band also carries the
    ACKs, so it has only an upper limit; on stock hosts, ACKs are in the band of their
    data. The place and band that use most of their slack are reported.
    """
    moved = transfers(plan)
    frames = _frame_bytes(plan, fabric, moved) * record.iterations
    band = np.where(plan.ops.traffic_class[moved.op] < 0, 0, band_of_class(0) + plan.ops.traffic_class[moved.op])
    tenants = tenants_of(record)
    moved = _and_tenants(plan, moved, tenants)
    frames = np.append(frames, [tenant.sent_bytes * tcp_frame_share(fabric) for tenant in tenants])
    band = np.append(band, [band_of_class(TENANTS_CLASS)] * len(tenants))
    counted: dict[tuple[str, int], int] = {}
    for count in record.counts.bands:
        counted[count.port, count.band] = counted.get((count.port, count.band), 0) + count.bytes_sent
    tolerance = BAND_TOLERANCE + LOSS_FACTOR * fabric.most_loss
    worst, text, places = -1.0, "nothing to compare", 0
    for line in _places(fabric, moved):
        for number in range(fabric.bands):
            mine = line.transfer & (band == number)
            expected = float(frames[mine].sum())
            measured = sum(counted.get((port, number), 0) for port in line.ports)
            slack = tolerance * expected + HANDSHAKE_BYTES * line.pairs + FLOOR_BYTES + resent_bytes(fabric, record)
            slack += PORT_SLACK_BYTES * int(mine.sum()) * record.iterations
            # The ACKs of the opposite direction are unknown here; those of the whole plan are an upper limit.
            if number == 0:
                slack += _ack_share(fabric) * float(frames.sum())
            elif fabric.host_tcp.is_stock:
                slack += _ack_share(fabric) * float(frames[band == number].sum())
            used = max(0.0, measured - expected) / slack if number == 0 else abs(measured - expected) / slack
            places += 1
            if used > worst:
                worst, text = used, f"{line.name} band {number}: {measured} bytes, plan {expected:.0f}"
    return Check(
        "bytes by class",
        f"{text} ({worst:.0%} of the slack used)",
        f"{tolerance:.0%}, {PORT_SLACK_BYTES} B per message, {HANDSHAKE_BYTES} B per pair and {FLOOR_BYTES} B at each "
        f"of {places} bands",
        0 <= worst <= 1,
        "Messages travelled in another band than that of their class, so priorities did not act as planned.",
    )


def _places(fabric: Fabric, moved: Transfers) -> list[_PortSet]:
    outward, places = moved.first, []
    for host, link in enumerate(fabric.links()[: fabric.hosts]):
        outgoing, towards = link.a.interface, link.b.interface
        places.append(_PortSet(outgoing, frozenset({outgoing}), fabric.hosts - 1, outward & (moved.src == host)))
        places.append(_PortSet(towards, frozenset({towards}), fabric.hosts - 1, moved.dst == host))
    trunks = fabric.trunk_links()
    for tier in fabric.tree.tiers:
        source, target = parts_of(fabric, tier, moved.src), parts_of(fabric, tier, moved.dst)
        crosses = source != target
        goes_up, goes_down = once(crosses, moved.op), once(crosses, moved.op, target)
        below = fabric.hosts // len(tier.names)
        pairs = below * (fabric.hosts - below)
        for part, (name, uplinks) in enumerate(zip(tier.names, tier.uplinks, strict=True)):
            up = frozenset(trunks[number].a.interface for number in uplinks)
            down = frozenset(trunks[number].b.interface for number in uplinks)
            places.append(_PortSet(f"uplinks of {name}", up, pairs, goes_up & (source == part)))
            places.append(_PortSet(f"downlinks of {name}", down, pairs, goes_down & (target == part)))
    return places
