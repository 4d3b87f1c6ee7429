"""Plain traffic patterns as plans: what `calibrate` measures, and the short burst that probes the rate before every run.

Each iteration starts behind a barrier (through rank 0), so that transfers of one iteration never overlap those of the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from topo.fabric import Fabric
from workloads.builder import CONTROL_BYTES, PlanBuilder
from workloads.plan import Plan, Role

LOW_MESSAGE_BYTES = 16_384


@dataclass(frozen=True)
class Transfer:
    """`size_bytes` from host `src` to host `dst` in `messages` equal messages of one class, `delay_s` after the iteration's start."""

    src: int
    dst: int
    size_bytes: int
    traffic_class: int = 0
    delay_s: float = 0.0
    messages: int = 1


def one(size_bytes: int) -> list[Transfer]:
    """One flow."""
    return [Transfer(0, 1, size_bytes)]


def ring(hosts: int, size_bytes: int) -> list[Transfer]:
    """Every host sends to the next one."""
    return [Transfer(host, (host + 1) % hosts, size_bytes) for host in range(hosts)]


def probe_phases(fabric: Fabric, size_bytes: int) -> list[tuple[list[Transfer], float]]:
    """Transfers that use every host's port in both directions at full rate, and an uplink of every leaf; with the rate of each phase.

    In a phase no host both sends and receives, so ACKs have ports to themselves: two segments' ACK takes 2 % of a port where
    segments are not coalesced. Between leaves goes one flow a leaf, so that no two can meet on a link whatever spine they take.
    """
    size = fabric.hosts_per_leaf
    phases: list[tuple[list[Transfer], float]] = []
    if size > 1:
        edges = [(host, (host + 1) % size) for host in range(size)]
        even = size - size % 2
        for chosen in (edges[0:even:2], edges[1:even:2], edges[even:]):
            leaves = range(0, fabric.hosts, size)
            transfers = [Transfer(first + a, first + b, size_bytes) for first in leaves for a, b in chosen]
            phases.append((transfers, fabric.rate_bps))
    leaf_count = fabric.hosts // size
    if leaf_count > 1:
        across = [
            Transfer(leaf * size, ((leaf + 1) % leaf_count) * size + size - 1, size_bytes) for leaf in range(leaf_count)
        ]
        phases.append((across, min(fabric.rate_bps, fabric.uplink_rate_bps)))
    return [(transfers, rate_bps) for transfers, rate_bps in phases if transfers]


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
    """A high flow (class 0) and a low one (class 1) that meet at a host's own port, or at a switch's port towards a host.

    The low one starts when a tenth of the high one has gone, so that the high one saturates the port by then, and in small
    messages, so that counting those that arrive measures its share.
    """
    delay_s = size_bytes * 8 / rate_bps / 10
    messages = size_bytes // LOW_MESSAGE_BYTES
    src, dst = (1, 2) if at_switch else (0, 2)
    low = Transfer(src, dst, messages * LOW_MESSAGE_BYTES, 1, delay_s, messages)
    return [Transfer(0, 2 if at_switch else 1, size_bytes), low]


def compile_transfers(name: str, hosts: int, transfers: list[Transfer]) -> Plan:
    """A plan with one worker a host and one flow a transfer, all starting behind a barrier."""
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
    everyone = builder.compute(ranks[0])
    builder.depend(everyone, ends[0])
    for rank, end in zip(ranks[1:], ends[1:], strict=True):
        send, recv = builder.message(builder.queue(rank), ranks[0], CONTROL_BYTES)
        builder.depend(send, end)
        builder.depend(everyone, recv)
    builder.depend(begins[0], everyone, lag=1)
    builder.iteration(ranks[0], begins[0], everyone)
    for rank, begin in zip(ranks[1:], begins[1:], strict=True):
        send, recv = builder.message(builder.queue(ranks[0]), rank, CONTROL_BYTES)
        builder.depend(send, everyone)
        builder.depend(begin, recv, lag=1)
        builder.iteration(rank, begin, recv)
