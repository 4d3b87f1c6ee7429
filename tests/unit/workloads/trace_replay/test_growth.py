"""Traces on more ranks than were recorded: every copy does what was recorded, and groups that grow are those of all
copies."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import OpKind
from gradwire.faults import InputFault
from gradwire.runs.planned import virtual_clock
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import busiest_s, compile_workload
from gradwire.workloads.trace_replay.recorded_job import ALL_RANKS, grow_job, growing_groups
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.workload import FILE_NAME, Kind, Workload
from tests.shared.examples import examples
from tests.shared.parts import in_order, tells
from tests.unit.workloads.traces.random_workloads import workloads
from tests.unit.workloads.traces.small_traces import chakra_file, chakra_node, ddp_step, imported

REAL = os.environ.get("GRADWIRE_REAL_TRACES", "")
RING = routes_of(ReplayOptions())
GROUPS: dict[str, tuple[int, ...]] = {"tp0": (0, 1), "tp1": (2, 3), "dp0": (0, 2), "dp1": (1, 3)}
SCENARIO = """
title = "a recorded step"
cluster.workers = 2
fabric.rate = "25gbit"
model = { name = "recorded", trace = "small" }
strategy.name = "replay"
"""


def sent_of_rank(source: Workload) -> list[int]:
    """Bytes that each rank sends in the compiled plan."""
    plan = compile_workload(source, Cluster(source.ranks), Costs(), RING, min(busiest_s(source)), 0)
    check(plan)
    sends = plan.ops.kind == OpKind.SEND
    sums = np.bincount(plan.ops.rank[sends], plan.ops.size_bytes[sends].astype(np.float64), source.ranks)
    return [int(total) for total in sums]


@settings(max_examples=examples(60), derandomize=True)
@given(workloads(), st.integers(1, 4), st.data())
def test_a_grown_workload_is_a_workload_of_copies(
    tmp_path_factory: pytest.TempPathFactory, of: Workload, copies: int, data: st.DataObject
) -> None:
    chosen = data.draw(st.sets(st.integers(0, len(of.groups) - 1), min_size=1))
    groups = growing_groups(of, chosen)
    more = grow_job(of, copies, groups)
    file = tmp_path_factory.mktemp("grown") / FILE_NAME
    more.save(file)
    assert Workload.load(file).digest() == more.digest()
    count = len(of.tasks)
    assert (more.ranks, len(more.tasks)) == (copies * of.ranks, copies * count)
    assert more.compute_s == pytest.approx(np.tile(of.compute_s, copies))
    for copy in range(copies):
        in_copy = slice(copy * count, (copy + 1) * count)
        assert (more.tasks.rank[in_copy] == of.tasks.rank + copy * of.ranks).all()
        assert (more.tasks.kind[in_copy] == of.tasks.kind).all()
        edges = slice(more.dep_start[in_copy][0], more.dep_start[in_copy][0] + len(of.dep_task)) if count else slice(0)
        assert (more.dep_task[edges] == of.dep_task + copy * count).all()
        for group, ranks in enumerate(of.groups):
            here = more.tasks.group[in_copy][of.tasks.group == group]
            if len(here):
                (number,) = set(here.tolist())
                everywhere = [c * of.ranks + rank for c in range(copies) for rank in ranks]
                alone = [copy * of.ranks + rank for rank in ranks]
                assert list(more.groups[number]) == (everywhere if group in groups else alone)
    kept = of.tasks.kind != Kind.ALL_GATHER
    assert (more.tasks.size_bytes[np.tile(kept, copies)] == np.tile(of.tasks.size_bytes[kept], copies)).all()
    check(compile_workload(more, Cluster(more.ranks), Costs(), RING, min(busiest_s(more)), 0))


def test_data_parallelism_of_two_groups_and_none_of_the_others(tmp_path: Path) -> None:
    """Tensor-parallel groups stay as they are; what they reduce is on no other rank's wire. Rings of N carry 2 (N - 1)
    / N of a buffer."""
    paths = []
    for rank in range(4):
        nodes = [
            chakra_node(1, chakra.COMP, duration_us=50),
            chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=4000, pg_name=f"tp{rank // 2}"),
            chakra_node(3, chakra.COLL, [2], comm_type=0, comm_size=48_000, pg_name=f"dp{rank % 2}"),
        ]
        paths.append(chakra_file(tmp_path / f"{rank}.et", nodes))
    source = imported(*paths, reading=Reading(groups=GROUPS)).workload
    assert source is not None
    assert source.groups == ((0, 1), (0, 2), (1, 3), (2, 3))
    more = grow_job(source, 3, growing_groups(source, [1, 2]))
    assert more.groups[:4] == ((0, 1), (0, 2, 4, 6, 8, 10), (1, 3, 5, 7, 9, 11), (2, 3))
    assert more.groups[4:] == ((4, 5), (6, 7), (8, 9), (10, 11))
    assert sent_of_rank(more) == [4000 + 2 * 5 * 48_000 // 6] * 12
    assert "groups 1, 2" in more.notes[0]


def test_sharded_state_shrinks_and_other_gathers_do_not(tmp_path: Path) -> None:
    """FSDP on two ranks: 1,001 elements a rank of two bytes; with four copies a rank has 250.25 of them, which is
    251."""
    paths = []
    for rank in range(2):
        nodes = [
            chakra_node(1, chakra.COLL, [], comm_type=2, comm_size=2002, pg_name="fsdp"),
            chakra_node(2, chakra.COLL, [1], comm_type=7, comm_size=4004, pg_name="fsdp"),
            chakra_node(3, chakra.COLL, [2], comm_type=2, comm_size=2002, pg_name="other"),
        ]
        for node in nodes:
            node.inputs.values = "[[1, 2, 0, 1001, 2, 'cuda']]"
        paths.append(chakra_file(tmp_path / f"{rank}.et", nodes))
    said: dict[str, tuple[int, ...]] = {"fsdp": (0, 1), "other": (1, 0)}
    outcome = imported(*paths, reading=Reading(groups=said))
    assert outcome.workload is not None, outcome.findings
    source = outcome.workload
    assert source.tasks.element_bytes.tolist() == [2] * 6
    sharded, other = (source.groups.index(said[name]) for name in ("fsdp", "other"))
    more = grow_job(source, 4, (sharded, other))
    gathers = (more.tasks.kind == Kind.ALL_GATHER) & (more.tasks.group == sharded)
    assert set(more.tasks.size_bytes[gathers].tolist()) == {502}
    assert set(more.tasks.size_bytes[more.tasks.group == other].tolist()) == {2002}
    assert set(more.tasks.size_bytes[more.tasks.kind == Kind.REDUCE_SCATTER].tolist()) == {4004}
    assert any("1/4" in note for note in more.notes)
    assert any(tells(note, "all-gathers", "reduce-scatters") for note in more.notes)
    (scattered,) = set(sent_of_rank(more)[:1])
    assert scattered == pytest.approx(7 * 502 + 7 * 4004 / 8 + 7 * 2002, abs=8)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario file with a workload of two ranks beside it."""
    imported(ddp_step().write(tmp_path / "a.json")).write(tmp_path / "small")
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.parametrize("grow", ["all-ranks", "[[0]]", "0", "all-ranks,0"])
def test_a_scenario_grows_its_trace_and_says_how(scenario: Path, grow: str) -> None:
    point = load_scenario(scenario, ["cluster.workers=6", f"model.grow={grow}"]).points[0]
    compiled = compile_point(point.section)
    (plan,) = compiled.plans.values()
    check(plan, compiled.job.relative_times)
    assert len(plan.rank_role) == 6
    assert plan.samples == 6
    assert tells(plan.notes[0], "grown:", "2 recorded ranks", "3 times", "group 0")


