"""Puts a workload and routes together into a plan in which an iteration is all that was recorded.

A computation becomes a COMPUTE on its rank's stream. A rank's part in a call becomes two ops that take no time, between which its messages
lie: the first waits for what the trace says that the call waits for, and what waits for the call waits for the second. A rank begins its
next iteration when it has ended all of this one.

The messages name no chunk. A plan's chunks follow the contributions of all workers to every tensor, which a data-parallel strategy must
deliver; a trace says how many bytes went among whom, not what was in them, and its groups are parts of all ranks. So the checker sees to
everything but contributions: that messages, bytes and dependencies fit, and that all ops get their turn. That routes deliver what their
kinds promise is shown by itself (tests/unit/workloads/traces/replay/test_routes.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.plan import CONTROL_CLASS, Int64, OpKind, Plan, Role
from gradwire.workloads.traces.replay.routes import Route, part_sizes, route_of
from gradwire.workloads.traces.workload import POINT_TO_POINT, UNKNOWN, Kind, Workload

REDUCE_LANE, GATE_LANE = 1, 8
"""Streams beside those that compute: adding, and one in which no time is spent."""


@dataclass(frozen=True)
class _Calls:
    """Calls with the same route and parts, shape (calls, ...)."""

    kind: Kind
    #: Tasks by call and member.
    task: Int64
    number: Int64
    size_bytes: Int64
    element_bytes: Int64
    traffic_class: int = 0


def busiest_s(workload: Workload) -> tuple[float, ...]:
    """Seconds that each rank's busiest stream computes: what it would need if nothing else kept it waiting."""
    tasks = workload.tasks
    computes = tasks.kind == Kind.COMPUTE
    streams = int(tasks.stream.max(initial=0)) + 1
    key = tasks.rank[computes] * streams + tasks.stream[computes]
    spent = np.bincount(key, tasks.duration_ns[computes], workload.ranks * streams) / 1e9
    return tuple(spent.reshape(workload.ranks, streams).max(axis=1).tolist())


def compile_workload(
    workload: Workload,
    cluster: Cluster,
    costs: Costs,
    algorithms: Mapping[Kind, str],
    compute_s: float,
    samples: int,
    classes: Int64 | None = None,
) -> Plan:
    """The plan of a workload, whose collectives go by these algorithms.

    classes: the traffic class of each task's messages; None: one class for all. Raises InputFault where an algorithm does not suit a group.
    """
    return _Compiler(workload, cluster, costs, algorithms, classes).compile(compute_s, samples)


