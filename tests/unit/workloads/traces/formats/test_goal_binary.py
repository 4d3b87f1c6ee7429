"""GOAL schedules in binary are what the text says that txt2bin made them of."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_logs import goal_binary, written
from tests.unit.workloads.traces.small_traces import finds, imported, refusal, words

TEXT = """num_ranks 2
rank 0 {
a: calc 1500000 cpu 2
b: send 4096b to 1 tag 7
c: recv 8b from 1 tag 7 nic 1
d: calc 20000
b requires a
c irequires b
d requires b
d requires c
}
rank 1 {
b: recv 4096b from 0 tag 7
c: send 8b to 0 tag 7
}
"""
PARTS = (
    (
        (3, 0, 1500000, 0, 2, 0, (1,), ()),
        (1, 1, 4096, 7, 0, 0, (3,), (2,)),
        (2, 1, 8, 7, 0, 1, (3,), ()),
        (3, 0, 20000, 0, 0, 0, (), ()),
    ),
    ((2, 0, 4096, 7, 0, 0, (), ()), (1, 0, 8, 7, 0, 0, (), ())),
)


def test_both_forms_are_one_workload(tmp_path: Path) -> None:
    text, binary = (tmp_path / "text.goal", tmp_path / "binary.bin")
    text.write_text(TEXT)
    binary.write_bytes(goal_binary(PARTS))
    one, other = imported(text), imported(binary)
    assert one.workload is not None
    assert other.workload is not None, words(other)
    for rank in (0, 1):
        assert chain(one.workload, rank) == chain(other.workload, rank)
    assert one.workload.tasks.stream.tolist() == other.workload.tasks.stream.tolist()
    assert finds(other, "rank 0, operation 2: nic")


def changed(at: int, form: str, value: int) -> bytes:
    content = bytearray(goal_binary(PARTS))
    struct.pack_into(form, content, at, value)
    return bytes(content)


TABLE = 14
PART = TABLE + 2 * 16
OPERATION = PART + 8 + 4
"""Where the table of ranks, the first part, and its first operation begin."""


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (changed(8, "<I", 70_000), "70,000 ranks"),
        (changed(8, "<I", 0), "0 ranks"),
        (changed(8, "<I", 60_000), "table of its 60,000 ranks"),
        (changed(TABLE, "<Q", 2**60), "rank 0: its part"),
        (changed(TABLE + 8, "<Q", 10**6), "rank 0: its part"),
        (changed(PART, "<I", 10**9), "says 1,000,000,000 operations"),
        (changed(PART + 4, "<I", 2**32 - 1), "rank 0: says 4 operations"),
        (changed(OPERATION + 4, "<B", 9), "rank 0, operation 0: its type is 9"),
        (changed(OPERATION + 23, "<I", 10**9), "operations wait for others"),
        (changed(OPERATION + 27, "<I", 10**9), "operations wait for others"),
        (changed(OPERATION + 39 + 4, "<B", 2), "receive"),
        (changed(OPERATION + 39 + 5, "<I", 2**32 - 1), "any rank (-1)"),
        (changed(OPERATION + 39 + 17, "<I", 2**32 - 1), "any tag (-1)"),
        (changed(OPERATION + 39 + 5, "<I", 17), "rank 17 of 2"),
        (changed(OPERATION + 39 + 9, "<Q", 2**60), "at most 2^50"),
        (changed(OPERATION + 9, "<Q", 2**63), "lasts"),
        (goal_binary(PARTS)[:10], "ends in the middle"),
        (goal_binary(PARTS)[:-3], "rank 1"),
    ],
)
def test_what_is_not_read_is_told_by_its_field(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = written(tmp_path, [content], "bin")[0]
    assert complaint in refusal(path)


def test_waiting_for_what_is_not_there_is_refused(tmp_path: Path) -> None:
    parts = [[(3, 0, 5, 0, 0, 0, (9,), ())], PARTS[1]]
    with pytest.raises(InputFault, match="rank 0: operation 9 waits"):
        imported(written(tmp_path, [goal_binary(parts)], "bin")[0])
