"""Traffic classes of replayed calls: from recorded priorities, and from how soon something waits for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.analysis.fluid.estimate import estimate
from gradwire.datatypes.plan import CONTROL_CLASS, OpKind, Plan
from gradwire.faults import InputFault
from gradwire.runs.planned import virtual_clock
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.trace_replay.urgency import classes_as_recorded, classes_by_need, slacks_ns
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.formats.chakra_writing import write_chakra
from gradwire.workloads.traces.workload import FILE_NAME, Kind, Workload
from tests.shared.examples import examples
from tests.shared.simulation import replay
from tests.shared.small_jobs import compiled, job_of, profile_of
from tests.unit.workloads.traces.random_workloads import workloads
from tests.unit.workloads.traces.small_traces import chakra_file, chakra_node, finds, imported, words

SCENARIO = """
title = "two calls at once"
cluster.workers = 2
fabric.rate = "10gbit"
model = { name = "recorded", trace = "small" }
strategy.name = "replay"
"""


def reduction(number: int, after: list[int], size: int = 4000, **said: Any) -> Any:
    return chakra_node(number, chakra.COLL, after, comm_type=0, comm_size=size, **said)


def workload(folder: Path, nodes: list[Any], ranks: int = 2) -> Workload:
    """All ranks with the same nodes."""
    outcome = imported(*(chakra_file(folder / f"{rank}.et", nodes) for rank in range(ranks)))
    assert outcome.workload is not None, words(outcome)
    return outcome.workload


def backward_pass(folder: Path) -> Workload:
    """Three buckets, each reduced as soon as it is there. The next forward pass begins with the last one's layer."""
    nodes = [
        chakra_node(1, chakra.COMP, duration_us=100),
        reduction(2, [1]),
        chakra_node(3, chakra.COMP, [1], duration_us=100),
        reduction(4, [3]),
        chakra_node(5, chakra.COMP, [3], duration_us=100),
        reduction(6, [5]),
        chakra_node(7, chakra.COMP, [5, 6], duration_us=30),
        chakra_node(8, chakra.COMP, [7, 4], duration_us=40),
        chakra_node(9, chakra.COMP, [8, 2], duration_us=50),
    ]
    return workload(folder, nodes)


def test_slack_by_hand(tmp_path: Path) -> None:
    """The last bucket is waited for at once; the second begins at 200 us and is needed at 330 us; the first at 100 us,
    needed at 370 us."""
    assert slacks_ns(backward_pass(tmp_path)).tolist() == [270_000, 130_000, 0]


@pytest.mark.parametrize(("classes", "expected"), [(2, [1, 0, 0]), (3, [2, 1, 0]), (4, [2, 1, 0])])
def test_calls_are_divided_by_their_slack(tmp_path: Path, classes: int, expected: list[int]) -> None:
    source = backward_pass(tmp_path)
    by_task = classes_by_need(source, classes)
    by_call = [set(by_task[source.tasks.call == call].tolist()) for call in range(3)]
    assert by_call == [{level} for level in expected]
    assert set(by_task[source.tasks.call < 0].tolist()) == {0}


def test_urgency_is_passed_on_through_calls_and_points_in_time(tmp_path: Path) -> None:
    """The first call holds up the second, which a computation waits for; and a call that nobody waits for has until
    the end."""
    nodes = [
        chakra_node(1, chakra.COMP, duration_us=10),
        reduction(2, [1]),
        chakra_node(3, chakra.METADATA, [2]),
        reduction(4, [3]),
        reduction(5, [1]),
        chakra_node(6, chakra.COMP, [1], duration_us=200),
        chakra_node(7, chakra.COMP, [4, 6], duration_us=20),
    ]
    assert slacks_ns(workload(tmp_path, nodes)).tolist() == [200_000, 200_000, 220_000]


def test_the_latest_rank_starts_a_call_and_the_soonest_waits(tmp_path: Path) -> None:
    """Rank 0 comes at 10 us and waits at 60 us; rank 1 comes at 30 us and waits at 230 us. A message is its sender's
    from the start."""
    nodes = {
        rank: [
            chakra_node(1, chakra.COMP, duration_us=10 + 20 * rank),
            reduction(2, [1]),
            chakra_node(3, chakra.COMP, [1], duration_us=50 + 150 * rank),
            chakra_node(4, chakra.COMP, [2, 3], duration_us=5),
        ]
        for rank in range(2)
    }
    nodes[0].append(chakra_node(5, chakra.SEND, [1], comm_size=8, comm_dst=1))
    nodes[1].append(chakra_node(5, chakra.RECV, [3], comm_size=8, comm_src=0))
    nodes[1].append(chakra_node(6, chakra.COMP, [5, 4], duration_us=5))
    outcome = imported(*(chakra_file(tmp_path / f"{rank}.et", of_rank) for rank, of_rank in nodes.items()))
    assert outcome.workload is not None
    assert slacks_ns(outcome.workload).tolist() == [30_000, 225_000]


