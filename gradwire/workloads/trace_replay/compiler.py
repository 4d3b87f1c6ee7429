"""Puts a workload and schedules together into a plan in which an iteration is all that was recorded.

A computation becomes a COMPUTE on its rank's stream. A rank's part in a call becomes two ops that take no time,
between which its messages lie: the first waits for what the trace says that the call waits for, and what waits for the
call waits for the second. A rank begins its next iteration when it has ended all of this one.

A trace says how many bytes went among whom, not what was in them. But what a kind of collective leaves with whom is
known, whatever is in the buffers (workloads/engines/collectives/schedule.py). So each part of a call is a chunk, whose
contributors and receivers are members of the call's group: the first op of a contributor yields its contribution, and
the second one of a receiver needs the chunk, whole. A message from rank to rank is a chunk with one of each. The
checker and the agents thereby follow every call. What has no chunk: parts without bytes, where a call has fewer
elements than parts; what a rank sends itself in an all-to-all; and barriers, whose tokens carry no data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.datatypes.plan import Combine, Int64, OpKind, Plan, Role
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.allreduce_transfers import BucketOps, BucketTransfers, Connections, add_switches
from gradwire.workloads.engines.collective_routes import CollectiveRoutes
from gradwire.workloads.engines.collectives.choice import layout_of
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.schedule import Collective, Schedule, part_bytes, promise, sent_bytes
from gradwire.workloads.engines.transfer_counts import transfer_ops
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.traces.record import matrix
from gradwire.workloads.traces.workload import POINT_TO_POINT, UNKNOWN, Kind, Workload

GATE_LANE = 8
"""A stream next to those that compute, in which no time is spent."""
CALL_ORDERS = 1 << 16
"""Numbers that each call has for the order of its messages, more than any schedule has steps."""


@dataclass(frozen=True)
class _Calls:
    """Calls that are alike, shape (calls, ...): of the same kind, group, root and size."""

    kind: Kind
    #: Ranks of the group, in its order.
    members: tuple[int, ...]
    #: Rank that they are from or to; UNKNOWN where there is none.
    root: int
    size_bytes: int
    element_bytes: int
    #: Tasks by call and member.
    task: Int64
    number: Int64
    traffic_class: int = 0
    #: Bytes that each member puts in for each, of an all-to-all in which they differ.
    parts: Int64 | None = None


@dataclass(frozen=True)
class _Sized:
    """Calls that are alike, the place of their root in the group, how they go, and the bytes of each part."""

    calls: _Calls
    root_index: int
    schedule: Schedule
    sizes: Int64


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
    routes: CollectiveRoutes,
    compute_s: float,
    samples: int,
    classes: Int64 | None = None,
    switches: Switches | None = None,
) -> Plan:
    """The plan of a workload, whose collectives go by these routes.

    classes: the traffic class of each task's messages; None: one class for all. switches: those of the network, where
    they add.

    Raises InputFault where an algorithm does not suit a group.
    """
    return _ReplayPlan(workload, cluster, costs, routes, classes, switches).compile(compute_s, samples)


class _ReplayPlan:
    """The plan under construction."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        costs: Costs,
        routes: CollectiveRoutes,
        classes: Int64 | None,
        switches: Switches | None,
    ) -> None:
        self._workload, self._costs, self._routes = workload, costs, routes
        self._class = np.zeros(len(workload.tasks), np.int64) if classes is None else classes
        self._builder = PlanBuilder("replay")
        self._hosts = np.array([cluster.worker_host(rank) for rank in range(workload.ranks)], np.int64)
        for host in self._hosts.tolist():
            self._builder.rank(Role.WORKER, host)
        self._switches = switches
        self._connections = Connections(self._builder, add_switches(self._builder, self._hosts, switches))
        #: The op that begins each task, and the one that ends it.
        self._entry = np.full(len(workload.tasks), UNKNOWN, np.int64)
        self._exit = self._entry.copy()

    def compile(self, compute_s: float, samples: int) -> Plan:
        """Builds the plan."""
        alike = [self._sized(calls) for calls in self._alike()]
        self._expect(alike)
        self._tasks()
        self._messages()
        for sized in alike:
            self._collectives(sized)
        self._dependencies()
        self._builder.notes.extend(self._routes.notes())
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

    def _messages(self) -> None:
        """Messages between two ranks."""
        tasks, builder = self._workload.tasks, self._builder
        sends, recvs = (np.flatnonzero(tasks.kind == kind) for kind in POINT_TO_POINT)
        sends, recvs = (chosen[np.argsort(tasks.call[chosen], kind="stable")] for chosen in (sends, recvs))
        carries = tasks.size_bytes[sends] > 0
        sends, recvs = sends[carries], recvs[carries]
        if not len(sends):
            return
        size = tasks.size_bytes[sends]
        alone = np.array([builder.members([rank]) for rank in range(self._workload.ranks)], np.int64)
        chunks = builder.chunk_columns(
            builder.tensor("messages"), size, alone[tasks.rank[sends]], alone[tasks.rank[recvs]]
        )
        builder.produces_columns(self._entry[sends], np.array(chunks))
        builder.needs_columns(self._exit[recvs], np.array(chunks))
        # A message is a broadcast of its sender's to its receiver.
        pair = Schedule(2, 1, np.array([[0, 1, 0, 0, Combine.COPY, 0, 1]], np.int64))
        ends = BucketOps(
            number=tasks.call[sends],
            layer=np.full(len(sends), -1),
            started=np.stack([self._entry[sends], self._entry[recvs]], axis=1),
            done=np.stack([self._exit[sends], self._exit[recvs]], axis=1),
            size_bytes=size[:, None],
            chunk=np.array(chunks)[:, None],
            members=np.stack([tasks.rank[sends], tasks.rank[recvs]], axis=1),
            taken_in_late=True,
            orders=CALL_ORDERS,
            traffic_class=self._class[sends],
        )
        BucketTransfers(builder, self._costs, self._connections, pair, ends).build()

    def _alike(self) -> list[_Calls]:
        """The collectives by kind, group and size."""
        tasks = self._workload.tasks
        collective = np.flatnonzero((tasks.group >= 0) & (tasks.call >= 0))
        collective = collective[np.argsort(tasks.call[collective], kind="stable")]
        _, starts = np.unique(tasks.call[collective], return_index=True)
        alike: dict[tuple[int, ...], list[Int64]] = defaultdict(list)
        split = tasks.split if len(tasks.split) else np.full(len(tasks), UNKNOWN, np.int64)
        for members in np.split(collective, starts[1:]) if len(collective) else []:
            first = members[0]
            columns = (tasks.kind, tasks.group, tasks.peer, tasks.size_bytes, tasks.element_bytes, self._class, split)
            alike[tuple(int(column[first]) for column in columns)].append(members)
        same = []
        for (kind, group, root, size, element, traffic_class, parted), calls in alike.items():
            ranks = self._workload.groups[group]
            by_rank = np.argsort(np.argsort(np.array(ranks)))
            task = np.stack(calls)
            task = task[np.arange(len(task))[:, None], np.argsort(tasks.rank[task], axis=1)][:, by_rank]
            number = tasks.call[task[:, 0]]
            parts = None if parted < 0 else matrix(self._workload.splits, tasks.split[task[0]])
            largest = size if parts is None else int(parts.sum(axis=1).max())
            same.append(_Calls(Kind(kind), ranks, root, largest, element, task, number, traffic_class, parts))
        return same

    def _sized(self, calls: _Calls) -> _Sized:
        """How calls that are alike go, and the bytes of each part."""
        kind, members = Collective[calls.kind.name], len(calls.members)
        layout = layout_of(calls.members, self._hosts.tolist(), self._switches)
        root_index = calls.members.index(calls.root) if calls.root in calls.members else 0
        schedule = self._routes.schedule(kind, layout, root_index, calls.size_bytes, len(calls.task))
        if kind is Collective.BARRIER:
            sizes = np.array([CONTROL_BYTES], np.int64)
        elif calls.parts is not None:
            sizes = np.where(np.eye(members, dtype=np.bool_), 0, calls.parts).ravel()
        else:
            sizes = part_bytes(kind, members, schedule.parts, calls.size_bytes, calls.element_bytes)
            sizes = sent_bytes(schedule, sizes)
        return _Sized(calls, root_index, schedule, sizes)

    def _expect(self, alike: Sequence[_Sized]) -> None:
        """Says how many ops this will be."""
        tasks, ranks = self._workload.tasks, self._workload.ranks
        computes = int((tasks.kind == Kind.COMPUTE).sum())
        messages = int(((tasks.kind == POINT_TO_POINT[0]) & (tasks.size_bytes > 0)).sum())
        ops = computes + 2 * (len(tasks) - computes) + 2 * messages + 2 * ranks
        for sized in alike:
            members = len(sized.calls.members)
            ops += len(sized.calls.task) * transfer_ops(sized.schedule, sized.sizes[None, :], self._costs, members)
        self._builder.expect(ops)

    def _collectives(self, sized: _Sized) -> None:
        """The chunks and messages of calls that are alike, and what each waits for."""
        calls, root_index, schedule, sizes = sized.calls, sized.root_index, sized.schedule, sized.sizes
        kind, members = Collective[calls.kind.name], len(calls.members)
        shape = len(calls.task), schedule.parts
        # Switches have the ranks behind those of all workers.
        ranks = [*calls.members, *range(self._workload.ranks, self._workload.ranks + schedule.ranks - members)]
        buckets = BucketOps(
            number=calls.number,
            layer=np.full(len(calls.task), -1),
            started=self._entry[calls.task],
            done=self._exit[calls.task],
            size_bytes=np.broadcast_to(sizes, shape),
            chunk=self._chunks(kind, root_index, calls, sizes),
            members=np.broadcast_to(np.array(ranks), (len(calls.task), len(ranks))),
            taken_in_late=True,
            orders=CALL_ORDERS,
            gate_lane=GATE_LANE,
            traffic_class=np.full(len(calls.task), calls.traffic_class),
        )
        BucketTransfers(self._builder, self._costs, self._connections, schedule, buckets).build()

    def _chunks(self, kind: Collective, root_index: int, calls: _Calls, sizes: Int64) -> Int64:
        """A chunk for each call and part that is not empty, with who contributes to it and who needs it; -1 for the
        others."""
        builder, promised = self._builder, promise(kind, len(calls.members), root_index)
        chunk_of = np.full((len(calls.task), len(sizes)), -1, np.int64)
        parts = np.flatnonzero(sizes > 0)
        if not promised.blocks or not len(parts):
            return chunk_of
        of_part = parts % promised.blocks
        contributors, receivers = (
            np.array([builder.members([calls.members[i] for i in places]) for places in sets])[of_part]
            for sets in (promised.contributors, promised.receivers)
        )
        tensors = [builder.tensor(f"{kind} {number}") for number in calls.number.tolist()]
        chunks = builder.chunk_columns(
            np.repeat(tensors, len(parts)),
            np.tile(sizes[parts], len(tensors)),
            np.tile(contributors, len(tensors)),
            np.tile(receivers, len(tensors)),
        )
        chunk_of[:, parts] = np.array(chunks).reshape(len(tensors), len(parts))
        for sets, ops, state in (
            (promised.contributors, self._entry, builder.produces_columns),
            (promised.receivers, self._exit, builder.needs_columns),
        ):
            member_sets = [np.array(sets[block], np.int64) for block in of_part.tolist()]
            member, part = (
                np.concatenate(member_sets),
                np.repeat(parts, [len(member_set) for member_set in member_sets]),
            )
            state(ops[calls.task[:, member]].ravel(), chunk_of[:, part].ravel())
        return chunk_of

    def _dependencies(self) -> None:
        """Adds the dependencies that the trace has, and the begin and end of each rank's iteration."""
        workload, builder = self._workload, self._builder
        count = len(workload.tasks)
        waits = np.diff(workload.dep_start)
        waiting = np.repeat(np.arange(count), waits)
        builder.depend_columns(self._entry[waiting], self._exit[workload.dep_task])
        is_waited_for = np.zeros(count, np.bool_)
        is_waited_for[workload.dep_task] = True
        for rank in range(workload.ranks):
            on_rank = workload.tasks.rank == rank
            begin, end = builder.compute(rank, lane=GATE_LANE), builder.compute(rank, lane=GATE_LANE)
            builder.depend_columns(self._entry[on_rank & (waits == 0)], begin)
            builder.depend_columns(end, self._exit[on_rank & ~is_waited_for])
            builder.depend(end, begin)
            builder.depend(begin, end, lag=1)
            builder.iteration(rank, begin, end)
