"""Files that are cut off, damaged or made to hurt: one message with the file and the place, soon, and never a wrong
number."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from gradwire import regular_files
from gradwire.faults import InputFault
from gradwire.workloads import doubled_keys
from gradwire.workloads.traces.formats import chakra_messages as chakra
from gradwire.workloads.traces.formats.json_items import opened, progress
from gradwire.workloads.traces.workload import FILE_NAME, Workload
from tests.unit.workloads.traces.small_traces import (
    KinetoFile,
    chakra_file,
    chakra_json_file,
    chakra_node,
    ddp_step,
    execution_trace,
    imported,
    varint,
)

SOON_S = 60.0
"""Far more than any of these takes."""


def kineto(folder: Path) -> bytes:
    return ddp_step().write(folder / "sound.json").read_bytes()


def traced(folder: Path) -> bytes:
    return execution_trace(folder / "sound.et.json", [{"elements": 5}, {"elements": 6}]).read_bytes()


def chakra_bytes(folder: Path) -> bytes:
    nodes = [chakra_node(1, chakra.COMP), chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=8)]
    return chakra_file(folder / "sound.et", nodes).read_bytes()


def refusal(path: Path) -> str:
    """What is said of a file; it must name the file, and come soon."""
    begun_s = time.monotonic()
    try:
        outcome = imported(path)
        assert outcome.workload is None, "was taken"
        said = outcome.refusals[0].words
    except InputFault as fault:
        said = str(fault)
    assert time.monotonic() - begun_s < SOON_S
    assert str(path) in said
    return said


def chakra_json(folder: Path, graph: bool) -> bytes:
    nodes = [chakra_node(1, chakra.COMP, duration_us=5), chakra_node(2, chakra.COLL, [1], comm_type=0, comm_size=8)]
    return chakra_json_file(folder / "sound.json", nodes, graph=graph).read_bytes()


JSON_FILES = [kineto, traced, partial(chakra_json, graph=False), partial(chakra_json, graph=True)]


@pytest.mark.parametrize("in_code", [False, True])
@pytest.mark.parametrize("sound", JSON_FILES)
def test_a_key_that_is_given_twice_is_refused_wherever_it_is(
    tmp_path: Path, sound: Callable[[Path], bytes], in_code: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_code:
        monkeypatch.setattr(doubled_keys, "IN_CODE_FROM_BYTES", 0)
    content, path = sound(tmp_path), tmp_path / "doubled.json"
    pairs = list(re.finditer(rb'"[A-Za-z_]+"\s*:\s*(?:"[^"\\]*"|[-+.0-9e]+|true|false|null)(?=\s*[,}])', content))
    assert len(pairs) > 5
    for pair in pairs[:: max(1, len(pairs) // 40)]:
        path.write_bytes(content[: pair.start()] + pair[0] + b"," + content[pair.start() :])
        assert "given twice" in refusal(path), pair[0]


@pytest.mark.parametrize("sound", [kineto, traced, chakra_bytes])
def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, sound: Callable[[Path], bytes]) -> None:
    content, path = sound(tmp_path), tmp_path / "cut"
    for end in range(0, len(content) - 2, max(1, len(content) // 97)):
        path.write_bytes(content[:end])
        if sound is chakra_bytes and imported_nodes(path) is not None:
            continue  # a cut between two nodes cannot be told from a shorter file
        assert refusal(path)


def imported_nodes(path: Path) -> int | None:
    """How many nodes a Chakra file has that ends between two of them; None if it does not."""
    data, at, count = path.read_bytes(), 0, 0
    while at < len(data):
        at += 1 + data[at]
        count += 1
    return count if at == len(data) and count > 1 else None


@pytest.mark.parametrize("sound", [kineto, traced])
def test_gzip_that_is_cut_off_or_damaged(tmp_path: Path, sound: Callable[[Path], bytes]) -> None:
    zipped, path = gzip.compress(sound(tmp_path)), tmp_path / "a.json.gz"
    flipped = bytes(byte ^ 255 for byte in zipped[20:30])
    for content in (zipped[: len(zipped) // 2], zipped[:20] + flipped + zipped[30:], b"\x1f\x8bno gzip at all"):
        path.write_bytes(content)
        assert "damaged" in refusal(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"hello", "is none of"),
        (b"PK\x03\x04" + bytes(26), "is an archive of files: unpack it"),
        (b"trace.0.et" + bytes(247) + b"ustar\x0000", "is an archive of files: unpack it"),
        (b"\x00" * 1000, "is none of"),
        (b'{"traceEvents": {}}', "is not a JSON object with a list of 'traceEvents'"),
        (b'{"traceEvents": []}', "no communication is recorded"),
        (b'{"traceEvents": [{]}', "traceEvents[0]"),
        (b'{"traceEvents": [{"ph": "X"},,{"ph": "X"}]}', "traceEvents["),
        (b'{"traceEvents": [' + b"[" * 100_000, "nested too deeply"),
        (b'{"traceEvents": [{"args": ' + b'{"a":' * 100_000, "nested too deeply"),
        (b'{"schema": "1.1.0", "nodes": [{"id": "x", "name": "n"}]}', "nodes[0]: Expected `int`, got `str`"),
        (b'{"schema": "1.1.0", "nodes": [{"id": 1, "name": "n"}], "a": }', "nodes["),
        (b'{"traceEvents": [{"ph": "X"}]} and more', "traceEvents[0] or one after it"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    assert says in refusal(path)


@pytest.mark.parametrize(("ts", "dur"), [(1, -5), (1e300, 1), (1, 1e300), ("soon", 1), (10**30, 1)])
def test_times_that_cannot_be(tmp_path: Path, ts: float, dur: float) -> None:
    trace = KinetoFile()
    trace.event("kernel", "gemm", ts, dur, stream=7, correlation=1)
    assert "traceEvents[0] (gemm)" in refusal(trace.write(tmp_path / "a.json"))


def test_numbers_that_do_not_fit_in_64_bits(tmp_path: Path) -> None:
    trace = KinetoFile()
    trace.event("kernel", "gemm", 1, 1, stream=7, correlation=2**70)
    assert refusal(trace.write(tmp_path / "a.json"))
    trace = KinetoFile()
    trace.collective("allreduce", 2**62, at=0, begin=1, dur=1)
    assert "traceEvents[0]" in refusal(trace.write(tmp_path / "b.json"))


def test_a_group_of_a_thousand_million_ranks(tmp_path: Path) -> None:
    trace = KinetoFile(rank=None)
    said = {"Process Group Name": "x", "Process Group Ranks": "[0, ...]", "Group size": 10**9}
    trace.collective("allreduce", 5, at=0, begin=1, dur=1, **said)
    assert "traceEvents[0]" in refusal(trace.write(tmp_path / "a.json"))


@pytest.mark.parametrize("claimed", [10**9, 2**63])
def test_a_node_that_claims_to_be_larger_than_any(tmp_path: Path, claimed: int) -> None:
    path = tmp_path / "a.et"
    path.write_bytes(chakra_bytes(tmp_path) + varint(claimed) + b"x" * 100)
    assert f"{claimed:,} bytes" in refusal(path)


def test_a_node_that_is_no_message(tmp_path: Path) -> None:
    path = tmp_path / "a.et"
    sound = chakra_bytes(tmp_path)
    path.write_bytes(sound + varint(6) + b"\xff" * 6)
    assert f"byte {len(sound)}: is not" in refusal(path)


def test_events_across_many_blocks_arrive_once_and_in_order(tmp_path: Path) -> None:
    """Names hold what looks like the end of an event, and arguments are nested, so that most places to cut at are
    wrong ones."""
    trace = ddp_step()
    for number in range(30_000):
        trace.event(
            "cpu_op", f'}}, {{ "traceEvents": [ {number}', 1, 1, Shape=[{"a": [1]}, {"b": number}], text="x" * 200
        )
    path = trace.write(tmp_path / "a.json")
    assert path.stat().st_size > 3 * (4 << 20)
    trace.events.reverse()
    backwards = trace.write(tmp_path / "b.json")
    there, back = imported(path), imported(backwards)
    assert there.workload is not None
    assert back.workload is not None
    assert there.workload.tasks.size_bytes.tolist() == back.workload.tasks.size_bytes.tolist()
    assert there.sources[0].calls == 2


@pytest.mark.parametrize("number", [3, 39_999])
def test_a_wrong_event_is_named_by_its_number_wherever_it_is(tmp_path: Path, number: int) -> None:
    trace = KinetoFile()
    for _ in range(40_000):
        trace.event("cpu_op", "aten::add", 1, 1, text="x" * 200)
    trace.events[number]["ts"] = []
    path = trace.write(tmp_path / "a.json")
    assert path.stat().st_size > 2 * (4 << 20)
    assert f"traceEvents[{number}]: " in refusal(path)


@pytest.mark.parametrize(
    "damage", ["cut", "nonsense", "version", "ranks", "column", "rank", "dependency", "call", "size"]
)
def test_a_workload_file_that_is_damaged(tmp_path: Path, damage: str) -> None:
    outcome = imported(ddp_step().write(tmp_path / "a.json"))
    outcome.write(tmp_path)
    path = tmp_path / FILE_NAME
    if damage in ("cut", "nonsense"):
        path.write_bytes(path.read_bytes()[:-200] if damage == "cut" else b"nonsense")
    else:
        with np.load(path) as stored:
            columns = {key: stored[key] for key in stored.files}
        header = json.loads(columns["header"].tobytes())
        header["version"] += damage == "version"
        header["ranks"] = "many" if damage == "ranks" else header["ranks"]
        columns["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        columns["tasks.rank"] = columns["tasks.rank"] + (99 if damage == "rank" else 0)
        columns["dep_task"] = columns["dep_task"] - (9 if damage == "dependency" else 0)
        columns["tasks.call"] = np.minimum(columns["tasks.call"], 0) if damage == "call" else columns["tasks.call"]
        columns["tasks.size_bytes"] = columns["tasks.size_bytes"] - 5 * (damage == "size")
        if damage == "column":
            del columns["tasks.peer"]
        np.savez(path, **columns)
    said = r"workload\.npz: has version 2 of its format" if damage == "version" else r"workload\.npz"
    with pytest.raises(InputFault, match=said):
        Workload.load(tmp_path)


def test_a_workload_comes_back_as_it_was_written(tmp_path: Path) -> None:
    outcome = imported(ddp_step().write(tmp_path / "a.json"))
    outcome.write(tmp_path)
    assert outcome.workload is not None
    assert Workload.load(tmp_path).digest() == outcome.workload.digest()


@pytest.mark.parametrize("zipped", [False, True])
def test_what_was_checked_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool) -> None:
    path, pipe = tmp_path / "trace", tmp_path / "pipe"
    path.write_bytes(gzip.compress(b"checked") if zipped else b"checked")
    os.mkfifo(pipe)
    open_regular = regular_files.opened

    def open_and_swap(*arguments: Any, **options: Any) -> BinaryIO:
        file = open_regular(*arguments, **options)
        pipe.rename(path)  # as whoever has the folder may do between two system calls
        return file

    monkeypatch.setattr(regular_files, "opened", open_and_swap)
    with opened(path) as file:
        assert file.read() == b"checked"
        assert progress(file)[0] > 0
