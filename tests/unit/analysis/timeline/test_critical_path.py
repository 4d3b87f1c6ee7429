"""Critical paths of plans small enough to follow by hand, and of every strategy's plans on the simulated network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.timeline.critical_path import CriticalPath, critical_path
from gradwire.analysis.timeline.walk import NETWORK, TimeKind
from gradwire.datatypes.plan import Combine, Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.network.graph_shapes import Linear
from gradwire.network.network_graph import spread
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.job import Job
from tests.shared.parts import in_order, tells
from tests.shared.simulation import replay
from tests.shared.small_allreduces import allreduces, quick
from tests.shared.small_jobs import choices, compiled, jobs

MS = 1_000_000
RATE_BPS = 1538 / 1448 * 8e9
"""1 ns per byte of payload."""
Row = tuple[int, int, int, int, int]
"""iteration, op, nominal start, start, end."""


def log_of(rows: list[Row]) -> OpLog:
    return OpLog(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


def pieces(path: CriticalPath) -> list[tuple[str, int, int]]:
    """Kind, and begin and end in ms since the iteration's begin."""
    origin = path.segments[0].begin_ns
    return [(s.kind.value, (s.begin_ns - origin) // MS, (s.end_ns - origin) // MS) for s in path.segments]


class Push:
    """Two workers compute for different times, push to a server that adds and tells both, which ends the iteration."""

    def __init__(self, seconds: tuple[float, float] = (0.010, 0.030), latency_s: float = 0.0) -> None:
        builder = PlanBuilder("push")
        self.workers = [builder.rank(Role.WORKER, host) for host in range(2)]
        self.server = builder.rank(Role.SERVER, 2)
        chunk = builder.chunk(builder.tensor("fc6/weights"), 8 * MS)
        queues = [builder.queue(worker) for worker in self.workers]
        answers = [builder.queue(self.server) for _ in self.workers]
        self.compute = [builder.compute(w, s, layer=0) for w, s in zip(self.workers, seconds, strict=True)]
        applied = builder.compute(self.server, lane=2)
        self.applied = applied
        self.push, self.pushed, self.add = list[int](), list[int](), list[int]()
        self.tell, self.told, self.end = list[int](), list[int](), list[int]()
        for worker, queue, answer in zip(self.workers, queues, answers, strict=True):
            builder.produces(self.compute[worker], chunk)
            send, recv = builder.message(
                queue,
                self.server,
                8 * MS,
                chunk=chunk,
                combine=Combine.ADD,
                traffic_class=0,
                layer=0,
                latency_s=latency_s,
            )
            builder.depend(send, self.compute[worker])
            add = builder.reduce(self.server, 8 * MS, 4e9, chunk=chunk)
            builder.depend(add, recv)
            builder.depend(applied, add)
            tell, told = builder.message(answer, worker, 64)
            builder.depend(tell, applied)
            end = builder.compute(worker)
            builder.depend(end, told)
            builder.depend(self.compute[worker], end, lag=1)
            builder.iteration(worker, self.compute[worker], end)
            for ops, op in zip(
                (self.push, self.pushed, self.add, self.tell, self.told, self.end),
                (send, recv, add, tell, told, end),
                strict=True,
            ):
                ops.append(op)
        self.plan = builder.build(0.030, 2)

    def iteration(self, number: int, origin_ms: int, ready: tuple[int, int], arrived: tuple[int, int]) -> list[Row]:
        """The log of one iteration: when each worker has computed and when its push has arrived, in ms after the origin."""
        rows: list[Row] = []
        added = list[int]()
        for worker in range(2):
            done, there = ready[worker], arrived[worker]
            rows.append((number, self.compute[worker], 0, 0, done))
            rows.append((number, self.push[worker], done, done, done))
            rows.append((number, self.pushed[worker], there - 1, there - 1, there))
            added.append(max(there, added[-1] if added else 0) + 2)
            rows.append((number, self.add[worker], added[-1] - 2, added[-1] - 2, added[-1]))
        last = max(added)
        rows.append((number, self.applied, last, last, last))
        for worker in range(2):
            rows.append((number, self.tell[worker], last, last, last))
            rows.append((number, self.told[worker], last + 1, last + 1, last + 1))
            rows.append((number, self.end[worker], last + 1, last + 1, last + 1))
        return [(it, op, *((origin_ms + t) * MS for t in times)) for it, op, *times in rows]  # type: ignore[misc]


def test_a_path_through_compute_wire_and_adding() -> None:
    push = Push((0.010, 0.010))
    # Both are ready at 10 ms; their pushes share the server's port and arrive at 26 ms; adding takes 2 ms each.
    log = log_of(push.iteration(0, 0, (10, 10), (26, 26)))
    path = critical_path(push.plan, log, 0)
    # The server adds one after the other, so that the first push is on the path: the second one's addition waits for its stream.
    assert pieces(path) == [
        ("compute", 0, 10),
        ("transfer", 10, 26),
        ("aggregation", 26, 28),
        ("aggregation", 28, 30),
        ("transfer", 30, 31),
    ]
    assert path.shares == pytest.approx(
        {
            "compute": 10 / 31,
            "network": 17 / 31,
            "straggler": 0,
            "aggregation": 4 / 31,
            "latency": 0,
            "local": 0,
            "arrivals": 0,
            "other": 0,
        }
    )
    assert path.duration_ns == 31 * MS == sum(path.kinds_ns.values())


def test_the_line_and_sharing_are_told_apart_where_the_fabric_is_known() -> None:
    push = Push((0.010, 0.010))
    log = log_of(push.iteration(0, 0, (10, 10), (26, 26)))
    path = critical_path(push.plan, log, 0, Fabric(hosts=3, rate_bps=RATE_BPS))
    assert pieces(path)[:3] == [("compute", 0, 10), ("shared port", 10, 18), ("on the line", 18, 26)]
    shares = ("55%", "iteration 0", "network", "32% compute", "13% aggregation")
    assert tells(
        path.sentence(),
        *shares,
        "server 0 waits",
        "fc6/weights",
        "rank 0",
        "h3 in (8.497 Gbit/s)",
        "rank 0 -> server 0 (50%)",
        "rank 1 -> server 0",
    )


def test_others_wait_for_a_straggler_from_the_moment_at_which_they_are_ready() -> None:
    push = Push()
    log = log_of(push.iteration(0, 0, (10, 30), (18, 38)))
    path = critical_path(push.plan, log, 0)
    assert pieces(path) == [
        ("compute", 0, 10),
        ("straggler", 10, 30),
        ("transfer", 30, 38),
        ("aggregation", 38, 40),
        ("transfer", 40, 41),
    ]
    shares = ("49%", "iteration 0", "straggler", "24% compute", "22% network")
    assert tells(path.sentence(), *shares, "half", "rank 1: forward fc6")


def test_a_second_iteration_begins_where_the_first_ended_and_the_slowest_ends_it() -> None:
    push = Push()
    log = log_of(push.iteration(0, 0, (10, 30), (18, 38)) + push.iteration(1, 41, (10, 30), (18, 40)))
    path = critical_path(push.plan, log, 1)
    assert (path.segments[0].begin_ns, path.duration_ns) == (41 * MS, 43 * MS)
    assert all(segment.iteration == 1 for segment in path.segments)


def test_an_unknown_iteration_is_refused() -> None:
    push = Push()
    with pytest.raises(InputFault, match=in_order("iteration 3:", "0 to 0")):
        critical_path(push.plan, log_of(push.iteration(0, 0, (10, 30), (18, 38))), 3)


def test_latency_and_lateness_have_names_of_their_own() -> None:
    push = Push((0.010, 0.010), latency_s=0.002)
    rows = push.iteration(0, 0, (10, 10), (26, 26))
    # Worker 0's agent acts on its computation 1 ms late, and its push waits 2 ms of latency before it starts.
    late = {push.compute[0]: (0, 0, 11 * MS), push.push[0]: (10 * MS, 13 * MS, 13 * MS)}
    path = critical_path(push.plan, log_of([(i, op, *late.get(op, times)) for i, op, *times in rows]), 0)
    assert pieces(path)[:4] == [
        ("compute", 0, 10),
        ("emulator late", 10, 11),
        ("software latency", 11, 13),
        ("transfer", 13, 26),
    ]


def queue_plan() -> tuple[Plan, list[Row]]:
    """A worker sends three tensors through one queue to another, which needs the last one only: each takes 5 ms to hand over."""
    builder = PlanBuilder("queue")
    first, second = builder.rank(Role.WORKER, 0), builder.rank(Role.WORKER, 1)
    queue = builder.queue(first)
    begin = [builder.compute(rank, 0.001) for rank in (first, second)]
    messages = []
    for number in range(3):
        chunk = builder.chunk(builder.tensor(f"fc{number}/weights"), 5 * MS)
        messages.append(
            builder.message(queue, second, 5 * MS, chunk=chunk, combine=Combine.ADD, traffic_class=0, order=number)
        )
        builder.depend(messages[-1][0], begin[0])
    end = [builder.compute(rank) for rank in (first, second)]
    builder.depend(end[0], begin[0])
    builder.depend(end[1], messages[2][1], begin[1])
    for rank in (first, second):
        builder.iteration(rank, begin[rank], end[rank])
    rows: list[Row] = [(0, op, 0, 0, MS) for op in begin] + [(0, end[0], MS, MS, MS)]
    for number, (send, recv) in enumerate(messages):
        started = (1 + 5 * number) * MS
        rows.append((0, send, MS, started, started + 5 * MS))
        rows.append((0, recv, started, started, started + 6 * MS))
    rows.append((0, end[1], 17 * MS, 17 * MS, 17 * MS))
    return builder.build(0.001, 2), rows


def test_a_message_waits_behind_others_in_its_send_queue() -> None:
    plan, rows = queue_plan()
    path = critical_path(plan, log_of(rows), 0, Fabric(hosts=2, rate_bps=RATE_BPS))
    behind = "send queue"
    assert pieces(path) == [
        ("compute", 0, 1), (behind, 1, 6), (behind, 6, 11), ("shared port", 11, 12), ("on the line", 12, 17),
    ]  # fmt: skip
    assert [found.what for found in path.merged()[1:3]] == [f"fc{i}/weights: rank 0 -> rank 1" for i in (0, 1)]
    shares = ("94%", "iteration 0", "network", "6% compute")
    waits = ("rank 1 waits", "fc2/weights from", "rank 0", "fc0/weights -> rank 1", "1 more", behind, "h1 out", "alone")
    assert tells(path.sentence(), *shares, *waits)


def test_a_message_that_waits_for_its_receiver_is_not_on_the_path() -> None:
    """What is added to a gradient that is not there yet does not hold anything up."""
    builder = PlanBuilder("own")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    chunk = builder.chunk(builder.tensor("fc/weights"), 64)
    compute = [builder.compute(rank, seconds, layer=0) for rank, seconds in zip(ranks, (0.001, 0.009), strict=True)]
    send, recv = builder.message(builder.queue(0), 1, 64, chunk=chunk, combine=Combine.ADD, traffic_class=0)
    builder.depend(send, compute[0])
    builder.depend(recv, compute[1])
    end = [builder.compute(rank) for rank in ranks]
    builder.depend(end[0], compute[0])
    builder.depend(end[1], recv)
    for rank in ranks:
        builder.produces(compute[rank], chunk)
        builder.iteration(rank, compute[rank], end[rank])
    plan = builder.build(0.009, 2)
    rows = [(0, compute[0], 0, 0, 1), (0, compute[1], 0, 0, 9), (0, send, 1, 1, 1), (0, recv, 2, 2, 9)]
    rows += [(0, end[0], 1, 1, 1), (0, end[1], 9, 9, 9)]
    path = critical_path(plan, log_of([(i, op, a * MS, b * MS, c * MS) for i, op, a, b, c in rows]), 0)
    assert pieces(path) == [("compute", 0, 1), ("straggler", 1, 9)]


def test_a_control_barrier_has_stragglers_too() -> None:
    builder = PlanBuilder("barrier")
    ranks = [builder.rank(Role.WORKER, host) for host in range(4)]
    compute = [builder.compute(rank, (rank + 1) * 1e-3) for rank in ranks]
    together = builder.compute(0)
    builder.depend(together, compute[0])
    rows = [(0, op, 0, 0, rank + 1) for rank, op in zip(ranks, compute, strict=True)]
    for rank in ranks[1:]:
        send, recv = builder.message(builder.queue(rank), 0, 64)
        builder.depend(send, compute[rank])
        builder.depend(together, recv)
        rows += [(0, send, rank + 1, rank + 1, rank + 1), (0, recv, rank + 2, rank + 2, rank + 2)]
    for rank in ranks:
        builder.iteration(rank, compute[rank], together if rank == 0 else compute[rank])
    rows.append((0, together, 5, 5, 5))
    path = critical_path(
        builder.build(4e-3, 4), log_of([(i, op, a * MS, b * MS, c * MS) for i, op, a, b, c in rows]), 0
    )
    # Workers 0 to 2 are ready after 1, 2 and 3 ms: at 2 ms half of them are.
    assert pieces(path) == [("compute", 0, 2), ("straggler", 2, 4), ("transfer", 4, 5)]


def check_path(plan: Plan, late_ns: int = 0) -> None:
    log = replay(plan, 3, late_ns=late_ns)
    spans_ns = np.rint(iteration_times_s(plan, log, 3) * 1e9).astype(int)
    fabric = Fabric(hosts=max(plan.hosts, 2), rate_bps=1e9, classes=3)
    for iteration in range(3):
        for path in (critical_path(plan, log, iteration), critical_path(plan, log, iteration, fabric)):
            assert path.duration_ns == spans_ns[iteration] == sum(path.kinds_ns.values())
            assert sum(path.shares.values()) == pytest.approx(1)
            begins, ends = ([getattr(s, name) for s in path.segments] for name in ("begin_ns", "end_ns"))
            assert begins[1:] == ends[:-1]
            assert path.kinds_ns[TimeKind.UNEXPLAINED] == 0
            if not late_ns:
                assert path.kinds_ns[TimeKind.LATENESS] == 0
            assert path.sentence().endswith(".")
            assert sum(found.duration_ns for found in path.contributions()) == path.duration_ns
    network_ns = sum(critical_path(plan, log, 2, fabric).kinds_ns[kind] for kind in NETWORK)
    assert network_ns == sum(critical_path(plan, log, 2).kinds_ns[kind] for kind in NETWORK)


@quick
@given(job=jobs, choice=choices)
def test_every_nanosecond_of_a_parameter_server_is_explained(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    check_path(next(iter(compiled(job, *choice).values())))


@quick
@given(case=allreduces(most_workers=5))
def test_every_nanosecond_of_an_allreduce_is_explained(case: tuple[Job, tuple[str, Mapping[str, Any]]]) -> None:
    job, choice = case
    check_path(next(iter(compiled(job, *choice).values())))


@quick
@given(job=jobs, choice=choices)
def test_lateness_breaks_no_sum(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    check_path(next(iter(compiled(job, *choice).values())), late_ns=700)


def test_in_a_graph_messages_may_share_a_line_between_switches() -> None:
    """Hosts 1 and 2 of one switch send to hosts 3 and 4 of the other, each to its own."""
    graph = spread(4, 2, Linear(2).pairs(), RATE_BPS, "two switches")
    fabric = Fabric(4, RATE_BPS, Topology.LINEAR, classes=1, graph=graph)
    builder = PlanBuilder("across")
    ranks = [builder.rank(Role.WORKER, host) for host in range(4)]
    begin = [builder.compute(rank, 0.001) for rank in ranks]
    end = [builder.compute(rank) for rank in ranks]
    messages = []
    for source in (0, 1):
        chunk = builder.chunk(builder.tensor(f"fc{source}/weights"), 5 * MS)
        queue, target = builder.queue(ranks[source]), ranks[source + 2]
        messages.append(builder.message(queue, target, 5 * MS, chunk=chunk, combine=Combine.ADD, traffic_class=0))
        builder.depend(messages[-1][0], begin[source])
        builder.depend(end[source], begin[source])
        builder.depend(end[source + 2], messages[-1][1], begin[source + 2])
    for rank in ranks:
        builder.iteration(rank, begin[rank], end[rank])
    rows: list[Row] = [(0, op, 0, 0, MS) for op in begin] + [(0, end[source], MS, MS, MS) for source in (0, 1)]
    for source, (send, recv) in enumerate(messages):
        arrived = (11 + source) * MS
        rows += [
            (0, send, MS, MS, arrived),
            (0, recv, MS, MS, arrived),
            (0, end[source + 2], arrived, arrived, arrived),
        ]
    path = critical_path(builder.build(0.001, 2), log_of(rows), 0, fabric)
    waited = path.waited
    assert waited is not None
    assert (waited.use.name, waited.is_trunk, waited.use.flows, waited.is_full) == ("s1-s2 to s2", True, 2, True)
    assert [(sharer.name, sharer.tensor) for sharer in waited.use.sharers] == [
        ("rank 0 -> rank 2", "fc0/weights"),
        ("rank 1 -> rank 3", "fc1/weights"),
    ]
    assert sum(sharer.share for sharer in waited.use.sharers) == pytest.approx(1)
    assert "s1-s2 to s2" in path.sentence()
