"""PyTorch's execution traces: calls, their order, and the waits that name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.workload import Kind
from tests.shared.parts import in_order
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_traces import (
    KinetoFile,
    execution_trace,
    finds,
    imported,
    older_execution_trace,
    words,
)


def test_calls_and_the_waits_for_them(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"elements": 10, "sequence": 33},
        {"elements": 20, "sequence": 34, "name": "broadcast"},
        {"name": "wait", "sequence": 33},
        {"elements": 30, "sequence": 35},
    ]
    outcome = imported(execution_trace(tmp_path / "et.json", calls))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == [
        ("compute", 0, []),
        ("all-reduce", 40, [0]),
        ("broadcast", 80, [0, 1]),
        ("compute", 0, [0, 1]),
        ("all-reduce", 120, [2, 3]),
    ]
    assert outcome.sources[0].rank == 1
    assert finds(outcome, "no times")
    assert outcome.summary is not None
    assert outcome.summary.compute_s is None


def test_calls_of_torch_before_2_2_have_their_names_in_their_inputs(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {"elements": 10, "sequence": 33},
        {"elements": 20, "sequence": 34, "name": "broadcast"},
        {"name": "wait", "sequence": 33},
        {"elements": 30, "sequence": 35},
    ]
    newer = imported(execution_trace(tmp_path / "newer.json", calls))
    older = imported(older_execution_trace(tmp_path / "older.json", calls))
    assert older.workload is not None, words(older)
    assert newer.workload is not None
    assert chain(older.workload) == chain(newer.workload)
    assert (older.sources[0].rank, older.workload.ranks, older.workload.groups) == (1, 2, ((0, 1),))


def test_roots_and_the_other_ends_of_messages_are_members_of_the_group(tmp_path: Path) -> None:
    """The files of this test are of rank 1 of its group; here the group's ranks go down, so that its member 1 is rank
    0."""
    path = execution_trace(tmp_path / "et.json", [{"elements": 4, "name": "broadcast"}], ranks=[1, 0])
    outcome = imported(path, reading=Reading(ranks=2))
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.tasks.peer[outcome.workload.tasks.kind == Kind.BROADCAST].tolist() == [0, 0]
    sending = execution_trace(tmp_path / "send.0.json", [{"elements": 4, "name": "send"}])
    receiving = execution_trace(tmp_path / "recv.1.json", [{"elements": 4, "name": "recv", "member": 0}])
    outcome = imported(sending, receiving)
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.tasks.peer[outcome.workload.tasks.kind == Kind.SEND].tolist() == [1]


def test_a_call_within_a_call_counts_once(tmp_path: Path) -> None:
    outcome = imported(execution_trace(tmp_path / "et.json", [{"elements": 10}, {"elements": 10, "parent": 10}]))
    assert outcome.sources[0].calls == 1
    assert finds(outcome, "node 11:", "counted once")


def test_nodes_that_are_their_own_callers_are_told(tmp_path: Path) -> None:
    path = execution_trace(
        tmp_path / "et.json", [{"elements": 10, "parent": 11, "id": 12}, {"elements": 10, "parent": 12, "id": 11}]
    )
    text = path.read_text().replace(
        '"name": "record_param_comms", "ctrl_deps": 12', '"name": "record", "ctrl_deps": 12'
    )
    path.write_text(text)
    with pytest.raises(InputFault, match="in a circle"):
        imported(path)


def test_a_number_that_two_nodes_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=in_order("node 10", "two nodes")):
        imported(execution_trace(tmp_path / "et.json", [{"elements": 10}, {"elements": 10, "id": 10}]))


def of_dlrm(path: Path, rank: int, *, name: object, sizes: list[int], elements: int) -> Path:
    """A trace of torch 2.0 of one of four ranks, which does not say the ranks of its group."""
    older_execution_trace(path, [{"elements": elements, "name": "all_to_allv", "member": rank}])
    document = json.loads(path.read_text())
    document["nodes"] = [node for node in document["nodes"] if "process_group" not in node["name"]]
    for node in document["nodes"]:
        if node["name"] == "record_param_comms":
            tensors, sequence, _, member, call, _, _ = node["inputs"]
            node["inputs"] = [tensors, sequence, name, member, call, sizes, [sizes[rank]] * 4]
    path.write_text(json.dumps(document))
    return path


def test_a_group_of_all_ranks_is_known_from_all_their_files(tmp_path: Path) -> None:
    sizes = [10, 20, 30, 40]
    files = [
        of_dlrm(tmp_path / f"et_{rank}.json", rank, name=94_000 + rank, sizes=sizes, elements=100) for rank in range(4)
    ]
    outcome = imported(*files)
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.groups == ((0, 1, 2, 3),)
    assert outcome.workload.splits.tolist() == [4 * size for size in sizes] * 4
    assert finds(outcome, "what all files together show")
    assert imported(*files[:3]).workload is None


@pytest.mark.parametrize(("names", "groups"), [("aabb", None), ("abab", ((0, 2), (1, 3))), ("aaab", None)])
def test_as_many_files_as_a_group_is_large_show_its_ranks(
    tmp_path: Path, names: str, groups: tuple[tuple[int, ...], ...] | None
) -> None:
    paths = []
    for rank, name in enumerate(names):
        place = names[:rank].count(name) if groups else rank
        trace = KinetoFile(rank, ranks=range(4))
        trace.about["distributedInfo"].pop("pg_config")
        said = {"Process Group Ranks": "[0, ...]", "Global rank start": None, "Rank": place, "Group size": 2}
        trace.collective("allreduce", 100, at=0, begin=5, dur=5, **said, **{"Process Group Name": name})
        paths.append(trace.write(tmp_path / f"{rank}.json"))
    outcome = imported(*paths)
    assert (None if outcome.workload is None else tuple(sorted(outcome.workload.groups))) == groups
