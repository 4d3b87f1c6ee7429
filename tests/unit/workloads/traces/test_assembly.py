"""Ranks put together: who is missing, what belongs together, and what does not fit."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.datatypes.plan import OpKind
from gradwire.faults import InputFault
from gradwire.workloads.checker import check
from gradwire.workloads.job import Cluster, Costs
from gradwire.workloads.trace_replay.compiler import compile_workload
from gradwire.workloads.trace_replay.recorded_job import ALL_RANKS, grow_job, growing_groups
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, routes_of
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.trace_import import Imported
from gradwire.workloads.traces.workload import Workload
from tests.shared.parts import tells
from tests.unit.workloads.traces.small_traces import (
    KinetoFile,
    chakra_file,
    chakra_node,
    ddp_step,
    finds,
    imported,
    words,
)

PAIRS: dict[str, tuple[int, ...]] = {"tp0": (0, 1), "tp1": (2, 3), "dp0": (0, 2), "dp1": (1, 3)}


def of_ranks(folder: Path, nodes: dict[int, list[Any]], reading: Reading | None = None) -> Imported:
    paths = [chakra_file(folder / f"r{rank}.et", of_rank) for rank, of_rank in nodes.items()]
    return imported(*paths, reading=reading)


def collective(number: int, group: str, size_bytes: int = 8, kind: int = 0, after: list[int] | None = None) -> Any:
    return chakra_node(number, chakra.COLL, after or [], comm_type=kind, comm_size=size_bytes, pg_name=group)


def test_calls_of_groups_and_messages_get_their_numbers(tmp_path: Path) -> None:
    nodes = {rank: [collective(1, f"tp{rank // 2}"), collective(2, f"dp{rank % 2}", 16)] for rank in range(4)}
    nodes[0].append(chakra_node(3, chakra.SEND, comm_size=5, comm_dst=3))
    nodes[3].append(chakra_node(3, chakra.RECV, comm_size=5, comm_src=0))
    outcome = of_ranks(tmp_path, nodes, Reading(groups=PAIRS))
    assert outcome.workload is not None, words(outcome)
    tasks = outcome.workload.tasks
    together = [sorted(tasks.rank[tasks.call == call].tolist()) for call in range(int(tasks.call.max()) + 1)]
    assert sorted(together) == [[0, 1], [0, 2], [0, 3], [1, 3], [2, 3]]
    assert outcome.summary is not None
    assert sum(row.size_bytes for row in outcome.summary.rows) == 2 * 8 + 2 * 16 + 5


def test_ranks_without_a_file_are_filled_only_where_all_are_alike(tmp_path: Path) -> None:
    outcome = of_ranks(tmp_path, {0: [collective(1, "")]}, Reading(ranks=3))
    assert outcome.workload is not None
    assert np.bincount(outcome.workload.tasks.rank).tolist() == [1, 1, 1]
    assert finds(outcome, "no file", "1, 2 (2 of 3)")
    grouped = of_ranks(tmp_path, {0: [collective(1, "tp0")]}, Reading(ranks=4, groups=PAIRS))
    assert tells(grouped.refusals[0].words, "r0.et: node 1:", "1, 2, 3", "all-reduce", "group of 2")
    sending = of_ranks(tmp_path, {0: [chakra_node(1, chakra.SEND, comm_size=5, comm_dst=1)]}, Reading(ranks=2))
    assert tells(sending.refusals[0].words, "rank 1", "a send")


def test_ranks_that_are_given_must_be_those_that_files_say(tmp_path: Path) -> None:
    outcome = imported(ddp_step(0).write(tmp_path / "a.json"), reading=Reading(ranks=4))
    assert tells(outcome.refusals[0].words, "a.json:", "2 ranks", "--ranks says 4")


@pytest.mark.parametrize(
    ("name", "rank"),
    [("job.3.et", 3), ("job_rank3.et", 3), ("npu.3.et", 3), ("3.et", 3), ("resnet50.et", 0), ("job.et", 0)],
)
def test_the_rank_of_a_single_file_by_its_name(tmp_path: Path, name: str, rank: int) -> None:
    path = chakra_file(tmp_path / name, [chakra_node(1, chakra.SEND, comm_size=5, comm_dst=1)])
    outcome = imported(path, reading=Reading(ranks=4))
    missing = ", ".join(str(other) for other in range(4) if other != rank)
    assert f"ranks {missing}, and" in outcome.refusals[0].words


def test_files_whose_names_do_not_say_their_ranks_are_refused(tmp_path: Path) -> None:
    outcome = imported(*(chakra_file(tmp_path / f"{name}.et", [collective(1, "")]) for name in ("a", "b")))
    assert "which rank" in outcome.refusals[0].words


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    outcome = imported(ddp_step(0).write(tmp_path / "a.json"), ddp_step(0).write(tmp_path / "b.json"))
    assert tells(outcome.refusals[0].words, "b.json:", "rank 0", "a.json")


def test_calls_that_differ_are_refused_with_both_places(tmp_path: Path) -> None:
    outcome = of_ranks(tmp_path, {0: [collective(1, "")], 1: [collective(4, "", 12)]})
    assert outcome.workload is None
    first = f"{tmp_path / 'r0.et'}, node 1"
    assert finds(outcome, "r1.et: node 4:", "all-reduce of 12", "all-reduce of 8", first)


def test_calls_of_the_same_size_and_another_kind_are_refused(tmp_path: Path) -> None:
    outcome = of_ranks(tmp_path, {0: [collective(1, "")], 1: [collective(4, "", kind=2)]})
    assert finds(outcome, "r1.et: node 4:", "all-gather of 8", "all-reduce of 8")


def test_a_call_that_one_rank_lacks_is_refused(tmp_path: Path) -> None:
    outcome = of_ranks(tmp_path, {0: [collective(1, ""), collective(2, "")], 1: [collective(1, "")]})
    assert tells(outcome.refusals[0].words, "r0.et: node 2:", "rank 1")


def test_a_message_that_nobody_receives_is_refused(tmp_path: Path) -> None:
    nodes = {0: [chakra_node(1, chakra.SEND, comm_size=5, comm_dst=1)], 1: [chakra_node(1, chakra.COMP)]}
    said = of_ranks(tmp_path, nodes, Reading(ranks=2)).refusals[0].words
    assert tells(said, "rank 0 sends 1", "rank 1", "tag 0", "receives 0")


def test_a_circle_across_ranks_is_refused(tmp_path: Path) -> None:
    """Each rank waits for another collective first."""
    nodes = {
        0: [collective(1, "a"), collective(2, "b", after=[1])],
        1: [collective(1, "a", after=[2]), collective(2, "b")],
    }
    outcome = of_ranks(tmp_path, nodes, Reading(groups={"a": (0, 1), "b": (1, 0)}))
    assert "in a circle" in outcome.refusals[0].words


SPLITS = ([1, 5, 0], [2, 2, 2], [3, 0, 1])
"""Rows that each of three ranks puts in for each."""
ROW_BYTES = 8


def of_experts(folder: Path, **said: Any) -> Imported:
    """An all-to-all of profiles of three ranks, with rows of two floats."""
    paths = []
    for rank, of_rank in enumerate(SPLITS):
        got = [other[rank] for other in SPLITS]
        trace = KinetoFile(rank, range(3))
        listed: dict[str, Any] = {
            "In split size": str(list(of_rank)),
            "Out split size": str(got),
            "Out msg nelems": 2 * sum(got),
            "Process Group Ranks": "[0, 1, 2]",
            "Group size": 3,
        } | (said if rank == 1 else {})
        trace.collective("all_to_allv", 2 * sum(of_rank), at=0, begin=10, dur=5, **listed)
        paths.append(trace.write(folder / f"{rank}.json"))
    return imported(*paths)


@pytest.mark.parametrize("algorithm", ["direct", "pairwise"])
def test_parts_of_different_sizes_are_replayed_as_recorded(tmp_path: Path, algorithm: str) -> None:
    outcome = of_experts(tmp_path)
    assert outcome.workload is not None, words(outcome)
    assert finds(outcome, "all-to-alls", "shares")
    file = tmp_path / "workload.npz"
    outcome.workload.save(file)
    workload = Workload.load(file)
    assert workload.digest() == outcome.workload.digest()
    routes = routes_of(ReplayOptions.model_validate({"all_to_all": algorithm}))
    plan = compile_workload(workload, Cluster(3), Costs(), routes, 0.0, 0)
    check(plan)
    sends = np.flatnonzero((plan.ops.kind == OpKind.SEND) & (plan.ops.chunk >= 0))
    moved = zip(
        *(column[sends].tolist() for column in (plan.ops.rank, plan.ops.peer, plan.ops.size_bytes)), strict=True
    )
    assert {(src, dst): size for src, dst, size in moved} == {
        (src, dst): rows * ROW_BYTES
        for src, of_src in enumerate(SPLITS)
        for dst, rows in enumerate(of_src)
        if src != dst and rows
    }
    assert outcome.summary is not None
    (row,) = outcome.summary.rows
    assert row.size_bytes == round(sum(map(sum, SPLITS)) * ROW_BYTES / len(SPLITS))


@pytest.mark.parametrize("left_out", [{"In split size": "[]"}, {"Out msg nelems": None}])
def test_a_rank_need_not_say_what_follows_from_the_rest(tmp_path: Path, left_out: dict[str, Any]) -> None:
    outcome = of_experts(tmp_path, **left_out)
    assert outcome.workload is not None, words(outcome)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"Out split size": "[5, 1, 1]"}, "do not divide its 56 bytes|gets"),
        ({"Out split size": "[4, 2, 1]"}, "in which the rank gets 32 bytes of a part of 40 bytes"),
        ({"In split size": "[2, 4]"}, "2 sizes are listed for 3 ranks"),
        ({"In split size": "[2, 3, ...]"}, "is cut short"),
        ({"In split size": "[2, 3, 2]"}, "sizes that add up to 7 do not divide its 48 bytes"),
        ({"Out msg nelems": None, "In split size": "[]"}, "it is not said how much the rank gets"),
    ],
)
def test_parts_on_which_ranks_do_not_agree_are_refused(tmp_path: Path, said: dict[str, Any], complaint: str) -> None:
    outcome = of_experts(tmp_path, **said)
    assert outcome.workload is None
    assert any(re.search(complaint, finding.words) and "1.json" in finding.words for finding in outcome.refusals), (
        words(outcome)
    )


def test_parts_of_different_sizes_say_nothing_of_ranks_without_a_file_or_of_more_ranks(tmp_path: Path) -> None:
    whole = of_experts(tmp_path).workload
    assert whole is not None
    outcome = imported(tmp_path / "0.json")
    assert outcome.workload is None
    assert finds(outcome, "all-to-all", "different sizes")
    with pytest.raises(InputFault, match="of different sizes"):
        grow_job(whole, 2, growing_groups(whole, [ALL_RANKS]))


def test_a_damaged_list_of_parts_is_refused(tmp_path: Path) -> None:
    whole = of_experts(tmp_path).workload
    assert whole is not None
    file = tmp_path / "workload.npz"
    for damaged in (
        replace(whole, splits=whole.splits + 1),
        replace(whole, splits=whole.splits[:-1]),
        replace(whole, tasks=replace(whole.tasks, split=whole.tasks.split - 1)),
    ):
        damaged.save(file)
        with pytest.raises(InputFault, match=r"one collective|does not exist"):
            Workload.load(file)
