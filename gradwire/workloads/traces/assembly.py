"""Puts what the files of several ranks say together into one workload: who takes part in what, and who is missing.

Of each group, the first call of every member is one collective, the second the next, and so on, as communication
libraries match them; messages between two ranks with the same tag likewise. Kinds and sizes must agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gradwire.workloads.traces.record import (
    AllToAllParts,
    Call,
    Disagreement,
    Findings,
    RankRecord,
    agree_on_parts,
)
from gradwire.workloads.traces.workload import POINT_TO_POINT, ROOTED, UNKNOWN, Int64, Kind, Tasks, Workload


@dataclass(frozen=True)
class _Columns:
    """A record's tasks as arrays, made once for all ranks that it stands for."""

    kind: Int64
    duration_ns: Int64
    stream: Int64
    waiting: Int64
    waits_for: Int64
    #: Numbers of the tasks that communicate, and what each moves.
    call: Int64
    size: Int64
    width: Int64
    priority: Int64
    #: By group, the tasks that communicate in it, and the root of each if it has one.
    of_group: dict[int, tuple[Int64, Int64]]


class Assembly:
    """The tasks of all ranks, numbered one rank after the other."""

    def __init__(self, name: str, records: Sequence[RankRecord], world: int, findings: Findings) -> None:
        self._name, self._records, self._world, self._findings = name, records, world, findings
        self._first = np.concatenate([[0], np.cumsum([len(record) for record in records])]).astype(np.int64)
        count = int(self._first[-1])
        self._group, self._peer, self._call, self._priority = (np.full(count, UNKNOWN, np.int64) for _ in range(4))
        self._size, self._width = np.zeros(count, np.int64), np.ones(count, np.int64)
        #: Parts of the all-to-alls in which they differ, by task; and where those of each task begin in all of them.
        self._parts: dict[int, AllToAllParts] = {}
        self._splits: list[int] = []
        self._split_of: dict[int, int] = {}
        self._groups: dict[tuple[int, ...], int] = {}
        self._calls = 0
        shared = Counter(map(id, records))
        self._columns: dict[int, _Columns] = {}
        for record in records:
            if id(record) not in self._columns:
                self._columns[id(record)] = self._columns_of(record, shared[id(record)])
        self._kind = np.concatenate([self._columns[id(record)].kind for record in records])

    def workload(self) -> Workload | None:
        """The workload; None if calls do not fit together."""
        collectives: dict[int, dict[int, Int64]] = defaultdict(dict)
        messages: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for rank, record in enumerate(self._records):
            self._take(rank, record, collectives)
            self._take_messages(rank, record, messages)
        if not self._findings.refused:
            self._match_collectives(collectives)
            self._match_messages(messages)
        if self._findings.refused:
            return None
        workload = self._frozen()
        self._refuse_circles(workload)
        return None if self._findings.refused else workload

    def _columns_of(self, record: RankRecord, shared: int) -> _Columns:
        """A record's columns. shared: the ranks that it stands for, all of whom its calls count for."""
        numbered = list(record.calls.items())
        names: dict[str, list[tuple[int, Call]]] = {}
        for number, call in numbered:
            if call.kind not in POINT_TO_POINT:
                names.setdefault(call.group, []).append((number, call))
        of_group: dict[int, list[tuple[int, int]]] = {}
        for name, calls in names.items():
            ranks = record.groups[name] if name else tuple(range(self._world))
            if len(set(ranks)) != len(ranks):
                what = f"a call for the group '{name}', whose ranks {list(ranks)[:8]} are not all different"
                self._findings.refuse(record.file, calls[0][1].place, what, len(calls))
                continue
            members = frozenset(ranks)
            matched = of_group.setdefault(self._groups.setdefault(ranks, len(self._groups)), [])
            matched += [(number, self._root(record, call, ranks, members, shared)) for number, call in calls]
        return _Columns(
            kind=_array(record.kind),
            duration_ns=_array(record.duration_ns),
            stream=_array(record.stream),
            waiting=_array(record.waiting),
            waits_for=_array(record.waits_for),
            call=_array([number for number, _ in numbered]),
            size=_array([call.size_bytes for _, call in numbered]),
            width=_array([call.element_bytes for _, call in numbered]),
            priority=_array([call.priority for _, call in numbered]),
            of_group={
                group: (_array([number for number, _ in matched]), _array([root for _, root in matched]))
                for group, matched in ((group, sorted(matched)) for group, matched in of_group.items())
            },
        )

    @cached_property
    def _members(self) -> list[frozenset[int]]:
        """The ranks of each group, all of which are known once all records have been read."""
        return [frozenset(ranks) for ranks in self._groups]

    def _root(
        self, record: RankRecord, call: Call, ranks: tuple[int, ...], members: frozenset[int], shared: int
    ) -> int:
        """The root of a call; UNKNOWN for one of a kind that has none."""
        if call.kind not in ROOTED:
            return UNKNOWN
        if call.peer in members:
            return call.peer
        what = f"{call.kind.with_article} whose root is not recorded: taken as the first rank of its group"
        self._findings.note(record.file, call.place, what, shared)
        return ranks[0]

    def _take(self, rank: int, record: RankRecord, collectives: dict[int, dict[int, Int64]]) -> None:
        """Puts a rank's calls where its tasks are, and its collectives with those of its groups."""
        columns, first = self._columns[id(record)], int(self._first[rank])
        calls = first + columns.call
        self._size[calls], self._width[calls], self._priority[calls] = columns.size, columns.width, columns.priority
        self._parts |= {first + number: call.parts for number, call in record.calls.items() if call.parts is not None}
        for group, (numbers, root) in columns.of_group.items():
            if rank not in self._members[group]:
                ranks = list(self._groups)[group]
                what = f"rank {rank} calls for a group of the ranks {list(ranks)[:8]}, and is none of them"
                self._findings.refuse(record.file, record.calls[int(numbers[0])].place, what, len(numbers))
                continue
            self._group[first + numbers], self._peer[first + numbers] = group, root
            collectives[group][rank] = first + numbers

    def _take_messages(
        self, rank: int, record: RankRecord, messages: dict[tuple[int, int, int], tuple[list[int], list[int]]]
    ) -> None:
        """Puts a rank's messages with those of the same ranks and tag."""
        for number, call in record.calls.items():
            if call.kind not in POINT_TO_POINT:
                continue
            task = int(self._first[rank]) + number
            if not 0 <= call.peer < self._world or call.peer == rank:
                self._findings.refuse(
                    record.file,
                    call.place,
                    f"{call.kind.with_article} of rank {rank} with rank {call.peer} of {self._world}",
                )
                return
            self._peer[task] = call.peer
            sends = call.kind is Kind.SEND
            pair = (rank, call.peer, call.tag) if sends else (call.peer, rank, call.tag)
            messages[pair][0 if sends else 1].append(task)

    def _place(self, task: int) -> tuple[str, str]:
        """File and node of a task."""
        rank = int(np.searchsorted(self._first, task, side="right")) - 1
        record = self._records[rank]
        return record.file, record.places[task - int(self._first[rank])]

    def _match_collectives(self, collectives: dict[int, dict[int, Int64]]) -> None:
        none = np.zeros(0, np.int64)
        for ranks, group in self._groups.items():
            lists = [collectives[group].get(rank, none) for rank in ranks]
            counts = {len(tasks) for tasks in lists}
            if len(counts) > 1:
                most, least = max(lists, key=len), min(lists, key=len)
                idle = ranks[next(index for index, tasks in enumerate(lists) if len(tasks) == len(least))]
                self._findings.refuse(
                    *self._place(int(most[len(least)])),
                    f"no call of rank {idle} belongs to this one: it has {len(least)} calls in the group of the ranks "
                    f"{list(ranks)[:8]}, "
                    f"and another rank {len(most)}",
                )
                continue
            self._agree(np.stack(lists))

    def _agree(self, tasks: Int64) -> None:
        """Gives tasks of collectives, shape (members, calls), one number a call. Refuses those that differ."""
        other_sizes = self._size[tasks] != self._size[tasks[0]]
        other_sizes[:, self._with_parts(tasks)] = False
        differ = (self._kind[tasks] != self._kind[tasks[0]]) | other_sizes
        self._refuse_priorities(tasks[:, ~differ.any(axis=0)])
        for call in np.flatnonzero(differ.any(axis=0)).tolist():
            first, other = int(tasks[0, call]), int(tasks[int(differ[:, call].argmax()), call])
            file, where = self._place(first)
            one, another = (Kind(int(self._kind[task])).with_article for task in (first, other))
            self._findings.refuse(
                *self._place(other),
                f"{another} of {self._size[other]:,} bytes meets {one} of {self._size[first]:,} bytes of {file}, "
                f"{where}",
            )
        self._call[tasks] = self._calls + np.arange(tasks.shape[1])
        self._calls += tasks.shape[1]

    def _with_parts(self, tasks: Int64) -> Int64:
        """The all-to-alls in which a rank has parts of different sizes, whose parts are noted.

        Refuses those that do not agree.
        """
        has_parts = np.isin(tasks, list(self._parts)).any(axis=0) if self._parts else np.zeros(tasks.shape[1], np.bool_)
        uneven = np.flatnonzero(has_parts & (self._kind[tasks] == Kind.ALL_TO_ALL).all(axis=0))
        for call in uneven.tolist():
            tasks_of_call = tasks[:, call].tolist()
            try:
                parts = agree_on_parts(
                    [self._parts.get(task) for task in tasks_of_call], self._size[tasks_of_call].tolist()
                )
            except Disagreement as wrong:
                self._findings.refuse(*self._place(tasks_of_call[wrong.member]), str(wrong))
                continue
            for task, part in zip(tasks_of_call, parts, strict=True):
                self._split_of[task] = len(self._splits)
                self._splits += part.put_in
        return uneven

    def _refuse_priorities(self, tasks: Int64) -> None:
        """Refuses collectives that ranks give different priorities."""
        differ = self._priority[tasks] != self._priority[tasks[0]]
        for call in np.flatnonzero(differ.any(axis=0)).tolist():
            first, other = int(tasks[0, call]), int(tasks[int(differ[:, call].argmax()), call])
            file, where = self._place(first)
            one, another = (
                f"{self._priority[task]}" if self._priority[task] >= 0 else "none" for task in (first, other)
            )
            what = (
                f"of priority {another} here, and of priority {one} in {file}, {where}: which of them does the "
                "call have?"
            )
            self._findings.refuse(*self._place(other), what)

    def _match_messages(self, messages: dict[tuple[int, int, int], tuple[list[int], list[int]]]) -> None:
        for (src, dst, tag), (sends, recvs) in messages.items():
            if len(sends) != len(recvs):
                extra = sends[len(recvs)] if len(sends) > len(recvs) else recvs[len(sends)]
                self._findings.refuse(
                    *self._place(extra),
                    f"rank {src} sends {len(sends)} messages to rank {dst} with tag {tag}, which receives {len(recvs)}",
                )
                continue
            for send, recv in zip(sends, recvs, strict=True):
                if self._size[send] != self._size[recv]:
                    self._findings.refuse(
                        *self._place(recv),
                        f"receives {self._size[recv]:,} bytes of a message of {self._size[send]:,} of rank {src}",
                    )
                    return
                self._call[[send, recv]] = self._calls
                self._calls += 1

    def _frozen(self) -> Workload:
        columns = [self._columns[id(record)] for record in self._records]
        sizes = [len(record) for record in self._records]
        waiting = np.concatenate([c.waiting + f for c, f in zip(columns, self._first, strict=False)])
        waits_for = np.concatenate([c.waits_for + f for c, f in zip(columns, self._first, strict=False)])
        by_task = np.argsort(waiting, kind="stable")
        start = np.zeros(int(self._first[-1]) + 1, np.int64)
        np.cumsum(np.bincount(waiting, minlength=int(self._first[-1])), out=start[1:])
        tasks = Tasks(
            rank=np.repeat(np.arange(len(sizes)), sizes).astype(np.int64),
            kind=self._kind,
            duration_ns=np.concatenate([column.duration_ns for column in columns]),
            size_bytes=self._size,
            element_bytes=self._width,
            group=self._group,
            peer=self._peer,
            call=self._call,
            stream=np.concatenate([column.stream for column in columns]),
            priority=self._priority if (self._priority >= 0).any() else self._priority[:0],
            split=self._split_column(),
        )
        splits = _array(self._splits)
        return Workload(self._name, self._world, tuple(self._groups), tasks, start, waits_for[by_task], splits)

    def _split_column(self) -> Int64:
        if not self._split_of:
            return np.zeros(0, np.int64)
        column = np.full(int(self._first[-1]), UNKNOWN, np.int64)
        column[list(self._split_of)] = list(self._split_of.values())
        return column

    def _refuse_circles(self, workload: Workload) -> None:
        """Refuses tasks that wait for one another, also across ranks: a collective ends nowhere before it has begun
        everywhere."""
        count = len(workload.tasks)
        collective = (workload.tasks.group >= 0) & (workload.tasks.call >= 0)
        node = np.where(collective, count + workload.tasks.call, np.arange(count))
        sends = np.flatnonzero(workload.tasks.kind == Kind.SEND)
        recvs = np.flatnonzero(workload.tasks.kind == Kind.RECV)
        sends = sends[np.argsort(workload.tasks.call[sends])]
        recvs = recvs[np.argsort(workload.tasks.call[recvs])]
        waiting = np.repeat(np.arange(count), np.diff(workload.dep_start))
        source = np.concatenate([node[workload.dep_task], node[sends]])
        target = np.concatenate([node[waiting], node[recvs]])
        nodes = count + self._calls
        graph = coo_array((np.ones(len(source), np.int8), (source, target)), shape=(nodes, nodes))
        _, component = connected_components(graph, connection="strong")
        sizes = np.bincount(component, minlength=1)
        itself = source[source == target]
        circle = np.flatnonzero(sizes[component[node]] > 1)
        if len(itself) or len(circle):
            task = int(np.flatnonzero(node == itself[0])[0]) if len(itself) else int(circle[0])
            self._findings.refuse(
                *self._place(task), "waits, through others, for itself: its dependencies go round in a circle"
            )


def _array(values: npt.ArrayLike) -> Int64:
    return np.array(values, np.int64)