def test_a_stream_computes_one_task_at_a_time(tmp_path: Path) -> None:
    """Three kernels of 100 us that wait for nothing take 300 us on one stream: the last, which waits for the call,
    begins at 200 us."""
    nodes = [
        reduction(1, []),
        chakra_node(2, chakra.COMP, duration_us=100),
        chakra_node(3, chakra.COMP, duration_us=100),
        chakra_node(4, chakra.COMP, [1, 2], duration_us=100),
    ]
    assert slacks_ns(workload(tmp_path, nodes)).tolist() == [200_000]


@settings(max_examples=examples(60), derandomize=True)
@given(workloads(), st.integers(2, 15))
def test_any_workload_has_slack_and_classes(source: Workload, classes: int) -> None:
    slack_ns = slacks_ns(source)
    assert len(slack_ns) == int(source.tasks.call.max(initial=-1)) + 1
    assert (slack_ns >= 0).all()
    assert (slack_ns <= source.tasks.duration_ns.clip(0).sum()).all()
    by_task = classes_by_need(source, classes)
    assert ((by_task >= 0) & (by_task < classes)).all()
    plan = compile_workload(
        source, Cluster(source.ranks), Costs(), routes_of(ReplayOptions()), min(busiest_s(source)), 0, by_task
    )
    check(plan)
    one = compile_workload(
        source, Cluster(source.ranks), Costs(), routes_of(ReplayOptions()), min(busiest_s(source)), 0
    )
    assert sorted(plan.ops.size_bytes.tolist()) == sorted(one.ops.size_bytes.tolist())


def test_recorded_priorities_become_classes_the_larger_first(tmp_path: Path) -> None:
    nodes = [
        chakra_node(1, chakra.COMP, duration_us=10),
        reduction(2, [1], comm_priority=3),
        reduction(3, [1], comm_priority=70),
        reduction(4, [1]),
        chakra_node(5, chakra.COLL, [2, 3, 4], comm_type=9),
    ]
    source = workload(tmp_path, nodes)
    assert source.tasks.priority[source.tasks.rank == 0].tolist() == [-1, 3, 70, -1, -1]
    source.save(tmp_path / FILE_NAME)
    again = Workload.load(tmp_path / FILE_NAME)
    assert again.digest() == source.digest()
    by_task = classes_as_recorded(again)
    assert by_task[again.tasks.rank == 1].tolist()[:4] == [0, 1, 0, 2]
    plan = compile_workload(again, Cluster(2), Costs(), routes_of(ReplayOptions()), min(busiest_s(again)), 0, by_task)
    check(plan)
    sends = plan.ops.kind == OpKind.SEND
    assert {
        (int(order) >> 16, int(its_class))
        for order, its_class in zip(plan.ops.order[sends], plan.ops.traffic_class[sends], strict=True)
    } == {(0, 1), (1, 0), (2, 2), (3, CONTROL_CLASS)}  # fmt: skip
    assert len(set(plan.ops.lane[sends & (plan.ops.rank == 0)].tolist())) == 3, "a class waits in another's queue"


@pytest.mark.parametrize("wrong", [-1, 2**31, "high"])
def test_a_priority_that_is_none(tmp_path: Path, wrong: Any) -> None:
    outcome = imported(
        *(chakra_file(tmp_path / f"{rank}.et", [reduction(1, [], comm_priority=wrong)]) for rank in range(2))
    )
    assert finds(outcome, f"node 1: comm_priority {wrong}:", "0 to 2^31")


def test_ranks_that_differ_on_a_priority_are_refused(tmp_path: Path) -> None:
    paths = [chakra_file(tmp_path / f"{rank}.et", [reduction(1, [], comm_priority=rank)]) for rank in range(2)]
    assert finds(imported(*paths), "node 1:", "priority 1", "priority 0")


