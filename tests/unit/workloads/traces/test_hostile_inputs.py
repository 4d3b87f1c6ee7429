"""Whatever a file has in it, an import ends with a workload or with one message, soon and in little memory.

`python -m benchmarks.hostile.traces --inputs 100000` tries many more.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.record import LONGEST
from tests.hostile.inputs import FORMATS, HostileInput, hostile_input
from tests.hostile.limits import Outcome
from tests.hostile.trial import limited_memory, outcome
from tests.shared.examples import examples
from tests.shared.parts import tells
from tests.unit.workloads.traces.small_traces import (
    KinetoFile,
    chakra_file,
    chakra_node,
    ddp_step,
    execution_trace,
    imported,
    words,
)


@settings(max_examples=examples(120), derandomize=True)
@given(st.sampled_from(FORMATS), st.integers(0, 10**9))
def test_it_ends_as_it_should(format_name: str, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder, limited_memory():
        result = outcome(hostile_input(format_name, number), Path(folder))
    assert result.sound, f"{format_name} {number}: {result.ended}\n{result.details}"


def test_inputs_repeat_and_some_of_each_format_become_workloads(tmp_path: Path) -> None:
    for format_name in FORMATS:
        assert hostile_input(format_name, 5) == hostile_input(format_name, 5)
        ended = {outcome(hostile_input(format_name, number), tmp_path).ended for number in range(40)}
        assert ended == {"workload", "refused"}, format_name


def tried(folder: Path, *paths: Path) -> Outcome:
    """How an import of these files ends."""
    given_files = HostileInput({path.name: path.read_bytes() for path in paths}, hostile_input("chakra", 0).reading)
    return outcome(given_files, folder)


@pytest.mark.parametrize(
    "node",
    [
        chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=8, root=2**63 - 1),
        chakra_node(2, chakra.COLL, [1], comm_type=1.5, comm_size=8),
        chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=8, involved_dim="all"),
        chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=8, duration_us=2**60),
        chakra_node(2, chakra.SEND, [1], comm_size=8, comm_dst=2**63 - 1),
        chakra_node(2, chakra.COLL, [1], comm_type=2**62, comm_size=8),
    ],
)
def test_what_was_found_in_chakra_files(tmp_path: Path, node: object) -> None:
    nodes = [chakra_node(1, chakra.COMP), node]
    paths = [chakra_file(tmp_path / f"{rank}.et", nodes, world_size=2, rank=rank) for rank in range(2)]
    assert tried(tmp_path, *paths).sound


def test_a_small_file_of_a_job_of_65536_ranks_is_read_soon(tmp_path: Path) -> None:
    nodes = [
        chakra_node(1, chakra.COMP),
        *(chakra_node(k, chakra.COLL, [k - 1], comm_type=0, comm_size=8) for k in range(2, 12)),
    ]
    path = chakra_file(tmp_path / "0.et", nodes, world_size=65_536, rank=0)
    with limited_memory():
        assert tried(tmp_path, path).ended == "workload"


@pytest.mark.parametrize(
    ("world", "said", "says"),
    [
        (
            2,
            {"Process Group Ranks": "", "Group size": 65_536},
            "its process groups have more than 4,194,304 ranks together",
        ),
        (
            65_536,
            {"Process Group Ranks": "", "Group size": 65_536, "Process Group Name": "0"},
            "more than the 4,000,000 that are filled in",
        ),
        (2, {"Process Group Ranks": "[1, 0]", "Process Group Name": "0"}, "here and [0, 1] elsewhere"),
    ],
)
def test_very_many_calls_and_groups(tmp_path: Path, world: int, said: dict[str, object], says: str) -> None:
    trace = KinetoFile()
    trace.about["distributedInfo"] = {"rank": 0, "world_size": world}
    if world == 2:
        trace.collective("allreduce", 5, at=0, begin=5, dur=1)
    for number in range(1, 2000):
        arguments = {"Process Group Name": str(number), **said}
        trace.collective("allreduce", 50, at=20 * number, begin=20 * number + 5, dur=1, **arguments)
    path = trace.write(tmp_path / "a.json")
    with limited_memory():
        assert tried(tmp_path, path).ended == "refused"
    assert says in told(path)


@pytest.mark.parametrize("key", ["Process Group Ranks", "In split size"])
def test_numbers_of_thousands_of_digits_in_lists(tmp_path: Path, key: str) -> None:
    trace = KinetoFile()
    kind = "allreduce" if key == "Process Group Ranks" else "all_to_allv"
    trace.collective(kind, 5, at=0, begin=5, dur=1, **{key: f"[{'9' * 5000}, 1]"})
    path = trace.write(tmp_path / "a.json")
    assert tried(tmp_path, path).ended == "refused"
    assert "5,000 digits" in told(path)


def told(path: Path) -> str:
    """What is said of a file."""
    try:
        return words(imported(path))
    except InputFault as fault:
        return str(fault)


def test_a_rank_that_is_true_or_false_is_none(tmp_path: Path) -> None:
    trace = ddp_step()
    trace.about["distributedInfo"]["pg_config"][0]["ranks"] = [False, True]
    assert tried(tmp_path, trace.write(tmp_path / "a.json")).sound


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    path = execution_trace(tmp_path / "a.json", [{"elements": 5}])
    content = path.read_bytes()
    for word in (b"collective_name", b"default_pg", b"Float"):
        path.write_bytes(content.replace(word, word[:-1] + b"\xed\xa0", 1))
        assert tried(tmp_path, path).ended == "refused"
    path = ddp_step().write(tmp_path / "b.json")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"allreduce", b"allreduc\xed\xa0", 1))
    assert tried(tmp_path, path).ended == "refused"
    path.write_bytes(content.replace(b"Process Group Name", b"Process Group Nam\xed\xa0", 1))
    assert tried(tmp_path, path).sound  # an argument that is not known says nothing, whatever it is called


def test_a_name_of_any_length_is_told_in_short(tmp_path: Path) -> None:
    trace = KinetoFile()
    trace.collective("gossip" * 10_000, 5, at=0, begin=1, dur=1)
    (refusal,) = imported(trace.write(tmp_path / "a.json")).refusals
    assert tells(refusal.what, "'gossipgossip", "gossip'")
    assert len(refusal.what) < LONGEST + 10
