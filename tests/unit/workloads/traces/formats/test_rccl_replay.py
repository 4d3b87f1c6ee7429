"""Logs that RCCL writes for its replayer, in text, JSON and binary."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import Reading
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_logs import (
    MILLISECOND,
    replay_binary,
    replay_call,
    replay_context,
    replay_lines,
    replay_made,
    replay_standard,
    replay_text,
    written,
)
from tests.unit.workloads.traces.small_traces import finds, imported, refusal, words

CHAIN = [
    ("all-reduce", 4000, []),
    ("compute", 5000, []),
    ("reduce-scatter", 2000, [0, 1]),
    ("compute", 5000, [1]),
    ("recv", 40, [2, 3]),
    ("send", 40, [2, 3]),
    ("compute", 10000, [3]),
    ("all-to-all", 120, [4, 5, 6]),
]


@pytest.mark.parametrize("form", ["text", "standard", "binary", "binary without acc"])
def test_every_form_is_the_same_job(tmp_path: Path, form: str) -> None:
    forms: dict[str, Any] = {
        "text": lambda rank: replay_text(replay_lines(rank)),
        "standard": replay_standard,
        "binary": replay_binary,
        "binary without acc": lambda rank: replay_binary(rank, accumulates=False),
    }
    outcome = imported(*written(tmp_path, [forms[form](rank) for rank in (1, 0)]))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == CHAIN
    assert outcome.workload.splits.tolist() == [40, 80, 44, 84]
    assert finds(outcome, "times between calls are those of the host")


def test_the_only_split_is_the_communicator_that_is_not_known(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        split = (
            f"  CommSplit : [comm : 0x7fb{rank}, color : 0, key : 3, newcomm : {hex(rank)}, {replay_context(rank, 1)}"
        )
        return replay_text([replay_made(rank), split, replay_call(rank, "AllReduce", 8, 2, communicator=f"0x8{rank}")])

    outcome = imported(*written(tmp_path, [log(0), log(1)]))
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.groups == ((0, 1),)
    assert finds(outcome, "'1716/1/3'")


def test_one_of_several_splits_needs_its_ranks(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        split = (
            f"  CommSplit : [comm : 0x7fb{rank}, color : 0, key : 3, newcomm : {hex(rank)}, {replay_context(rank, 1)}"
        )
        calls = [replay_call(rank, "AllReduce", 8, 2, communicator=f"0x8{rank}"), replay_call(rank, "AllReduce", 9, 3)]
        return replay_text([replay_made(rank), split, split, *calls])

    paths = written(tmp_path, [log(0), log(1)])
    assert finds(imported(*paths), "comm : 0x80", "which of 2 CommSplit", "--groups")
    outcome = imported(*paths, reading=Reading(groups={"0x80": (0, 1), "0x81": (0, 1)}))
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.groups == ((0, 1),)


def test_what_was_captured_and_what_is_not_rccl_is_noted(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        captured = replay_call(rank, "AllReduce", 50, 5, captured=1)
        other = f"  mscclRunAlgo : [time : {MILLISECOND:.6f}]"
        return replay_text([*replay_lines(rank), captured, other])

    outcome = imported(*written(tmp_path, [log(0), log(1)]))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == CHAIN
    assert finds(outcome, "captured into a graph")
    assert finds(outcome, "'mscclRunAlgo'")


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("count : 1000", "count : many", "line 5: count : 'many'"),
        ("datatype : 9", "datatype : 99", "datatype 99"),
        ("nranks : 2", "nranks : 5", "nranks : 5"),
        ("comm : 0x7fb0, nranks", "comm : 0x1, nranks", "comm : 0x1"),
        ("size : 2, uniqueID", "size : 70000, uniqueID", "70000"),
        ("rank : 0, dev", "rank : 4, dev", "rank 4 of 2"),
        (f"time : {MILLISECOND + 10:.6f}", "time : nan", "time: nan"),
        (f"time : {MILLISECOND + 10:.6f}", "time : soon", "time : 'soon'"),
        ("sendcounts : [10, 20]", "sendcounts : [10]", "sendcounts and recvcounts"),
        ("recvcounts : [10, 11]", "recvcounts : [10, 12]", "of a part of 44 bytes"),
        ("  AllReduce : [", "  AllReduce = [", "line 5: is no call of RCCL"),
        ("root : 1", "root : 2", "root 2"),
    ],
)
def test_what_is_not_read_is_told_by_its_field(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    text = replay_text(replay_lines(0))
    assert before in text
    paths = written(tmp_path, [text.replace(before, after, 1), replay_text(replay_lines(1))])
    assert complaint in refusal(*paths)


def test_a_binary_log_that_is_cut_off_or_damaged(tmp_path: Path) -> None:
    whole = replay_binary(0)
    outcome = imported(*written(tmp_path, [whole[:-10], replay_binary(1)]))
    assert outcome.workload is not None, words(outcome)
    assert finds(outcome, "call 7", "the file ends in the middle")
    assert chain(outcome.workload, 1)[-1][0] == "compute"  # the other rank's all-to-all is left out
    damaged = whole[:160] + struct.pack("<i", -5) + whole[164:]
    with pytest.raises(InputFault, match="call 1"):
        imported(*written(tmp_path, [damaged, replay_binary(1)]))
