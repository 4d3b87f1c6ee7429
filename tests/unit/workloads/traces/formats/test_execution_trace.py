"""PyTorch's execution traces: calls, their order, and the waits that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.workload import Kind
from tests.shared.parts import in_order
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_traces import execution_trace, finds, imported, older_execution_trace, words


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