def test_a_plans_classes_are_written_as_priorities_and_come_back(tmp_path: Path) -> None:
    """Geryon's coarse rule has two classes, and control messages a third: after an import, as many, in the same
    order."""
    job = job_of(profile_of([("fc", [3000]), ("conv", [500])]), Cluster(2, 2))  # type: ignore[list-item]
    plan: Plan = next(iter(compiled(job, "geryon", {"slice_parameters": 0, "rule": "coarse"}).values()))
    used = sorted(set(plan.ops.traffic_class[plan.ops.kind == OpKind.SEND].tolist()))
    assert len(used) > 1
    outcome = imported(*write_chakra(tmp_path / "run", plan, replay(plan), 1))
    assert outcome.workload is not None, words(outcome)
    tasks = outcome.workload.tasks
    sends = tasks.kind == Kind.SEND
    by_class = {
        its: plan.ops.size_bytes[(plan.ops.kind == OpKind.SEND) & (plan.ops.traffic_class == its)].sum() for its in used
    }
    again = classes_as_recorded(outcome.workload)
    for level, its in enumerate(used):
        assert tasks.size_bytes[sends & (again == level)].sum() == by_class[its]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """Two reductions that start at once: 20 MB that are waited for last, and 5 MB that are waited for first."""
    nodes = [
        chakra_node(1, chakra.COMP, duration_us=100),
        reduction(2, [1], size=20_000_000, comm_priority=1),
        reduction(3, [1], size=5_000_000, comm_priority=2),
        chakra_node(4, chakra.COMP, [3], duration_us=20_000),
        chakra_node(5, chakra.COMP, [4, 2], duration_us=100),
    ]
    imported(*(chakra_file(tmp_path / f"{rank}.et", nodes) for rank in range(2))).write(tmp_path / "small")
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.parametrize(
    ("words_of", "classes"), [(["priorities=recorded"], 2), (["priorities=needed-first", "classes=5"], 5)]
)
def test_a_scenario_has_the_classes_that_its_trace_needs(scenario: Path, words_of: list[str], classes: int) -> None:
    """In one queue, the 5 MB that are needed first are through when all 25 MB are; served first, they are 20 MB
    sooner."""
    plain = compile_point(load_scenario(scenario).points[0].section)
    point = compile_point(load_scenario(scenario, [f"strategy.options.{word}" for word in words_of]).points[0].section)
    assert (plain.fabric.classes, point.fabric.classes) == (1, classes)
    (one,), (other,) = plain.plans.values(), point.plans.values()
    check(other, point.job.relative_times)
    assert other.notes[0].startswith("priorities ")
    sooner_s = estimate(one, plain.fabric).iteration_s - estimate(other, point.fabric).iteration_s
    assert sooner_s == pytest.approx(20e6 * 8 / (10e9 * point.fabric.goodput_share()), rel=0.05)


@pytest.mark.parametrize(
    ("settings_of", "says"),
    [
        (["strategy.options.priorities=high"], "strategy.options.priorities = 'high'"),
        (["strategy.options.classes=3"], "classes = 3: needs priorities = 'needed-first'"),
        (
            ["strategy.options.priorities=recorded", "strategy.options.classes=3"],
            "classes = 3: needs priorities = 'needed-first'",
        ),
        (["strategy.options.priorities=needed-first", "strategy.options.classes=16"], "strategy.options.classes = 16"),
        (
            ["strategy.options.priorities=needed-first", "fabric.classes=3"],
            "fabric.classes = 3: strategy 'replay' needs at least 4",
        ),
    ],
)
def test_wrong_options_are_refused(scenario: Path, settings_of: list[str], says: str) -> None:
    with pytest.raises(InputFault) as fault:
        virtual_clock(load_scenario(scenario, settings_of).points)
    assert says in str(fault.value)


@pytest.mark.parametrize(
    ("count", "says"),
    [(0, "the trace has no priorities"), (16, "the trace has 16 distinct priorities, and a fabric at most 15")],
)
def test_priorities_that_cannot_be_classes(tmp_path: Path, count: int, says: str) -> None:
    said: list[dict[str, Any]] = [{"comm_priority": priority} for priority in range(count)] or [{}]
    nodes = [reduction(number, [], **attributes) for number, attributes in enumerate(said, start=1)]
    imported(*(chakra_file(tmp_path / f"{rank}.et", nodes) for rank in range(2))).write(tmp_path / "small")
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    with pytest.raises(InputFault, match=r"strategy\.options\.priorities = 'recorded'") as fault:
        virtual_clock(load_scenario(path, ["strategy.options.priorities=recorded"]).points)
    assert says in str(fault.value)
