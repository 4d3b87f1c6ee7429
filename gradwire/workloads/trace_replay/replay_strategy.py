"""The strategy `replay`: a recorded workload at its recorded scale, with collective algorithms of the user's choice.

With `fuse`, neighbouring all-reduces of a group become one, as DDP's buckets and Horovod's buffer do with gradients.
All-reduces of a group and type of element are taken in the order of their calls. One joins those before it as long as
together they are no larger than the limit and none of them waits for another by way of computations, messages or other
collectives. That one was recorded right behind another, as on a stream of collectives, keeps them not apart: nothing
passes from one to the other. The fused call begins at a rank when all that its parts wait for there has ended, and
what waits for any part waits for all of it. It is as urgent as its most urgent part. Calls of several groups may,
fused, wait for one another where unfused they did not; that is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from gradwire.datatypes.plan import Int64, Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.collective_routes import (
    ONLY,
    CollectiveRoutes,
    Rule,
    names_of,
    option_of,
    rule_of,
    rule_type,
)
from gradwire.workloads.engines.collectives.choice import AUTO, PIECE_BYTES, adds_in_network
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.options import NCCL, NcclKeys, setup_of
from gradwire.workloads.fields import SizeBytes
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import Options, Strategy
from gradwire.workloads.trace_replay.compiler import compile_workload
from gradwire.workloads.trace_replay.urgency import (
    MOST_CLASSES,
    classes_as_recorded,
    classes_by_need,
    recorded_priorities,
)
from gradwire.workloads.traces.workload import Kind, Tasks, Workload

NAME = "replay"
DEFAULT_CLASSES = 4
"""Default number of traffic classes for priorities "needed-first"."""
IN_RINGS = ("all_reduce", "all_gather", "reduce_scatter")


class ReplayOptions(NcclKeys):
    """The algorithm of each kind of collective (docs/collectives.md), and the calls that go first.

    Gathers, scatters and barriers have one algorithm only.
    """

    all_reduce: rule_type(Collective.ALL_REDUCE) = "ring"  # type: ignore[valid-type]
    """Algorithm of all-reduces."""
    all_gather: rule_type(Collective.ALL_GATHER) = "ring"  # type: ignore[valid-type]
    """Algorithm of all-gathers."""
    reduce_scatter: rule_type(Collective.REDUCE_SCATTER) = "ring"  # type: ignore[valid-type]
    """Algorithm of reduce-scatters."""
    all_to_all: rule_type(Collective.ALL_TO_ALL) = "direct"  # type: ignore[valid-type]
    """Algorithm of all-to-alls."""
    broadcast: rule_type(Collective.BROADCAST, Collective.REDUCE) = "tree"  # type: ignore[valid-type]
    """Algorithm of broadcasts and of reductions to one rank."""
    channels: int = Field(1, ge=1, le=64)
    """Rings that all-reduces, all-gathers and reduce-scatters by "ring" are divided among, each over separate
    connections."""
    piece: SizeBytes = Field(PIECE_BYTES, ge=1)
    """Bytes that a double tree, or the ring of a broadcast or reduction, passes on at a time."""
    fuse: SizeBytes | None = Field(None, ge=1)
    """Neighbouring all-reduces of a group are made one as long as they are not larger than this together, and none of
    them waits for another. None: each stays as it was recorded."""
    priorities: Literal["none", "recorded", "needed-first"] = "none"
    """Which calls the network serves first: all alike; by the priorities that the trace has (Chakra's
    `comm_priority`); or those first that something waits for soonest after their start, by the trace's own
    durations."""
    classes: int | None = Field(None, ge=2, le=MOST_CLASSES)
    """With priorities = "needed-first": traffic classes, among which calls are divided evenly; 4 by default."""

    @property
    def goes_by_nccl(self) -> bool:
        """Returns whether NCCL chooses for any collective."""
        return any(NCCL in rule.algorithms for rule in rules_of(self).values())

    @model_validator(mode="after")
    def _classes_have_an_effect(self) -> Self:
        if self.classes is not None and self.priorities != "needed-first":
            raise ValueError(f"classes = {self.classes}: needs priorities = 'needed-first'")
        return self

    @property
    def needed_classes(self) -> int:
        """Classes that the options alone ask for; recorded priorities need as many as the trace has (`classes_of`)."""
        return (self.classes or DEFAULT_CLASSES) if self.priorities == "needed-first" else 1


def classes_of(trace: Workload, options: Options) -> int:
    """Traffic classes that a trace needs from the fabric. Raises InputFault where it has no priorities, or too many."""
    if not isinstance(options, ReplayOptions):
        return 1
    if options.priorities == "recorded":
        return len(recorded_priorities(trace))
    return options.needed_classes


def _classify(trace: Workload, options: ReplayOptions) -> tuple[Int64 | None, tuple[str, ...]]:
    """Returns the class of each task's messages, and notes for the plan; None if there is one class. Raises
    InputFault."""
    if options.priorities == "recorded":
        distinct = recorded_priorities(trace).tolist()
        shown = ", ".join(f"class {number}: {priority}" for number, priority in enumerate(distinct))
        return classes_as_recorded(trace), (f"priorities as recorded, the larger first: {shown}",)
    if options.priorities == "needed-first":
        count = options.needed_classes
        return classes_by_need(trace, count), (
            f"priorities by need: calls in order of their slack, evenly in {count} classes",
        )
    return None, ()


def compile_replay(job: Job, options: ReplayOptions) -> Mapping[str, Plan]:
    """The plan of the job's trace. Raises InputFault without one."""
    if job.trace is None:
        raise InputFault("strategy.name = 'replay': there is nothing to replay: give model.trace, or another strategy")
    trace = job.trace if options.fuse is None else fuse_calls(job.trace, options.fuse)
    classes, notes = _classify(trace, options)
    routes, adding = routes_of(options, job), adds_in_network_by(options)
    switches = Switches.of(job) if adding else None
    plan = compile_workload(trace, job.cluster, job.costs, routes, job.compute_s, job.samples, classes, switches)
    return {NAME: replace(plan, notes=(*job.trace.notes, *notes, *plan.notes))}


