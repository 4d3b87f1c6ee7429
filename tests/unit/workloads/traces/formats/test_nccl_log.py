"""Logs of NCCL and RCCL with a line for each call."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import Reading
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_logs import nccl_call, nccl_log, nccl_prefix, written
from tests.unit.workloads.traces.small_traces import finds, imported, refusal, words

CHAIN = [
    ("all-reduce", 4000, []),
    ("reduce-scatter", 2000, [0]),
    ("recv", 40, [1]),
    ("send", 40, [1]),  # of the same group
]


@pytest.mark.parametrize("together", [False, True])
def test_calls_follow_one_another_and_those_of_a_group_do_not(tmp_path: Path, together: bool) -> None:
    logs = [nccl_log(rank) for rank in (0, 1)]
    outcome = imported(*written(tmp_path, ["epoch 1\n" + "".join(logs)] if together else logs))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == chain(outcome.workload, 1) == CHAIN
    assert outcome.workload.groups == ((0, 1),)
    assert finds(outcome, "no times")


def test_communicators_that_were_split_are_told_apart_by_their_parents(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        split = f"ncclCommSplit comm 0x66{rank} rank {rank % 2} nranks 2 cudaDev {rank % 2} nvmlDev 0 busId 4000 "
        split += f"parent 0x55{rank} childCount 1 color {rank // 2} key {rank}- Init START"
        return (
            nccl_log(rank, 4)
            + nccl_prefix(rank)
            + split
            + "\n"
            + nccl_call(rank, "AllGather", 8, communicator=f"0x66{rank}")
        )

    outcome = imported(*written(tmp_path, [log(rank) for rank in range(4)]))
    assert outcome.workload is not None, words(outcome)
    assert sorted(outcome.workload.groups) == [(0, 1), (0, 1, 2, 3), (2, 3)]


def test_splits_that_share_an_id_are_refused(tmp_path: Path) -> None:
    """As NCCL up to 2.23 makes it from parent and color."""
    split = f"{nccl_prefix(0)}ncclCommSplit comm 0x66{{}} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 4000 parent 0x550 "
    split += "color 0 key 0 commId 0x7 - "
    one, other = (split.format(pointer) + "Init COMPLETE\n" for pointer in (1, 2))
    assert "commId 0x7: is also that of comm 0x661" in refusal(
        *written(tmp_path, [nccl_log(0) + one + one + other, nccl_log(1)])
    )
    assert imported(*written(tmp_path, [nccl_log(0) + one + one, nccl_log(1)])).workload is not None


def test_communicators_without_an_id_are_matched_by_their_turn(tmp_path: Path) -> None:
    logs = [nccl_log(rank).replace(" commId 0xabc", "") for rank in (0, 1)]
    outcome = imported(*written(tmp_path, logs))
    assert outcome.workload is not None, words(outcome)
    assert finds(outcome, "does not identify")


def test_the_lines_of_rccl_say_ranks_themselves(tmp_path: Path) -> None:
    logs = [nccl_call(rank, "AllReduce", 8, more=f" task 0 globalrank {rank}") for rank in (0, 1)]
    outcome = imported(*written(tmp_path, logs))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload, 1) == [("all-reduce", 32, [])]


def test_a_log_that_ended_early_shortens_the_others(tmp_path: Path) -> None:
    logs = [nccl_log(rank) + nccl_call(rank, "AllReduce", 8, number=3) for rank in (0, 1)]
    outcome = imported(*written(tmp_path, [logs[0], logs[1].rsplit("\n", 2)[0] + "\n"]))
    assert outcome.workload is not None, words(outcome)
    assert [step[0] for step in chain(outcome.workload)] == ["all-reduce", "reduce-scatter", "recv", "send", "compute"]
    assert finds(outcome, "a.log: line 6", "left out")


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("datatype 9", "datatype 12", "line 3: datatype 12"),
        ("count 500", "count 5e2", "line 3: a call whose line is cut off"),
        ("AllReduce: ", "AllReduceV: ", "'AllReduceV'"),
        ("root 1 ", "root 7 ", "root 7"),
        ("comm 0x550 [", "comm 0x999 [", "NCCL_DEBUG_SUBSYS=INIT,COLL"),
        ("[nranks=2]", "[nranks=3]", "nranks=3"),
        ("rank 0 nranks 2", "rank 2 nranks 2", "rank 2 of 2"),
        ("nranks 2", "nranks 70000", "70000"),
        ("count 1000", f"count {2**51}", "at most 2^50"),
        (" stream 0x9", "", "cut off"),
    ],
)
def test_what_is_not_read_is_told_by_its_field(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    text = nccl_log(0)
    assert before in text
    paths = written(tmp_path, [text.replace(before, after), nccl_log(1)])
    assert complaint in refusal(*paths)


def test_a_log_without_calls_says_what_to_set(tmp_path: Path) -> None:
    path = written(tmp_path, [nccl_log(0).split("\n")[0] + "\n"])[0]
    with pytest.raises(InputFault, match="NCCL_DEBUG_SUBSYS=INIT,COLL"):
        imported(path)
    with pytest.raises(InputFault, match="--step 3"):
        imported(path, reading=Reading(step=3))