class _Compiler:
    """The plan under construction."""

    def __init__(
        self, workload: Workload, cluster: Cluster, costs: Costs, algorithms: Mapping[Kind, str], classes: Int64 | None
    ) -> None:
        self._workload, self._costs, self._algorithms = workload, costs, algorithms
        self._class = np.zeros(len(workload.tasks), np.int64) if classes is None else classes
        self._builder = PlanBuilder("replay")
        self._hosts = np.array([cluster.worker_host(rank) for rank in range(workload.ranks)], np.int64)
        for host in self._hosts.tolist():
            self._builder.rank(Role.WORKER, host)
        self._queues: dict[int, int] = {}
        #: The op that begins each task, and the one that ends it.
        self._entry = np.full(len(workload.tasks), UNKNOWN, np.int64)
        self._exit = self._entry.copy()

    def compile(self, compute_s: float, samples: int) -> Plan:
        """Builds everything."""
        self._tasks()
        self._messages()
        for calls in self._alike():
            self._collectives(calls)
        self._dependencies()
        return self._builder.build(compute_s, samples)

    def _tasks(self) -> None:
        """The ops of computations, and both ends of all other tasks."""
        tasks, builder = self._workload.tasks, self._builder
        computes = np.flatnonzero(tasks.kind == Kind.COMPUTE)
        ops = builder.add_columns(
            OpKind.COMPUTE,
            len(computes),
            rank=tasks.rank[computes],
            duration_ns=tasks.duration_ns[computes],
            lane=np.maximum(tasks.stream[computes], 0),
            order=computes,
        )
        self._entry[computes] = self._exit[computes] = np.array(ops, np.int64)
        calls = np.flatnonzero(tasks.kind != Kind.COMPUTE)
        for ends in (self._entry, self._exit):
            ops = builder.add_columns(OpKind.COMPUTE, len(calls), rank=tasks.rank[calls], lane=GATE_LANE, order=calls)
            ends[calls] = np.array(ops, np.int64)
        builder.depend_columns(self._exit[calls], self._entry[calls])

    def _queue_of(self, src: Int64, dst: Int64, traffic_class: Int64) -> Int64:
        """The send queue of each pair of ranks and class: one per connection, so that neither a receiver nor a class holds up another."""
        ranks = self._workload.ranks
        key = (np.maximum(traffic_class, 0) * ranks + src) * ranks + dst
        for pair in np.unique(key).tolist():
            if pair not in self._queues:
                self._queues[pair] = self._builder.queue(pair // ranks % ranks)
        distinct, index = np.unique(key, return_inverse=True)
        found: Int64 = np.array([self._queues[pair] for pair in distinct.tolist()], np.int64)[index]
        return found

    def _send(self, src: Int64, dst: Int64, size: Int64, order: Int64, traffic_class: Int64) -> tuple[Int64, Int64]:
        """Adds messages; returns their SENDs and RECVs. Inside a machine they take its own link."""
        inside = self._hosts[src] == self._hosts[dst]
        costs = self._costs
        link_s = np.where(inside, size / costs.local_bytes_per_s, 0.0)
        latency_s = np.where(inside, costs.latency_s(inside=True), costs.message_latency_s)
        first = self._builder.add_columns(OpKind.SEND, 0).start
        numbers = np.arange(first, first + len(src))
        sends = self._builder.add_columns(
            OpKind.SEND,
            len(src),
            rank=src,
            peer=dst,
            lane=self._queue_of(src, dst, traffic_class),
            size_bytes=size,
            duration_ns=np.rint((link_s + latency_s) * 1e9).astype(np.int64),
            order=order,
            message=numbers,
            traffic_class=traffic_class,
        )
        recvs = self._builder.add_columns(
            OpKind.RECV,
            len(src),
            rank=dst,
            peer=src,
            size_bytes=size,
            message=numbers,
            traffic_class=traffic_class,
            combine=1,
        )
        return np.array(sends, np.int64), np.array(recvs, np.int64)

    def _messages(self) -> None:
        """Messages between two ranks."""
        tasks = self._workload.tasks
        sends, recvs = (np.flatnonzero(tasks.kind == kind) for kind in POINT_TO_POINT)
        sends, recvs = (own[np.argsort(tasks.call[own], kind="stable")] for own in (sends, recvs))
        carries = tasks.size_bytes[sends] > 0
        sends, recvs = sends[carries], recvs[carries]
        sent, received = self._send(
            tasks.rank[sends], tasks.rank[recvs], tasks.size_bytes[sends], tasks.call[sends] << 16, self._class[sends]
        )
        self._builder.depend_columns(sent, self._entry[sends])
        self._builder.depend_columns(self._exit[sends], sent)
        self._builder.depend_columns(received, self._entry[recvs])
        self._builder.depend_columns(self._exit[recvs], received)

    def _alike(self) -> list[_Calls]:
        """The collectives by kind, group and size."""
        tasks = self._workload.tasks
        collective = np.flatnonzero((tasks.group >= 0) & (tasks.call >= 0))
        collective = collective[np.argsort(tasks.call[collective], kind="stable")]
        _, starts = np.unique(tasks.call[collective], return_index=True)
        alike: dict[tuple[int, ...], list[Int64]] = defaultdict(list)
        for members in np.split(collective, starts[1:]) if len(collective) else []:
            first = members[0]
            columns = (tasks.kind, tasks.group, tasks.peer, tasks.size_bytes, tasks.element_bytes, self._class)
            alike[tuple(int(column[first]) for column in columns)].append(members)
        found = []
        for (kind, group, _, _, _, traffic_class), calls in alike.items():
            ranks = self._workload.groups[group]
            by_rank = np.argsort(np.argsort(np.array(ranks)))
            task = np.stack(calls)[:, by_rank]
            first = task[:, 0]
            sizes = tasks.size_bytes[first], tasks.element_bytes[first]
            found.append(_Calls(Kind(kind), task, tasks.call[first], *sizes, traffic_class))
        return found

    def _collectives(self, calls: _Calls) -> None:
        """The messages of calls that are alike, and what each waits for."""
        route, sizes = self._routed(calls)
        ranks = self._workload.tasks.rank[calls.task]
        src, dst = ranks[:, route.src], ranks[:, route.dst]
        order = (calls.number[:, None] << 16) + route.step[None, :]
        size = np.broadcast_to(sizes, src.shape)
        traffic_class = np.full(src.size, CONTROL_CLASS if calls.kind is Kind.BARRIER else calls.traffic_class)
        sends, recvs = self._send(src.ravel(), dst.ravel(), size.ravel(), order.ravel(), traffic_class)
        sent, received = sends.reshape(src.shape), recvs.reshape(src.shape)
        arrived = self._added(received, dst, size, route)
        begin, end = self._entry[calls.task], self._exit[calls.task]
        waits, depend = route.waits(), self._builder.depend_columns
        for ops, on in (
            (sent[:, waits.first_sends], begin[:, route.src[waits.first_sends]]),
            (sent[:, waits.sends], arrived[:, waits.send_waits_for]),
            (received[:, waits.first_arrivals], begin[:, route.dst[waits.first_arrivals]]),
            (received[:, waits.arrivals], arrived[:, waits.arrival_waits_for]),
            (end[:, route.src], sent),
            (end[:, route.dst], arrived),
        ):
            depend(ops.ravel(), on.ravel())

    def _routed(self, calls: _Calls) -> tuple[Route, Int64]:
        """The route of calls, without messages that would carry nothing, and the size of each message."""
        kind, size = calls.kind, int(calls.size_bytes[0])
        ranks = self._workload.tasks.rank[calls.task[0]].tolist()
        root = int(self._workload.tasks.peer[calls.task[0, 0]])
        rooted = ranks.index(root) if root in ranks else 0
        route = route_of(kind, self._algorithms.get(kind, "direct"), len(ranks), rooted)
        if kind is Kind.BARRIER:
            return route, np.full(len(route.rows), CONTROL_BYTES, np.int64)
        sizes = route.sizes(part_sizes(kind, size, int(calls.element_bytes[0]), route.parts))
        return route.only(sizes > 0), sizes[sizes > 0]

    def _added(self, received: Int64, dst: Int64, size: Int64, route: Route) -> Int64:
        """The ops at which messages have taken effect: their RECVs, or REDUCEs behind them where adding takes time."""
        rate = self._costs.aggregation_bytes_per_s
        adds = np.flatnonzero(route.adds)
        if np.isinf(rate) or not len(adds):
            return received
        amount = size[:, adds].ravel()
        reduces = self._builder.add_columns(
            OpKind.REDUCE,
            len(amount),
            rank=dst[:, adds].ravel(),
            duration_ns=np.rint(amount / rate * 1e9).astype(np.int64),
            size_bytes=amount,
            lane=REDUCE_LANE,
        )
        self._builder.depend_columns(np.array(reduces), received[:, adds].ravel())
        arrived = received.copy()
        arrived[:, adds] = np.array(reduces, np.int64).reshape(-1, len(adds))
        return arrived

    def _dependencies(self) -> None:
        """What the trace says that waits for what; and the begin and end of each rank's iteration."""
        workload, builder = self._workload, self._builder
        count = len(workload.tasks)
        waits = np.diff(workload.dep_start)
        waiting = np.repeat(np.arange(count), waits)
        builder.depend_columns(self._entry[waiting], self._exit[workload.dep_task])
        is_waited_for = np.zeros(count, np.bool_)
        is_waited_for[workload.dep_task] = True
        for rank in range(workload.ranks):
            own = workload.tasks.rank == rank
            begin, end = builder.compute(rank, lane=GATE_LANE), builder.compute(rank, lane=GATE_LANE)
            builder.depend_columns(self._entry[own & (waits == 0)], begin)
            builder.depend_columns(end, self._exit[own & ~is_waited_for])
            builder.depend(end, begin)
            builder.depend(begin, end, lag=1)
            builder.iteration(rank, begin, end)
