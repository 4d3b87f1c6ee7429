"""RCCL's replay logs in binary, which RCCL_REPLAY_FILE is without `.json`: one `rcclApiCall` of recorder.h after the other.

The struct (src/include/recorder.h of ROCm/rccl) has no mark and no version. It is known by what its first call says of
itself: a process, a thread, a time and a type. Since `AllReduceWithBias` there is an `acc` behind the buffers, and the types
behind `AllReduce` are one higher; the older struct is 8 bytes shorter. Behind an `AllToAllv` there are four lists of as many
64-bit numbers as there are ranks, behind a `CommInitAll` with a list of devices that list (recorder.cc).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_items import opened, progress, read_block
from gradwire.workloads.traces.formats.rccl_replay import LATEST_MS, MADE, SPLIT, ReplayCall, ReplayLog
from gradwire.workloads.traces.record import MOST_RANKS, RankRecord, Reading, Watch
from gradwire.workloads.traces.workload import UNKNOWN

NAME = "RCCL replay log in binary"
TYPES = (
    *(
        "Broadcast",
        "Reduce",
        "AllGather",
        "ReduceScatter",
        "AllReduce",
        "AllReduceWithBias",
        "Send",
        "Recv",
        "AllToAll",
    ),
    *("AllToAllv", "Gather", "Scatter", "Bcast", "GroupStart", "GroupEnd", "GroupSimulatedEnd", "GetUniqueId"),
    *("CommInitDev", "CommInitRank", "CommInitAll", "CommInitRankConfig", "CommSplit", "CommFinalize", "CommDestroy"),
    *("CommAbort", "CommRegister", "CommDeregister", "MemAlloc", "MemFree", "RedOpCreatePreMulSum", "RedOpDestroy"),
    "OtherCall",
)
"""`rcclCall_t`."""
BEGIN = struct.Struct("<iiiidQii")
"""Process, thread, GPU, depth of groups, milliseconds, graph, whether it is captured, type."""
EARLIEST_MS = 1e12
"""The year 2001: a process, a thread and such a time are there in no other file by chance."""
MOST_GPUS = 1024
WATCHED_CALLS = 100_000


@dataclass(frozen=True)
class _RecordLayout:
    """A struct of calls, and the names of its types."""

    whole: struct.Struct
    types: tuple[str, ...]


LAYOUTS = (
    _RecordLayout(struct.Struct("<iiiidQiiQ7QQiiiiQQiiQ"), TYPES),
    _RecordLayout(
        struct.Struct("<iiiidQiiQ6QQiiiiQQiiQ"), tuple(name for name in TYPES if name != "AllReduceWithBias")
    ),
)


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a replay log in binary."""
    return _is_call(beginning)


def read(path: Path, reading: Reading, watch: Watch) -> list[RankRecord]:
    """Reads a log: a record for each GPU of the process. Raises InputFault for what is not one."""
    log = ReplayLog(path, NAME, reading)
    layout = _layout(path)
    with opened(path) as file:
        for number, call in enumerate(_calls(path, file, layout, log)):
            log.take(call)
            if number % WATCHED_CALLS == 0:
                watch(path, *progress(file))
    return log.records()


def _is_call(content: bytes) -> bool:
    if len(content) < BEGIN.size:
        return False
    pid, thread, device, depth, time_ms, _, captured, kind = BEGIN.unpack_from(content)
    return (
        pid > 0 and thread > 0 and 0 <= device < MOST_GPUS and depth >= -1
        and EARLIEST_MS < time_ms < LATEST_MS and captured in (-1, 0, 1) and 0 <= kind < len(TYPES)
    )  # fmt: skip


def _layout(path: Path) -> _RecordLayout:
    """The layout by which the second call is one as well; of a single call, the newer. Raises InputFault."""
    with opened(path) as file:
        content = read_block(path, file, 2 * MOST_RANKS)
    for layout in LAYOUTS:
        after = layout.whole.size + _tail_bytes(layout, content)
        if len(content) <= after or _is_call(content[after:]):
            return layout
    raise InputFault(f"{path}: call 1: is none of RCCL's, with or without an 'acc' in the first")


def _tail_bytes(layout: _RecordLayout, content: bytes) -> int:
    """Bytes of the lists behind a call, 0 for one that has none or is cut off."""
    if len(content) < layout.whole.size:
        return 0
    fields = layout.whole.unpack_from(content)
    name, root, ranks = _name(layout, fields[7]), int(fields[-7]), int(fields[-6])
    if name == "AllToAllv":
        return 4 * 8 * max(min(ranks, MOST_RANKS), 0)
    return 4 * max(min(root, MOST_GPUS), 0) if name == "CommInitAll" and fields[9] else 0


def _name(layout: _RecordLayout, kind: int) -> str:
    return layout.types[kind] if 0 <= kind < len(layout.types) else f"type {kind}"


def _calls(path: Path, file: IO[bytes], layout: _RecordLayout, log: ReplayLog) -> Iterator[ReplayCall]:
    number = 0
    while content := read_block(path, file, layout.whole.size):
        place = f"call {number}"
        tail_bytes = _tail_bytes(layout, content)
        tail = read_block(path, file, tail_bytes) if tail_bytes else b""
        if len(content) < layout.whole.size or len(tail) < tail_bytes:
            log.cut_off(place)
            return
        if not _is_call(content):
            raise InputFault(f"{path}: {place}: is none of RCCL's: its process, time or type cannot be")
        yield _of_fields(place, layout, layout.whole.unpack(content), tail)
        number += 1


def _of_fields(place: str, layout: _RecordLayout, fields: tuple[int, ...], tail: bytes) -> ReplayCall:
    device, time_ms, captured, kind = fields[2], fields[4], fields[6], fields[7]
    count, datatype, _, root, ranks, comm, stream, _, rank, unique = fields[-10:]
    name = _name(layout, kind)
    numbers = [number[0] for number in struct.iter_unpack("<Q", tail)] if name == "AllToAllv" else []
    lists = [tuple(numbers[at * ranks : (at + 1) * ranks]) for at in (0, 2)] if numbers else [(), ()]
    return ReplayCall(
        name, place, time_ms, captured, root if name == MADE else device,
        hex(unique if name == SPLIT else comm), str(unique), ranks, rank, ranks if name == SPLIT else UNKNOWN,
        count, datatype, root, hex(stream), *lists,
    )  # fmt: skip