def rules_of(options: ReplayOptions) -> dict[Collective, Rule]:
    """The rule of each kind that has a choice."""
    return {kind: rule_of(getattr(options, option_of(kind)), names_of(kind)) for kind in Collective if kind not in ONLY}


def adds_in_network_by(options: ReplayOptions) -> bool:
    """Returns whether switches have to add for any collective."""
    return any(adds_in_network(kind, rule.algorithms) for kind, rule in rules_of(options).items())


def routes_of(options: ReplayOptions, job: Job | None = None) -> CollectiveRoutes:
    """Returns the routes of collectives that the options ask for; with NCCL's choice, for a job. Raises InputFault for
    channels if no collective goes in rings."""
    rules = rules_of(options)
    named = {name for kind, rule in rules.items() if option_of(kind) in IN_RINGS for name in rule.algorithms}
    if options.channels > 1 and not named & {"ring", AUTO}:
        raise InputFault(
            f"strategy.options.channels = {options.channels}: nothing goes by ring; leave it out, "
            f"or set one of {', '.join(IN_RINGS)} to 'ring'"
        )
    nccl = setup_of(job, options.nccl) if job is not None and options.goes_by_nccl else None
    return CollectiveRoutes(rules, options.piece, options.channels, nccl)


REPLAY = Strategy(
    name=NAME,
    summary="a recorded workload (model.trace), its collectives by the algorithms of the options",
    source="docs/traces.md",
    options=ReplayOptions,
    compile=compile_replay,
    classes=lambda options: options.needed_classes,
    aggregators=adds_in_network_by,
    needs_servers=False,
)


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
    """The dependencies of a workload: a node for each computation and end of a message, and one for each collective."""

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
        """Returns whether a node waits for any of `joined` by way of other nodes; it may itself wait directly for one.

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
    """Returns the workload in which each task is merged into the task that `target` has for it. Calls are numbered
    anew, without gaps."""
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
