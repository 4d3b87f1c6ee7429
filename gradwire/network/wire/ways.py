"""The lines that each message of a plan passes. Pure.

Where switches hash connections, the way of a message is that of its connection; else it is that of its two hosts.

Where bursts take all ways in turn, a message passes the lines of all of them, each with a share of it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric
from gradwire.network.routes import SummitOf, routes_of
from gradwire.network.switch_hash import FlowPorts
from gradwire.network.wire.flows import connection_of_send, connections_of, ports_of


class MessageWays:
    """The ways of the messages of one plan. summit_of: as for `routes_of`."""

    def __init__(self, plan: Plan, fabric: Fabric, summit_of: SummitOf | None = None) -> None:
        self._fabric = fabric
        self._plan, self._policy = plan, fabric.routing.policy
        self._routes = routes_of(fabric, summit_of)
        self._found: dict[tuple[int, int, FlowPorts | tuple[int, ...] | None], list[int]] = {}

    def way(self, send: int) -> list[int]:
        """The lines of a SEND to one rank in order, or all of one to a multicast group, or of one whose bursts take all
        ways in turn."""
        source, target = self.ends(send)
        if not self._plan.ops.group[send]:
            return self._single(source, target, send)
        return self._routes.tree(source, self.members(send))

    def shares(self, send: int) -> list[tuple[int, float]]:
        """The lines of a SEND as `way` has them, each with the share of the message that passes it."""
        source, target = self.ends(send)
        expected = None if self._plan.ops.group[send] else self._expected(source, target, send)
        return [(line, 1.0) for line in self.way(send)] if expected is None else expected

    def branch(self, send: int, target: int) -> list[int]:
        """The lines of a SEND to one of its receivers, by host."""
        source, members = self.ends(send)[0], self.members(send)
        if not members:
            return self._single(source, target, send)
        key = (source, target, members)
        if key not in self._found:
            self._found[key] = self._routes.branch(source, target, members)
        return self._found[key]

    def ends(self, send: int) -> tuple[int, int]:
        """The host of a SEND, and that of the rank to which it goes; of a multicast, the number of the group."""
        ops, host = self._plan.ops, self._plan.rank_host
        peer = int(ops.peer[send])
        return int(host[ops.rank[send]]), peer if ops.group[send] else int(host[peer])

    def ports(self, send: int) -> FlowPorts | None:
        """Ports of the connection of a SEND to one rank; None where switches do not hash them."""
        return ports_of(self._connections[send]) if self._policy.hashes_connections else None

    def members(self, send: int) -> tuple[int, ...]:
        """Hosts of the multicast group of a SEND, sorted; empty for a single receiver."""
        plan = self._plan
        if not plan.ops.group[send]:
            return ()
        group = plan.ops.peer[send]
        members = plan.group_rank[plan.group_start[group] : plan.group_start[group + 1]]
        return tuple(np.unique(plan.rank_host[members]).tolist())

    @cached_property
    def _connections(self) -> dict[int, int]:
        return connection_of_send(self._plan, connections_of(self._plan))

    def _single(self, source: int, target: int, send: int) -> list[int]:
        if (expected := self._expected(source, target, send)) is not None:
            return [line for line, _ in expected]
        return self._path(source, target, self.ports(send))

    def _expected(self, source: int, target: int, send: int) -> list[tuple[int, float]] | None:
        return self._policy.shares(self._fabric, source, target, lambda: self._connections[send])

    def _path(self, source: int, target: int, ports: FlowPorts | None) -> list[int]:
        key = (source, target, ports)
        if key not in self._found:
            self._found[key] = self._routes.path(source, target, ports)
        return self._found[key]