def test_as_many_ranks_as_recorded_are_the_recorded_plan(scenario: Path) -> None:
    plans = [
        compile_point(load_scenario(scenario, words).points[0].section).plans
        for words in ([], ["model.grow=all-ranks"])
    ]
    one, other = (plan.digest() for by_label in plans for plan in by_label.values())
    assert one == other


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cluster.workers=4"], "the trace has 2 ranks, and is replayed with as many; to grow it to 4 by data "
        "parallelism, say which"),
        (["cluster.workers=5", "model.grow=all-ranks"], "cluster.workers = 5: the trace has 2 ranks, and grows to a "
        "multiple of them"),
        (["cluster.workers=1", "model.grow=all-ranks"], "cluster.workers = 1: the trace has 2 ranks, and grows to a "
        "multiple of them"),
        (["cluster.workers=4", "model.grow=[[3]]"], "model.grow: the trace has no group 3; it has 0: ranks 0, 1"),
        (["cluster.workers=4", "model.grow=[[-1]]"], "model.grow: the trace has no group -1"),
        (["cluster.workers=4", "model.grow=some"], "model.grow = 'some': must be \"all-ranks\", or a list"),
        (["cluster.workers=4", "model.grow=1,2"], "model.grow: the trace has no group 1; it has 0: ranks 0, 1"),
        (["cluster.workers=4", "model.grow=[[]]"], "model.grow: name at least one group of ranks"),
        (["cluster.stands_for=4"], "cluster.stands_for: a trace's ranks stand for themselves; model.grow"),
    ],
)  # fmt: skip
def test_what_does_not_grow_is_refused(scenario: Path, words: list[str], says: str) -> None:
    with pytest.raises(InputFault) as fault:
        virtual_clock(load_scenario(scenario, words).points)
    assert says in str(fault.value)


