"""Logs of NCCL's Inspector: what each call moves, what follows what by times, and what a communicator says of ranks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradwire.workloads.traces.record import Reading
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_logs import (
    MICROSECOND,
    inspector_calls,
    inspector_dump,
    inspector_log,
    inspector_object,
    written,
)
from tests.unit.workloads.traces.small_traces import finds, imported, refusal, words


def test_times_between_calls_are_computations_and_sizes_those_of_nccl(tmp_path: Path) -> None:
    paths = written(tmp_path, [inspector_log(inspector_calls(rank)) for rank in (1, 0)])
    outcome = imported(*paths)
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == [
        ("all-gather", 1 << 20, []),  # what a rank puts in
        ("compute", 100, [0]),
        ("reduce-scatter", 1 << 20, [0, 1]),  # what both get of what a rank puts in
        ("compute", 100, [1, 2]),
        ("all-reduce", 1 << 22, [2, 3]),
    ]
    assert [(source.rank, source.calls) for source in outcome.sources] == [(1, 3), (0, 3)]
    assert finds(outcome, "ranks are the places", "0xa1")
    assert outcome.summary is not None
    assert [row.recorded_s for row in outcome.summary.rows] == [0.0025, 0.0002, 0.0003]


def test_a_call_that_began_during_another_does_not_wait_for_it(tmp_path: Path) -> None:
    calls = [("0xa1", 0, 1000), ("0xb2", 300, 100), ("0xb2", 500, 100), ("0xb2", 1200, 100)]

    def log(rank: int) -> str:
        return inspector_log(
            [
                inspector_object(
                    rank, "AllReduce", 8192, number=number, took_us=took, begun_us=MICROSECOND + at, communicator=name
                )
                for number, (name, at, took) in enumerate(calls)
            ]
        )

    outcome = imported(*written(tmp_path, [log(0), log(1)]))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == [
        ("all-reduce", 8192, []),
        ("compute", 300, []),
        ("all-reduce", 8192, [1]),
        ("compute", 100, [1, 2]),
        ("all-reduce", 8192, [2, 3]),
        ("compute", 200, [0, 3, 4]),
        ("all-reduce", 8192, [4, 5]),
    ]


def test_without_times_there_is_no_computation(tmp_path: Path) -> None:
    packed = [gzip.compress(inspector_log(inspector_calls(rank, timed=False)).encode()) for rank in (0, 1)]
    outcome = imported(*written(tmp_path, packed))
    assert outcome.workload is not None, words(outcome)
    assert [step[0] for step in chain(outcome.workload)] == ["all-gather", "reduce-scatter", "all-reduce"]
    assert outcome.summary is not None
    assert outcome.summary.compute_s is None


def test_groups_are_the_ranks_of_the_files_that_have_their_places(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        objects = inspector_calls(rank, ranks=4)
        for number, name in enumerate((f"0xt{rank // 2}", f"0xd{rank % 2}")):
            place = rank // 2 if number else rank % 2
            at = MICROSECOND + 10_000 * (number + 1)
            said = inspector_object(
                place, "AllReduce", 8192, begun_us=at, communicator=name, process=100 + rank - place
            )
            objects.append(said)
        return inspector_log(objects)

    outcome = imported(*written(tmp_path, [log(rank) for rank in (2, 0, 3, 1)]))
    assert outcome.workload is not None, words(outcome)
    assert sorted(outcome.workload.groups) == [(0, 1), (0, 1, 2, 3), (0, 2), (1, 3), (2, 3)]


def test_messages_go_to_the_rank_at_a_place(tmp_path: Path) -> None:
    def log(rank: int) -> str:
        name = ("Send", "Recv")[rank]
        message = inspector_object(rank, name, 9000, begun_us=MICROSECOND + 9000, peer=1 - rank)
        return inspector_log([*inspector_calls(rank), message])

    outcome = imported(*written(tmp_path, [log(0), log(1)]))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload)[-1][:2] == ("send", 9000)
    assert chain(outcome.workload, 1)[-1][:2] == ("recv", 9000)


def test_calls_that_not_all_have_and_a_cut_line_are_left_out_and_noted(tmp_path: Path) -> None:
    logs = [inspector_log(inspector_calls(rank)) for rank in (0, 1)]
    outcome = imported(*written(tmp_path, [logs[0], logs[1][:-30]]))
    assert outcome.workload is not None, words(outcome)
    assert [step[0] for step in chain(outcome.workload)][::2] == ["all-gather", "reduce-scatter", "compute"]
    assert finds(outcome, "object 2", "ends in the middle")
    assert finds(outcome, "a.log: object 2", "not in the logs of all ranks")


def test_numbers_that_are_missing_are_noted(tmp_path: Path) -> None:
    logs = [
        inspector_log(
            [inspector_object(rank, "AllReduce", 8192, number=number, begun_us=MICROSECOND) for number in (4, 7)]
        )
        for rank in (0, 1)
    ]
    outcome = imported(*written(tmp_path, logs))
    assert outcome.workload is not None, words(outcome)
    assert finds(outcome, "all-reduce: calls whose numbers are missing", "(2 in all)")


def test_one_log_stands_for_all_ranks_if_their_number_is_given(tmp_path: Path) -> None:
    path = written(tmp_path, [inspector_log(inspector_calls(2, ranks=4))])[0]
    assert finds(imported(path), "--ranks")
    outcome = imported(path, reading=Reading(ranks=4))
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.ranks == 4


def test_a_process_with_all_ranks_has_a_record_of_each(tmp_path: Path) -> None:
    objects = [said for rank in (0, 1) for said in inspector_calls(rank)]
    for said in objects:
        said["metadata"]["pid"] = 7
    outcome = imported(*written(tmp_path, [inspector_log(objects)]))
    assert outcome.workload is not None, words(outcome)
    assert outcome.workload.groups == ((0, 1),)


def changed(key: str, **others: Any) -> Callable[[dict[str, Any]], None]:
    return lambda said: said[key].update(others)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (changed("header", n_ranks=3), "n_ranks: 3"),
        (changed("header", rank=-1), "header"),
        (changed("header", id=7), "header"),
        (changed("metadata", inspector_output_format_version="v5.0"), "inspector_output_format_version: 'v5.0'"),
        (changed("metadata", pid=99), "a file per process"),
        (changed("coll_perf", coll="AllGatherV"), "coll: 'AllGatherV'"),
        (changed("coll_perf", coll="Send"), "coll: 'Send'"),
        (changed("coll_perf", coll_msg_size_bytes="many"), "coll_msg_size_bytes"),
        (changed("coll_perf", coll_exec_time_us=-4), "coll_exec_time_us"),
        (changed("coll_perf", coll_sn=0, coll="AllGather"), "there twice"),
        (lambda said: said.pop("coll_perf"), "has none of coll_perf, p2p_perf, dump_stats, proxy_trace"),
        (lambda said: said.pop("metadata"), "'metadata'"),
        (lambda said: said["coll_perf"].pop("coll_sn"), "coll_sn"),
        (lambda said: said["coll_perf"]["event_trace_ts"]["kernel_events"][0].update(kernel_start_ts=0), "kernel_events"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_told_by_its_field(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], complaint: str
) -> None:
    objects = inspector_calls(0)
    change(objects[1])
    paths = written(tmp_path, [inspector_log(objects), inspector_log(inspector_calls(1))])
    assert complaint in refusal(*paths)


def test_messages_without_times_and_logs_of_two_are_refused(tmp_path: Path) -> None:
    message = inspector_object(0, "Send", 9000, peer=1)
    assert finds(imported(*written(tmp_path, [inspector_log([message])])), "NCCL_INSPECTOR_DUMP_VERBOSE=1")
    twice = written(tmp_path, [inspector_log(inspector_calls(0))] * 2)
    assert finds(imported(*twice), "give each log once")


@pytest.mark.parametrize("heads", [True, False])
def test_newer_versions_say_a_communicator_before_its_calls(tmp_path: Path, heads: bool) -> None:
    dumps = [inspector_dump(inspector_calls(rank), heads=heads) for rank in (0, 1)]
    outcome = imported(*written(tmp_path, [inspector_log(dump) for dump in dumps]))
    assert outcome.workload is not None, words(outcome)
    assert [step[0] for step in chain(outcome.workload)][::2] == ["all-gather", "reduce-scatter", "all-reduce"]
    assert finds(outcome, "proxy_trace") != heads
    without = inspector_log(dumps[0][1:])
    mark = '"inspector_output_format_version"'
    if not heads:
        assert "no dump_stats is before it" in refusal(*written(tmp_path, [f"{{{mark}:1}}\n{without}"]))


def test_times_may_have_fractions_and_keys_any_order(tmp_path: Path) -> None:
    logs = []
    for rank in (0, 1):
        said = inspector_object(rank, "AllReduce", 8192, begun_us=MICROSECOND)
        said["coll_perf"]["coll_exec_time_us"] = 61974.5
        logs.append(inspector_log([dict(sorted(said.items()))]))
    outcome = imported(*written(tmp_path, logs))
    assert outcome.summary is not None, words(outcome)
    assert outcome.summary.rows[0].recorded_s == 0.0619745


def test_objects_on_several_lines_are_read_as_well(tmp_path: Path) -> None:
    texts = ["\n".join(json.dumps(said, indent=2) for said in inspector_calls(rank)) for rank in (0, 1)]
    assert imported(*written(tmp_path, texts)).workload is not None
