"""The timeline: a file that trace viewers load, with everything in it where it should be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.link_loads import binned_bytes
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.timeline.line_traffic import LineTraffic
from gradwire.analysis.timeline.trace import trace_events, write_trace
from gradwire.analysis.timeline.tracks import Slice, Track
from gradwire.datatypes.plan import Combine, OpKind, Plan, Role
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, Topology
from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models.profile import LayerKind
from tests.shared import trace_event_format
from tests.shared.parts import in_order
from tests.shared.simulation import replay
from tests.shared.small_allreduces import allreduces, quick
from tests.shared.small_jobs import choices, compiled, job_of, jobs, profile_of

FABRIC = Fabric(hosts=8, rate_bps=8e9 * 1538 / 1448, classes=3)
"""1 ns per byte of payload."""
Event = dict[str, Any]


def of(events: list[Event], phase: str, **wanted: Any) -> list[Event]:
    return [e for e in events if e["ph"] == phase and all(e.get(key) == value for key, value in wanted.items())]


def small() -> tuple[Plan, OpLog]:
    """Two workers and two servers on two hosts; one tensor in two halves, each on its server."""
    profile = profile_of([(LayerKind.FC, [400])])
    (plan,) = compiled(job_of(profile, Cluster(2, 2)), "partition-slicing", {"slice_parameters": 0}).values()
    return plan, replay(plan, 2)


def test_a_small_trace() -> None:
    plan, log = small()
    events = trace_events(plan, log, 1, FABRIC)
    assert trace_event_format.defects({"traceEvents": events}) == []
    processes = {e["pid"]: e["args"]["name"] for e in of(events, "M", name="process_name")}
    assert processes == {
        1: "rank 0 on h1", 2: "rank 1 on h2", 3: "rank 2: server 0 on h1", 4: "rank 3: server 1 on h2", 5: "network: load of links"
    }  # fmt: skip
    names = {(e["pid"], e["args"]["name"]) for e in of(events, "M", name="thread_name")}
    assert names >= {(1, "compute"), (1, "send to server 1"), (1, "receive from server 1"), (4, "receive from rank 0")}
    (forward,) = of(events, "X", name="forward layer0", pid=1)
    (backward,) = of(events, "X", name="backward layer0", pid=1)
    assert (forward["dur"], backward["dur"]) == (1000, 2000)
    assert forward["ts"] + forward["dur"] == pytest.approx(backward["ts"])


def test_an_arrow_goes_from_each_send_to_its_receive() -> None:
    plan, log = small()
    events = trace_events(plan, log, 1, FABRIC)
    sends = [e for e in of(events, "X", cat="send") if e["name"] == "layer0/0/1 -> server 1" and e["pid"] == 1]
    assert [e["args"]["bytes"] for e in sends] == [800]
    index = events.index(sends[0])
    (flow,) = [e for e in events[index : index + 2] if e["ph"] == "s"]
    (end,) = of(events, "f", id=flow["id"])
    taken = events[events.index(end) - 1]
    assert (taken["name"], taken["cat"], taken["pid"]) == ("layer0/0/1 -> server 1", "receive", 4)
    assert taken["ts"] + taken["dur"] == pytest.approx(sends[0]["ts"] + 800 * 20e-3 + 1e-3)
    assert len(of(events, "s")) == len(of(events, "f")) == int((plan.ops.kind == OpKind.RECV).sum())


def test_what_waits_in_a_send_queue_is_seen_waiting() -> None:
    builder = PlanBuilder("queue")
    ranks = [builder.rank(Role.WORKER, host) for host in range(2)]
    queue = builder.queue(0)
    begin = [builder.compute(rank, 1e-6) for rank in ranks]
    for number in range(3):
        chunk = builder.chunk(builder.tensor(f"fc{number}/weights"), 1000)
        builder.produces(begin[0], chunk)
        send, _ = builder.message(queue, 1, 1000, chunk=chunk, combine=Combine.ADD, traffic_class=0, order=number)
        builder.depend(send, begin[0])
    for rank in ranks:
        builder.iteration(rank, begin[rank], begin[rank])
    plan = builder.build(1e-6, 2)
    events = trace_events(plan, replay(plan, 1), 0, FABRIC)
    assert trace_event_format.defects({"traceEvents": events}) == []
    waits = {e["name"]: (e["ts"], e["dur"]) for e in of(events, "X", cat="waiting")}
    assert waits == {"fc1/weights -> rank 1": (1.0, 10.0), "fc2/weights -> rank 1": (1.0, 20.0)}
    counted = [(e["ts"], e["args"]["messages"]) for e in of(events, "C", name="waiting to send to rank 1:")]
    assert counted == [(1.0, 2), (11.0, 1), (21.0, 0)]
    assert {e["name"]: e["args"]["ready_to_start_us"] for e in of(events, "X", cat="send")} == {
        f"fc{i}/weights -> rank 1": 10.0 * i for i in range(3)
    }


@quick
@given(job=jobs, choice=choices)
def test_traces_of_parameter_servers_load(job: Job, choice: tuple[str, Mapping[str, Any]]) -> None:
    check_trace(next(iter(compiled(job, *choice).values())))


@quick
@given(case=allreduces(most_workers=5))
def test_traces_of_allreduces_load(case: tuple[Job, tuple[str, Mapping[str, Any]]]) -> None:
    job, choice = case
    check_trace(next(iter(compiled(job, *choice).values())))


def check_trace(plan: Plan) -> None:
    log = replay(plan, 3)
    for iteration in range(3):
        events = trace_events(plan, log, iteration, FABRIC, bins=7)
        assert trace_event_format.defects({"traceEvents": events}) == []
        drawn = [e for e in of(events, "X", cat="receive") if e["args"]["iteration"] == iteration]
        # A worker that is ahead may have received some of it before the iteration began.
        begin_ns = iteration_ends_ns(plan, log, 3)[iteration]
        ours = (log.iteration == iteration) & (plan.ops.kind[log.op] == OpKind.RECV) & (log.end_ns >= begin_ns)
        assert len(drawn) == int(ours.sum())


def test_the_check_of_traces_finds_what_is_wrong() -> None:
    plan, log = small()
    good = trace_events(plan, log, 1, FABRIC)

    def with_(change: Mapping[str, Any], **wanted: Any) -> list[str]:
        changed = next(e for e in good if all(e.get(key) == value for key, value in wanted.items()))
        return trace_event_format.defects({"traceEvents": [{**e, **change} if e is changed else e for e in good]})

    assert with_({"id": 999_999}, ph="s")
    assert with_({"ts": -1}, ph="X")
    assert with_({"tid": 10_000}, ph="X")
    assert with_({"dur": 1e9}, name="forward layer0")
    assert with_({"ts": 1e9}, ph="X")
    assert with_({"args": {"x": "1"}}, ph="C")
    assert trace_event_format.defects({"displayTimeUnit": "ns", "traceEvents": good})
    assert trace_event_format.defects({"traceEvents": [e for e in good if e["ph"] != "f"]})


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_file_is_json_that_says_what_it_is_of(tmp_path: Path, name: str) -> None:
    plan, log = small()
    path = tmp_path / name
    write_trace(path, trace_events(plan, log, 1, FABRIC), {"point": "a/b"})
    data = path.read_bytes()
    trace = json.loads(gzip.decompress(data) if name.endswith("gz") else data)
    assert trace_event_format.defects(trace) == []
    assert trace["otherData"] == {"point": "a/b"}


def test_an_unknown_iteration_is_refused() -> None:
    plan, log = small()
    with pytest.raises(InputFault, match=in_order("iteration 2:", "0 to 1")):
        trace_events(plan, log, 2, FABRIC)


def test_rows_hold_what_does_not_overlap() -> None:
    spans = [(0, 10), (2, 4), (4, 6), (10, 12), (3, 3), (11, 20)]
    track = Track(0, "x", "x", [Slice(a, b, f"{a}-{b}", {}) for a, b in spans])
    assert [[s.name for s in row] for row in track.rows()] == [["0-10", "10-12"], ["2-4", "4-6", "11-20"], ["3-3"]]
    track.most_rows = 1
    assert [[s.name for s in row] for row in track.rows()] == [["0-10", "10-12"]]


def bins(*messages: tuple[float, float, float]) -> list[float]:
    begun, ended, size = (np.array(column) for column in zip(*messages, strict=True))
    found: list[float] = binned_bytes(np.array([0, 10, 20, 30, 40]), begun, ended, size, 1.0).round(6).tolist()
    return found


def test_bytes_pass_evenly_and_never_faster_than_the_line() -> None:
    assert bins((0, 40, 20)) == [5, 5, 5, 5]
    assert bins((-10, 10, 8)) == [4, 0, 0, 0], "half of it passed before the first bin"
    assert bins((5, 15, 10)) == [5, 5, 0, 0]
    # Both want 10 bytes in the first bin; the one that ended first goes first, and the other catches up.
    assert bins((0, 10, 10), (0, 20, 10)) == [10, 10, 0, 0]
    assert bins((0, 20, 15), (0, 40, 20)) == [10, 10, 7.5, 7.5]


def test_links_of_a_leaf_spine_carry_what_crosses() -> None:
    builder = PlanBuilder("crossing")
    ranks = [builder.rank(Role.WORKER, host) for host in range(4)]
    begin = [builder.compute(rank, 1e-6) for rank in ranks]
    near, far = builder.group([1, 2]), builder.group([2, 3])
    for group in (near, far):
        send, _ = builder.group_message(builder.queue(0), group, 1456, traffic_class=0)
        builder.depend(send, begin[0])
    send, _ = builder.message(builder.queue(3), 0, 1448, traffic_class=0)
    builder.depend(send, begin[3])
    for rank in ranks:
        builder.iteration(rank, begin[rank], begin[rank])
    plan = builder.build(1e-6, 4)
    ops = plan.ops
    log = OpLog(*(np.array(c) for c in zip(*[
        (0, op, *((0, 0, 1000) if ops.kind[op] == OpKind.COMPUTE else (1000, 1000, 9000))) for op in range(len(ops))
    ], strict=True)))  # fmt: skip
    fabric = Fabric(4, 8e9, Topology.LEAF_SPINE, leaves=2, spines=2)
    edges = np.array([0, 10_000])

    def loads(spine: int) -> dict[str, float]:
        found = LineTraffic(LoggedOps.of(plan, log), fabric, lambda _source, _target, _members: spine).loads(edges)
        return {load.name: round(float(load.share[0]) * load.rate_bps / 8e9 * 10_000 / 1538, 6) for load in found}

    frames = loads(1)
    assert (frames["h1 out"], frames["h1 in"], frames["h2 in"], frames["h3 in"], frames["h4 in"]) == (2, 1, 1, 2, 1)
    assert (frames["leaf1-spine2 to spine2"], frames["leaf1-spine2 to leaf1"]) == (2, 1)
    assert (frames["leaf2-spine2 to leaf2"], frames["leaf2-spine2 to spine2"]) == (2, 1)
    assert frames["leaf1-spine1 to spine1"] == 0
    assert loads(0)["leaf1-spine2 to spine2"] == 0
