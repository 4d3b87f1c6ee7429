"""Puts what the files of several ranks say together into one workload: who takes part in what, and who is missing.

Of each group, the first call of every member is one collective, the second the next, and so on, as communication libraries match them;
messages between two ranks with the same tag likewise. Kinds and sizes must agree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gradwire.workloads.traces.findings import Findings
from gradwire.workloads.traces.record import MOST_RANKS, MOST_TASKS, Call, RankRecord, Reading
from gradwire.workloads.traces.workload import POINT_TO_POINT, ROOTED, UNKNOWN, Int64, Kind, Tasks, Workload

OF_NAME = re.compile(r"(?:^|[._-])(?:rank|npu|gpu|host|device|r)?[._-]?(\d{1,9})$")
"""A rank at the end of a name: `job.3`, `job_rank3`, `npu.3`; not the number of `resnet50`."""


def assembled(name: str, records: Sequence[RankRecord], reading: Reading, findings: Findings) -> Workload | None:
    """The workload of all ranks; None, with the reasons in `findings`, where it would be a guess."""
    for record in records:
        findings.add_all(record.findings.all)
    if not any(record.calls for record in records) and not findings.refused:
        findings.refuse(records[0].file, "", "no communication is recorded")
    if findings.refused:
        return None
    by_rank = _ranked(records, findings)
    world = None if findings.refused else _world(by_rank, reading, findings)
    if findings.refused or world is None:
        return None
    whole = _filled(by_rank, world, findings)
    if findings.refused:
        return None
    return _Assembly(name, whole, world, findings).workload()


def _ranked(records: Sequence[RankRecord], findings: Findings) -> dict[int, RankRecord]:
    """The records by rank: as a file says, or else the number that its name ends in, or 0 for a single file."""
    found: dict[int, RankRecord] = {}
    for record in records:
        rank = record.rank
        if rank is None:
            number = OF_NAME.search(re.sub(r"\.(json|et|gz)\b.*", "", record.path.name))
            if number is None and len(records) > 1:
                findings.refuse(
                    record.file,
                    "",
                    "which rank is it of? The file does not say, and its name ends in no number: call it NAME.RANK.et",
                )
                continue
            rank = int(number[1]) if number else 0
            how = "from the number that its name ends in" if number else "as rank 0"
            findings.note(record.file, "", f"does not say which rank it is of: taken {how}")
        if rank in found:
            findings.refuse(record.file, "", f"is of rank {rank}, as is {found[rank].file}")
        found[rank] = record
    return dict(sorted(found.items()))


def _world(by_rank: dict[int, RankRecord], reading: Reading, findings: Findings) -> int | None:
    """Number of ranks: as the user says, as the files say, or as many as there are files from rank 0 on."""
    said = {record.world: record.file for record in by_rank.values() if record.world is not None}
    if len(said) > 1:
        (one, file), (other, second) = list(said.items())[:2]
        findings.refuse(second, "", f"is of a job of {other} ranks, and {file} of one of {one}")
        return None
    for own, file in said.items():
        if reading.ranks not in (None, own):
            findings.refuse(file, "", f"is of a job of {own} ranks, and --ranks says {reading.ranks}")
            return None
    in_groups = 1 + max(
        (max(ranks) for record in by_rank.values() for ranks in record.groups.values() if ranks), default=-1
    )
    world = reading.ranks or next(iter(said), None) or (in_groups or None)
    if world is None and len(by_rank) > 1 and list(by_rank) == list(range(len(by_rank))):
        world = len(by_rank)
        findings.note(
            "", "", f"the files do not say how many ranks there are: taken as the {world} that there are files of"
        )
    if world is None:
        file = next(iter(by_rank.values())).file
        findings.refuse(file, "", "does not say how many ranks there are: give their number with --ranks")
        return None
    largest = max(in_groups, 1 + max(by_rank))
    if not largest <= world <= MOST_RANKS:
        record = by_rank[max(by_rank)]
        findings.refuse(record.file, "", f"speaks of rank {largest - 1}, and there are {world} ranks" if world < largest else
                        f"{world:,} ranks are more than the {MOST_RANKS:,} that are read")  # fmt: skip
    return world


def _filled(by_rank: dict[int, RankRecord], world: int, findings: Findings) -> list[RankRecord]:
    """A record for every rank. Those without a file get another's, if all communication of that one is among all ranks alike."""
    missing = [rank for rank in range(world) if rank not in by_rank]
    if not missing:
        return [by_rank[rank] for rank in range(world)]
    named = (
        ("rank " if len(missing) == 1 else "ranks ")
        + ", ".join(map(str, missing[:5]))
        + (", ..." if len(missing) > 5 else "")
    )
    source = by_rank[min(by_rank)]
    everyone = set(range(world))
    for call in source.calls.values():
        ranks = set(source.groups.get(call.group, ()) if call.group else everyone)
        if call.kind in POINT_TO_POINT or ranks != everyone:
            what = f"{call.kind.with_article}" + ("" if call.kind in POINT_TO_POINT else f" in a group of {len(ranks)}")
            findings.refuse(
                source.file,
                call.place,
                f"there is no file of {named}, and {what} says nothing of what they do: give the traces of all ranks",
            )
            return []
    if len(source) * world > MOST_TASKS:
        findings.refuse(
            source.file,
            "",
            f"{len(source):,} tasks on each of {world:,} ranks are more than the {MOST_TASKS:,} that are read",
        )
    findings.note(
        source.file, "", f"there is no file of {named} ({len(missing)} of {world}): taken to do what rank {min(by_rank)} does, "
            "whose communication is among all ranks; differences between ranks are lost",
    )  # fmt: skip
    return [by_rank.get(rank, source) for rank in range(world)]