def test_only_a_trace_grows(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(
        SCENARIO.replace('trace = "small"', 'device = "k40", grow = "all-ranks"').replace("recorded", "alexnet")
    )
    with pytest.raises(InputFault, match=in_order("grow:", "model.trace")):
        load_scenario(path)


def test_no_group_of_all_ranks(tmp_path: Path) -> None:
    paths = []
    for rank in range(4):
        nodes = [chakra_node(1, chakra.COLL, [], comm_type=0, comm_size=8, pg_name=f"tp{rank // 2}")]
        paths.append(chakra_file(tmp_path / f"{rank}.et", nodes))
    source = imported(*paths, reading=Reading(groups=GROUPS)).workload
    assert source is not None
    with pytest.raises(InputFault, match=in_order("4 ranks:", "0: ranks 0, 1", "1: ranks 2, 3")):
        growing_groups(source, [ALL_RANKS])
    with pytest.raises(InputFault, match=in_order(f"{len(source.tasks)} tasks", "100000000 times")):
        grow_job(source, 10**8, (0,))


@pytest.mark.traces
def test_resnet50_of_two_ranks_on_eight(tmp_path: Path) -> None:
    """DDP's all-reduces of 306.7 MB in three steps: a ring of eight carries 7/8 of them twice, and one of two half of
    them twice."""
    source = imported(Path(REAL) / "hta_ddp_rank0of2_kineto.json.gz").workload
    assert source is not None
    reduced = int(source.tasks.size_bytes[(source.tasks.kind == Kind.ALL_REDUCE) & (source.tasks.rank == 0)].sum())
    assert reduced == 306_684_384
    for copies in (1, 2, 4):
        more = grow_job(source, copies, growing_groups(source, [ALL_RANKS]))
        ranks = 2 * copies
        broadcast = int(source.tasks.size_bytes[(source.tasks.kind == Kind.BROADCAST) & (source.tasks.rank == 0)].sum())
        sent = sent_of_rank(more)
        assert sum(sent) == pytest.approx(2 * (ranks - 1) * reduced + (ranks - 1) * broadcast, abs=0)
        assert sent[-1] == pytest.approx(2 * (ranks - 1) / ranks * reduced, rel=1e-6)
