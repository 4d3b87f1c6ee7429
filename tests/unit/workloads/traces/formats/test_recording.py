"""Recordings of scripts, written by hand: how they are read, what ranks without one do, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.trace_import import Imported, import_traces
from gradwire.workloads.traces.workload import Kind
from tests.unit.workloads.traces.small_traces import finds, recording

TERAFLOPS = Reading(flops_per_s=1e12)


def imported(folder: Path, *recordings: dict[str, Any], reading: Reading = TERAFLOPS) -> Imported:
    paths = []
    for number, said in enumerate(recordings):
        paths.append(folder / f"rank{number}.json")
        paths[-1].write_text(json.dumps(said))
    return import_traces(paths, "recorded", reading, lambda *_: None)


def test_one_rank_stands_for_all_and_flops_take_their_time(tmp_path: Path) -> None:
    made = imported(tmp_path, recording())
    assert made.workload is not None
    assert made.summary is not None
    assert made.workload.ranks == 4
    assert made.summary.compute_s == pytest.approx((4e-6, 4e-6))
    assert [(row.kind, row.calls, row.size_bytes) for row in made.summary.rows] == [("all-reduce", 1, 4096)]
    assert any("guessed" in finding.what and finding.count == 2 for finding in made.findings)
    assert finds(made, "no recording", "1, 2, 3")


def test_without_a_rate_flops_are_not_a_time(tmp_path: Path) -> None:
    made = imported(tmp_path, recording(), reading=Reading())
    assert made.workload is None
    assert "--flop-rate" in made.refusals[0].what


def pipeline(rank: int, stage: int) -> dict[str, Any]:
    """Two stages of two ranks, each stage a tensor-parallel group."""
    own = {"kind": "all-reduce", "bytes": 64, "element_bytes": 4, "group": str(1 + stage), "after": []}
    message = {"kind": "recv" if stage else "send", "bytes": 32, "element_bytes": 4, "after": [0]}
    message["peer"] = rank - 2 if stage else rank + 2
    return recording(rank, groups=[[0, 1, 2, 3], [0, 1], [2, 3]], tasks=[own, message])


def test_ranks_of_a_pipeline_take_after_the_recorded_one_of_their_stage(tmp_path: Path) -> None:
    made = imported(tmp_path, pipeline(0, 0), pipeline(2, 1))
    assert made.workload is not None
    tasks = made.workload.tasks
    sends = tasks.kind == Kind.SEND
    assert list(zip(tasks.rank[sends].tolist(), tasks.peer[sends].tolist(), strict=True)) == [(0, 2), (1, 3)]
    groups = {made.workload.groups[number] for number in set(tasks.group.tolist()) if number >= 0}
    assert groups == {(0, 1), (2, 3)}


def test_a_pipeline_of_which_one_stage_is_recorded_is_refused(tmp_path: Path) -> None:
    made = imported(tmp_path, pipeline(0, 0))
    assert made.workload is None
    assert made.refusals


def test_groups_of_the_same_shape_are_those_of_other_ranks(tmp_path: Path) -> None:
    groups = [[0, 1, 2, 3], [0, 2], [1, 3]]
    task = {"kind": "broadcast", "bytes": 8, "element_bytes": 4, "group": "1", "root": 2, "after": []}
    made = imported(tmp_path, recording(groups=groups, tasks=[task]))
    assert made.workload is not None
    tasks = made.workload.tasks
    of_rank = {int(rank): made.workload.groups[int(group)] for rank, group in zip(tasks.rank, tasks.group, strict=True)}
    assert of_rank == {0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)}
    assert dict(zip(tasks.rank.tolist(), tasks.peer.tolist(), strict=True)) == {0: 2, 1: 3, 2: 2, 3: 3}


def test_a_rank_whose_group_the_script_does_not_make_is_asked_for(tmp_path: Path) -> None:
    task = {"kind": "all-reduce", "bytes": 8, "element_bytes": 4, "group": "1", "after": []}
    made = imported(tmp_path, recording(groups=[[0, 1, 2, 3], [0, 2]], tasks=[task]))
    assert "record rank 1" in made.refusals[0].what


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"version": 2}, "version 2"),
        ({"rank": 4}, "rank 4 of 4"),
        ({"world": 10**9, "groups": [[0]]}, "at most"),
        ({"groups": [[0, 0]]}, "groups[0]"),
        ({"groups": [[0, 7]]}, "groups[0]"),
        ({"groups": [[]]}, "groups[0]"),
        ({"tasks": [{"kind": "all-reduce", "group": "7"}]}, "group '7'"),
        ({"tasks": [{"kind": "all-reduce", "group": "-1"}]}, "group '-1'"),
        ({"tasks": [{"kind": "all-reduce", "group": "0", "element_bytes": 0}]}, "element_bytes 0"),
        ({"tasks": [{"kind": "all-reduce", "group": "0", "bytes": -1}]}, "tasks[0]"),
        ({"tasks": [{"kind": "teleport"}]}, "kind 'teleport'"),
        ({"tasks": [{"kind": "send", "peer": 9}]}, "peer 9"),
        ({"tasks": [{"kind": "compute", "flops": -1}]}, "flops -1"),
        ({"tasks": [{"kind": "compute", "flops": 10**18, "after": [0]}]}, "must be tasks before it"),
        ({"tasks": [{"kind": "compute", "flops": 9 * 10**18}]}, "lasts"),
        ({"tasks": [{"kind": 5}]}, "tasks[0]"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, others: dict[str, Any], words: str) -> None:
    reading = Reading(flops_per_s=1.0)
    with pytest.raises(InputFault) as refused:
        imported(tmp_path, recording(**others), reading=reading)
    assert words in str(refused.value)
    assert "rank0.json" in str(refused.value)


def test_communication_of_an_unknown_kind_makes_no_workload(tmp_path: Path) -> None:
    made = imported(tmp_path, recording(unknown=["c10d.whisper_"]))
    assert made.workload is None
    assert "c10d.whisper_" in made.refusals[0].what


@pytest.mark.parametrize("key", ["flops", "moved_bytes", "world"])
def test_a_number_that_no_float_holds_is_refused(tmp_path: Path, key: str) -> None:
    said = recording(**{} if key == "flops" else {key: 10**400})
    if key == "flops":
        said["tasks"][0]["flops"] = 10**400
    with pytest.raises(InputFault, match=rf"rank0\.json: .*`.*{key}`"):
        imported(tmp_path, said)
