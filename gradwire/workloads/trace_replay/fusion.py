"""Fusion: neighbouring all-reduces of a group become one, as DDP's buckets and Horovod's buffer do with gradients.

All-reduces of a group and type of element are taken in the order of their calls. One joins those before it as long as
together they are no larger than the limit and none of them waits for another by way of computations, messages or other
collectives. That one was recorded right behind another, as on a stream of collectives, keeps them not apart: nothing
passes from one to the other. The fused call begins at a rank when all that its parts wait for there has ended, and
what waits for any part waits for all of it. It is as urgent as its most urgent part. Calls of several groups may,
fused, wait for one another where unfused they did not; that is refused.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, replace

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.traces.workload import Int64, Kind, Tasks, Workload


def fuse_calls(workload: Workload, most_bytes: int) -> Workload:
    """The workload with all-reduces fused to at most so many bytes; larger ones stay alone.

    Raises InputFault where fused calls would wait for one another.
    """
    together = _neighbours(_Graph.of(workload), workload, most_bytes)
    if not together:
        return workload
    target = np.arange(len(workload.tasks))
    size = workload.tasks.size_bytes.copy()
    for calls in together:
        for of_rank in zip(*(_by_rank(workload, call) for call in calls), strict=True):
            target[list(of_rank)] = of_rank[0]
            size[of_rank[0]] = workload.tasks.size_bytes[list(of_rank)].sum()
    result = _merge(workload, target, size)
    if len(_Graph.of(result).position) != _Graph.of(result).count:
        raise InputFault(
            f"strategy.options.fuse: all-reduces of '{workload.name}' that are fused up to {most_bytes} bytes would "
            "wait for one another; "
            "take a smaller size, or leave it out"
        )
    return result


class _Graph:
    """What waits for what: a node for each computation and end of a message, and one for each collective."""

    def __init__(self, node: Int64, before: list[list[int]]) -> None:
        #: Node of each task; and by node, those that it waits for.
        self.node, self.before, self.count = node, before, len(before)
        #: Place of each node in an order in which each comes behind what it waits for; without those in a circle.
        self.position = self._order()

    @staticmethod
    def of(workload: Workload) -> _Graph:
        """The graph of a workload."""
        tasks = workload.tasks
        collective = (tasks.group >= 0) & (tasks.call >= 0)
        key = np.where(collective, tasks.call, tasks.call.max(initial=0) + 1 + np.arange(len(tasks)))
        _, node = np.unique(key, return_inverse=True)
        waiting = np.repeat(np.arange(len(tasks)), np.diff(workload.dep_start))
        before: list[list[int]] = [[] for _ in range(int(node.max(initial=-1)) + 1)]
        for task, on in zip(node[waiting].tolist(), node[workload.dep_task].tolist(), strict=True):
            before[task].append(on)
        ends = {kind: np.flatnonzero(tasks.kind == kind) for kind in (Kind.SEND, Kind.RECV)}
        sent = dict(zip(tasks.call[ends[Kind.SEND]].tolist(), node[ends[Kind.SEND]].tolist(), strict=True))
        for call, received in zip(tasks.call[ends[Kind.RECV]].tolist(), node[ends[Kind.RECV]].tolist(), strict=True):
            before[received].append(sent[call])
        return _Graph(node, before)

    def _order(self) -> dict[int, int]:
        after: list[list[int]] = [[] for _ in self.before]
        for node, ons in enumerate(self.before):
            for on in ons:
                after[on].append(node)
        missing = [len(ons) for ons in self.before]
        ready = [node for node, count in enumerate(missing) if not count]
        for node in ready:
            for follower in after[node]:
                missing[follower] -= 1
                if not missing[follower]:
                    ready.append(follower)
        return {node: position for position, node in enumerate(ready)}

    def follows(self, node: int, joined: set[int], first: int) -> bool:
        """Whether a node waits for any of those joined by way of something else; itself it may come right behind them.

        first: the least position of those.
        """
        seen: set[int] = set()
        rest = [on for on in self.before[node] if on not in joined]
        while rest:
            on = rest.pop()
            if on in joined:
                return True
            if on not in seen and self.position[on] > first:
                seen.add(on)
                rest += self.before[on]
        return False


def _neighbours(graph: _Graph, workload: Workload, most_bytes: int) -> list[list[int]]:
    """Calls that become one, in order; only where they are several."""
    tasks = workload.tasks
    reduces = np.flatnonzero(tasks.kind == Kind.ALL_REDUCE)
    _, first = np.unique(tasks.call[reduces], return_index=True)
    of_group: dict[tuple[int, int], list[int]] = defaultdict(list)
    for task in reduces[first].tolist():
        of_group[int(tasks.group[task]), int(tasks.element_bytes[task])].append(task)
    groups: list[list[int]] = []
    for alike in of_group.values():
        joined: list[int] = []
        nodes: set[int] = set()
        least = size = 0
        for task in alike:
            node, size_bytes = int(graph.node[task]), int(tasks.size_bytes[task])
            if size + size_bytes > most_bytes or graph.follows(node, nodes, least):
                joined, nodes, size = [], set(), 0
            least = min(least, graph.position[node]) if joined else graph.position[node]
            joined.append(task)
            nodes.add(node)
            size += size_bytes
            if len(joined) == 2:
                groups.append(joined)
    return [[int(tasks.call[task]) for task in joined] for joined in groups]


def _by_rank(workload: Workload, call: int) -> list[int]:
    of_call = np.flatnonzero(workload.tasks.call == call)
    ordered: list[int] = of_call[np.argsort(workload.tasks.rank[of_call], kind="stable")].tolist()
    return ordered


def _merge(workload: Workload, target: Int64, size_bytes: Int64) -> Workload:
    """The workload in which each task has become `target` of it. Calls are numbered anew, without gaps."""
    kept = np.unique(target)
    new_number = np.full(len(target), -1, np.int64)
    new_number[kept] = np.arange(len(kept))
    waiting = new_number[target[np.repeat(np.arange(len(target)), np.diff(workload.dep_start))]]
    on = new_number[target[workload.dep_task]]
    pairs = np.unique(np.stack([waiting, on], axis=1)[waiting != on], axis=0)
    columns = {f.name: getattr(workload.tasks, f.name) for f in fields(Tasks)}
    if len(columns["priority"]):
        priority = columns["priority"].copy()
        np.maximum.at(priority, target, columns["priority"])
        columns["priority"] = priority
    columns = {name: column[kept] if len(column) else column for name, column in columns.items()}
    calls = columns["call"] >= 0
    columns["call"][calls] = np.unique(columns["call"][calls], return_inverse=True)[1]
    columns["size_bytes"] = size_bytes[kept]
    start = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0], minlength=len(kept)))]).astype(np.int64)
    return replace(workload, tasks=Tasks(**columns), dep_start=start, dep_task=pairs[:, 1])