class _Assembly:
    """The tasks of all ranks, numbered one rank after the other."""

    def __init__(self, name: str, records: Sequence[RankRecord], world: int, findings: Findings) -> None:
        self._name, self._records, self._world, self._findings = name, records, world, findings
        self._first = np.concatenate([[0], np.cumsum([len(record) for record in records])]).astype(np.int64)
        count = int(self._first[-1])
        self._group, self._peer, self._call = (np.full(count, UNKNOWN, np.int64) for _ in range(3))
        self._size, self._width = np.zeros(count, np.int64), np.ones(count, np.int64)
        self._groups: dict[tuple[int, ...], int] = {}
        self._calls = 0

    def workload(self) -> Workload | None:
        """The workload; None if calls do not fit together."""
        collectives: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        messages: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for rank, record in enumerate(self._records):
            for number, call in record.calls.items():
                self._take(rank, record, number, call, collectives, messages)
        if not self._findings.refused:
            self._match_collectives(collectives)
            self._match_messages(messages)
        if self._findings.refused:
            return None
        found = self._frozen()
        self._refuse_circles(found)
        return None if self._findings.refused else found

    def _take(
        self, rank: int, record: RankRecord, number: int, call: Call,
        collectives: dict[int, dict[int, list[int]]], messages: dict[tuple[int, int, int], tuple[list[int], list[int]]],
    ) -> None:  # fmt: skip
        task = int(self._first[rank]) + number
        self._size[task], self._width[task], self._peer[task] = call.size_bytes, call.element_bytes, call.peer
        if call.kind in POINT_TO_POINT:
            if not 0 <= call.peer < self._world or call.peer == rank:
                self._findings.refuse(
                    record.file,
                    call.place,
                    f"{call.kind.with_article} of rank {rank} with rank {call.peer} of {self._world}",
                )
                return
            sends = call.kind is Kind.SEND
            pair = (rank, call.peer, call.tag) if sends else (call.peer, rank, call.tag)
            messages[pair][0 if sends else 1].append(task)
            return
        ranks = record.groups[call.group] if call.group else tuple(range(self._world))
        if rank not in ranks or len(set(ranks)) != len(ranks):
            self._findings.refuse(
                record.file,
                call.place,
                f"rank {rank} calls for the group '{call.group}' of the ranks {list(ranks)[:8]}",
            )
            return
        if call.kind in ROOTED and call.peer not in ranks:
            self._peer[task] = ranks[0]
            what = f"{call.kind.with_article} whose root is not recorded: taken as the first rank of its group"
            self._findings.note(record.file, call.place, what)
        group = self._groups.setdefault(ranks, len(self._groups))
        self._group[task] = group
        collectives[group][rank].append(task)

    def _place(self, task: int) -> tuple[str, str]:
        """File and node of a task."""
        rank = int(np.searchsorted(self._first, task, side="right")) - 1
        record = self._records[rank]
        return record.file, record.places[task - int(self._first[rank])]

    def _kind(self, task: int) -> Kind:
        rank = int(np.searchsorted(self._first, task, side="right")) - 1
        return Kind(self._records[rank].kind[task - int(self._first[rank])])

    def _match_collectives(self, collectives: dict[int, dict[int, list[int]]]) -> None:
        for ranks, group in self._groups.items():
            lists = [collectives[group][rank] for rank in ranks]
            counts = {len(tasks) for tasks in lists}
            if len(counts) > 1:
                most, least = max(lists, key=len), min(lists, key=len)
                idle = ranks[lists.index(least)]
                self._findings.refuse(
                    *self._place(most[len(least)]), f"no call of rank {idle} belongs to this one: it has {len(least)} calls in the group "
                    f"of the ranks {list(ranks)[:8]}, and another rank {len(most)}",
                )  # fmt: skip
                continue
            for together in zip(*lists, strict=True):
                self._agree(list(together))

    def _agree(self, tasks: list[int]) -> None:
        """Gives tasks of a collective one number. Refuses those that differ."""
        first = tasks[0]
        for other in tasks[1:]:
            if self._kind(first) is not self._kind(other) or self._size[first] != self._size[other]:
                file, place = self._place(first)
                self._findings.refuse(
                    *self._place(other), f"{self._kind(other).with_article} of {self._size[other]:,} bytes "
                    f"meets {self._kind(first).with_article} of "
                    f"{self._size[first]:,} bytes of {file}, {place}",
                )  # fmt: skip
                return
        self._call[tasks] = self._calls
        self._calls += 1

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
        def column(name: str) -> Int64:
            return np.concatenate([np.array(getattr(record, name), np.int64) for record in self._records])

        sizes = [len(record) for record in self._records]
        waiting = np.concatenate(
            [np.array(r.waiting, np.int64) + f for r, f in zip(self._records, self._first, strict=False)]
        )
        waits_for = np.concatenate(
            [np.array(r.waits_for, np.int64) + f for r, f in zip(self._records, self._first, strict=False)]
        )
        by_task = np.argsort(waiting, kind="stable")
        start = np.zeros(int(self._first[-1]) + 1, np.int64)
        np.cumsum(np.bincount(waiting, minlength=int(self._first[-1])), out=start[1:])
        tasks = Tasks(
            rank=np.repeat(np.arange(len(sizes)), sizes).astype(np.int64),
            kind=column("kind"),
            duration_ns=column("duration_ns"),
            size_bytes=self._size,
            element_bytes=self._width,
            group=self._group,
            peer=self._peer,
            call=self._call,
            stream=column("stream"),
        )
        return Workload(self._name, self._world, tuple(self._groups), tasks, start, waits_for[by_task])

    def _refuse_circles(self, workload: Workload) -> None:
        """Refuses tasks that wait for one another, also across ranks: a collective ends nowhere before it has begun everywhere."""
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
