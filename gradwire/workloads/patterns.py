"""Plain traffic patterns as plans, for `gradwire calibrate` and for the short burst that probes the rate before every
run.

Each iteration starts with a barrier (through rank 0), so that transfers of one iteration never overlap those of the
next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradwire.datatypes.plan import Plan, Role
from gradwire.network.fabric import Fabric
from gradwire.network.routes import lines_of, routes_of
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder

LOW_MESSAGE_BYTES = 16_384
"""Size of the messages of the low flow in `priority_clash`."""


@dataclass(frozen=True)
class Transfer:
    """Bytes that one host sends to another in an iteration."""

    src: int
    dst: int
    size_bytes: int
    traffic_class: int = 0
    #: Time from the iteration's start until the transfer starts.
    delay_s: float = 0.0
    #: Number of equal messages that carry the bytes.
    messages: int = 1


def one(size_bytes: int) -> list[Transfer]:
    """Returns one flow, from host 0 to host 1."""
    return [Transfer(0, 1, size_bytes)]


def ring(hosts: int, size_bytes: int) -> list[Transfer]:
    """Every host sends to the next one."""
    return [Transfer(host, (host + 1) % hosts, size_bytes) for host in range(hosts)]


FELT_ACK_SHARE = 0.005
"""Share of a line that ACKs take, from which on they would be felt: a third of what the rate probe tolerates."""


def probe_phases(fabric: Fabric, size_bytes: int) -> list[tuple[list[Transfer], float]]:
    """Returns phases that load every host's port in both directions at once, then uplinks of leaves and pods; each
    with its ideal rate.

    First all hosts send, each to the next one on its leaf. If the machine cannot carry the traffic exactly while all
    hosts are busy, it shows here. Data flows at the rate that the ACKs of the opposite flow leave it. Then each leaf
    sends a single flow to the next leaf, so that no two flows can meet on a link, whatever spines they take; the last
    leaf of each pod sends to the next pod.
    """
    leaves = [hosts for hosts in fabric.hosts_of_leaves if hosts]
    phases: list[tuple[list[Transfer], float]] = []
    around = [
        Transfer(host, hosts[(place + 1) % len(hosts)], size_bytes)
        for hosts in leaves
        if len(hosts) > 1
        for place, host in enumerate(hosts)
    ]
    limit_bps = fabric.flow_rate_bps or math.inf
    if around:
        slowest_bps = min(fabric.host_bps[transfer.src] for transfer in around)
        phases.append((around, min(limit_bps, slowest_bps * (1 - fabric.ack_share()))))
    if len(leaves) > 1:
        if not (fabric.is_tiered and fabric.routing.policy.takes_shortest_ways):
            across, slowest_bps = _apart(fabric, size_bytes)
            groups = [across]
        else:
            ends = zip(leaves, (*leaves[1:], leaves[0]), strict=True)
            across = [Transfer(near[0], far[-1], size_bytes) for near, far in ends]
            groups = _apart_from_acks(across) if fabric.ack_share() > FELT_ACK_SHARE else [across]
            slowest_bps = min([*fabric.host_bps, *(tier.slowest_bps for tier in fabric.tree.tiers)])
        phases += [(group, min(limit_bps, slowest_bps)) for group in groups]
    return phases


def _apart_from_acks(around: list[Transfer]) -> list[list[Transfer]]:
    """Flows from leaf to leaf around all of them, in groups in which no leaf both sends and receives: there, a flow's
    ACKs would share lines with the next flow's data, if the switches happened to hash them so."""
    even, odd = around[: len(around) // 2 * 2 : 2], around[1::2]
    return [group for group in (even, odd, around[len(around) // 2 * 2 :]) if group]


def _apart(fabric: Fabric, size_bytes: int) -> tuple[list[Transfer], float]:
    """Flows between switches of a graph that meet on no line, the shorter ones first; and the rate of the slowest line on their ways.

    Where switches hash connections, each flow has all lines that it may take to itself.
    """
    routes, links = routes_of(fabric), lines_of(fabric)
    leaves = [hosts for hosts in fabric.hosts_of_leaves if hosts]
    ways = [routes.all_lines(near[0], far[-1]) for near in leaves for far in leaves if near is not far]
    taken: set[int] = set()
    found: list[list[int]] = []
    for way in sorted(ways, key=len):
        if taken.isdisjoint(way):
            taken.update(way)
            found.append(way)
    transfers = [Transfer(way[0], way[-1] - fabric.hosts, size_bytes) for way in found]
    return transfers, min(links[line].rate_bps for line in taken)


def incast(hosts: int, size_bytes: int) -> list[Transfer]:
    """Every other host sends to the first."""
    return [Transfer(host, 0, size_bytes) for host in range(1, hosts)]


def outcast(hosts: int, size_bytes: int) -> list[Transfer]:
    """The first host sends to every other."""
    return [Transfer(0, host, size_bytes) for host in range(1, hosts)]


def all_to_all(hosts: int, size_bytes: int) -> list[Transfer]:
    """Every host sends to every other."""
    return [Transfer(a, b, size_bytes) for a in range(hosts) for b in range(hosts) if a != b]


def priority_clash(size_bytes: int, rate_bps: float, *, at_switch: bool) -> list[Transfer]:
    """A high-priority flow (class 0) and a low-priority one (class 1) that meet at a host's own port, or at a switch's
    port towards a host.

    The low flow starts when a tenth of the high one has been sent, so that the high one saturates the port by then. It
    is sent in small messages, so that counting those that arrive measures its share.
    """
    delay_s = size_bytes * 8 / rate_bps / 10
    messages = size_bytes // LOW_MESSAGE_BYTES
    src, dst = (1, 2) if at_switch else (0, 2)
    low = Transfer(src, dst, messages * LOW_MESSAGE_BYTES, 1, delay_s, messages)
    return [Transfer(0, 2 if at_switch else 1, size_bytes), low]


def compile_transfers(name: str, hosts: int, transfers: list[Transfer]) -> Plan:
    """Compiles a plan with one worker per host and one flow per transfer. All flows start after a barrier."""
    builder = PlanBuilder(name)
    ranks = [builder.rank(Role.WORKER, host) for host in range(hosts)]
    begins = [builder.compute(rank) for rank in ranks]
    ends = [builder.compute(rank) for rank in ranks]
    for begin, end in zip(begins, ends, strict=True):
        builder.depend(end, begin)
    for transfer in transfers:
        start = begins[transfer.src]
        if transfer.delay_s:
            start = builder.compute(transfer.src, transfer.delay_s, lane=2)
            builder.depend(start, begins[transfer.src])
        queue = builder.queue(transfer.src)
        for number in range(transfer.messages):
            send, recv = builder.message(
                queue,
                transfer.dst,
                transfer.size_bytes // transfer.messages,
                traffic_class=transfer.traffic_class,
                order=number,
            )
            builder.depend(send, start)
            builder.depend(ends[transfer.src], send)
            builder.depend(ends[transfer.dst], recv)
    _barrier(builder, ranks, begins, ends)
    return builder.build(compute_s=0.0, samples=0)


def _barrier(builder: PlanBuilder, ranks: list[int], begins: list[int], ends: list[int]) -> None:
    all_ended = builder.compute(ranks[0])
    builder.depend(all_ended, ends[0])
    for rank, end in zip(ranks[1:], ends[1:], strict=True):
        send, recv = builder.message(builder.queue(rank), ranks[0], CONTROL_BYTES)
        builder.depend(send, end)
        builder.depend(all_ended, recv)
    builder.depend(begins[0], all_ended, lag=1)
    builder.iteration(ranks[0], begins[0], all_ended)
    for rank, begin in zip(ranks[1:], begins[1:], strict=True):
        send, recv = builder.message(builder.queue(ranks[0]), rank, CONTROL_BYTES)
        builder.depend(send, all_ended)
        builder.depend(begin, recv, lag=1)
        builder.iteration(rank, begin, recv)
