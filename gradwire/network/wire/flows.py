"""The flows of a plan over the network: TCP connections between two ranks, and multicast flows from a rank to a group.

Both are numbered from the plan alone, so every agent gives a flow the same number, and whoever judges a run knows how
many there were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradwire.datatypes.plan import Plan
from gradwire.datatypes.wire.framing import PORT
from gradwire.network.fabric import band_of_class
from gradwire.network.switch_hash import FlowPorts

FIRST_SOURCE_PORT, SOURCE_PORTS = 8192, 24_576
"""First source port of connections, and how many there are, if switches hash connections: above the port that hosts
listen on, and below those that Linux gives to sockets that ask for none (net.ipv4.ip_local_port_range, 32,768 and
up)."""


@dataclass(frozen=True)
class Connection:
    """One TCP connection, for each send queue, destination rank and traffic class.

    Data flows from `src` to `dst`; only ACKs return.
    """

    number: int
    #: Send queue of the plan.
    queue: int
    src: int
    dst: int
    src_host: int
    dst_host: int
    traffic_class: int

    @property
    def band(self) -> int:
        """Priority band of its data."""
        return band_of_class(self.traffic_class)

    @property
    def ports(self) -> FlowPorts:
        """Its ports, where switches hash them."""
        return ports_of(self.number)


def ports_of(number: int) -> FlowPorts:
    """Ports of a connection, by its number, where switches hash them. So its way is known before it is there."""
    return FlowPorts(FIRST_SOURCE_PORT + number % SOURCE_PORTS, PORT)


@dataclass(frozen=True)
class MulticastFlow:
    """The datagrams of one send queue and traffic class to one multicast group."""

    number: int
    #: Send queue of the plan.
    queue: int
    #: Group of the plan.
    group: int
    traffic_class: int
    src_host: int
    #: Ranks that receive, by host.
    ranks: dict[int, list[int]]


def connections_of(plan: Plan) -> list[Connection]:
    """All connections that the plan needs."""
    host = plan.rank_host
    return [
        Connection(
            number,
            queue,
            src=int(plan.queue_rank[queue]),
            dst=dst,
            src_host=int(host[plan.queue_rank[queue]]),
            dst_host=int(host[dst]),
            traffic_class=traffic_class,
        )
        for number, (queue, dst, traffic_class) in enumerate(plan.connection_keys().tolist(), plan.first_connection)
    ]


def connection_of_send(plan: Plan, connections: list[Connection]) -> dict[int, int]:
    """Number of the connection that carries each SEND to one rank across the network."""
    numbers = {(c.queue, c.dst, c.traffic_class): c.number for c in connections}
    ops, sends = plan.ops, np.flatnonzero(plan.is_remote() & (plan.ops.group == 0))
    keys = zip(ops.lane[sends].tolist(), ops.peer[sends].tolist(), ops.traffic_class[sends].tolist(), strict=True)
    return {send: numbers[key] for send, key in zip(sends.tolist(), keys, strict=True)}


def multicast_flows_of(plan: Plan) -> list[MulticastFlow]:
    """All multicast flows of the plan."""
    flows = []
    ops, sends = plan.ops, np.flatnonzero(plan.ops.group == 1)
    columns = np.column_stack([ops.lane[sends], ops.peer[sends], ops.traffic_class[sends]])
    for number, (queue, group, traffic_class) in enumerate(np.unique(columns, axis=0).tolist()):
        ranks: dict[int, list[int]] = {}
        for rank in plan.group_rank[plan.group_start[group] : plan.group_start[group + 1]].tolist():
            ranks.setdefault(int(plan.rank_host[rank]), []).append(rank)
        src_host = int(plan.rank_host[plan.queue_rank[queue]])
        flows.append(MulticastFlow(number, queue, group, traffic_class, src_host, ranks))
    return flows
