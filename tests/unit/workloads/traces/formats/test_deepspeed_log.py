"""What DeepSpeed's comms_logger prints: lines of calls, and tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import Reading
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_logs import deepspeed_line, deepspeed_table, written
from tests.unit.workloads.traces.small_traces import finds, imported, refusal, words

LINES = (
    "loading data\n"
    + deepspeed_line("10,100", "all_gather_into_tensor | [Caller Func: fetch]", 2.5, "12.34 MB", 331.25)
    + "loss: 3.2\n"
    + deepspeed_line("10,150", "reduce_scatter_tensor", 5, "98.7 MB", 165)
    + deepspeed_line("10,155", "barrier", 5.4, "0B", 0)
)
TABLE = deepspeed_table(
    {"all_reduce | [Caller Func: step]": [("8.0 KB", 2, 5), ("0B", 4, 1)], "barrier": [("0B", 1, 1)]}
)


def test_calls_with_their_times_and_the_ranks_that_bandwidths_say(tmp_path: Path) -> None:
    outcome = imported(*written(tmp_path, [LINES + TABLE]))
    assert outcome.workload is not None, words(outcome)
    assert (
        chain(outcome.workload, 3)
        == [
            ("all-gather", round(12.34 * 2**20), []),
            ("compute", 45_000, [0]),
            ("reduce-scatter", round(98.7 * 2**20 / 8) * 8, [0, 1]),
            ("compute", 0, [1, 2]),  # it seems to begin before the other had ended
            ("barrier", 0, [2, 3]),
        ]
        or chain(outcome.workload, 3)[-2:] == [("barrier", 0, [2])]
    )
    assert outcome.workload.ranks == 8
    assert finds(outcome, "line 2", "number of ranks is what algbw and busbw say")
    assert finds(outcome, "tables of log_summary: left out")


def test_a_table_has_calls_without_order(tmp_path: Path) -> None:
    path = written(tmp_path, [TABLE + "epoch 2\n" + TABLE])[0]
    assert finds(imported(path), "--ranks")
    outcome = imported(path, reading=Reading(ranks=4))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == [("all-reduce", 8192, []), ("all-reduce", 8192, [0]), ("barrier", 0, [1])]
    assert finds(outcome, "of several tables, the last has all")
    assert finds(outcome, "line 4: an all-reduce of 0 bytes", "(8 in all)")


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("reduce_scatter_tensor", "isend", "comm op: isend"),
        ("reduce_scatter_tensor", "my_own_op", "comm op: my_own_op"),
        ("12.34 MB", "12.34 QB", "line 2"),
        ("12.34 MB", "999999 TB", "msg size: 999999 TB"),
        ("| time (ms): 2.50", "| time (ms): fast", "line 2"),
        ("[Rank 0] comm op: barrier", "[Rank 3] comm op: barrier", "[Rank 3]"),
        ("2022-06-26", "2022-06-99", "is no time"),
        ("algbw (Gbps): 331.25 ", "", "line 2"),
    ],
)
def test_what_is_not_read_is_told_by_its_field(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    assert before in LINES
    path = written(tmp_path, [LINES.replace(before, after)])[0]
    assert complaint in refusal(path)


def test_other_numbers_of_ranks_and_empty_tables_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [LINES])[0]
    assert finds(imported(path, reading=Reading(ranks=4)), "busbw", "8 ranks", "--ranks says 4")
    empty = written(tmp_path, [deepspeed_table({})])[0]
    with pytest.raises(InputFault, match="has no call"):
        imported(empty)
    many = written(tmp_path, [deepspeed_table({"all_reduce": [("8.0 KB", 10**9, 5)]})])[0]
    with pytest.raises(InputFault, match="calls are more than"):
        imported(many, reading=Reading(ranks=4))
