"""GOAL schedules in binary, as LogGOPSim's `txt2bin` writes them and LogGOPSim and ATLAHS simulate them.

`Graph::serialize_mmap` of src/LogGOPSim/Parser.hpp (spcl/LogGOPSim, 2023) writes, little-endian and packed,

- 4223 as 64 bits, the number of ranks as 32, the largest CPU and NIC as 8 each, and of each rank the first and the last byte
  of its part as 64 bits, counted from behind the 4223;
- in a part, the number of operations and of those that wait for nothing, which are listed, as 32 bits each;
- of each operation 39 bytes: how many others it waits for, its type (1 send, 2 receive, 3 calculation), the other rank, the
  size or nanoseconds as 64 bits, the tag, CPU and NIC as 8 bits, and twice a count and a first index in the list that ends
  the part: of the operations that wait for its end, and of those that wait for its start.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.goal_schedule import RankSchedule
from gradwire.workloads.traces.formats.json_items import opened, progress, read_block
from gradwire.workloads.traces.record import MOST_RANKS, MOST_TASKS, Call, RankRecord, Reading, Watch
from gradwire.workloads.traces.workload import Int64, Kind

NAME = "GOAL schedule in binary"
COOKIE = struct.pack("<Q", 4223)
"""`MAGIC_COOKIE`."""
HEAD = struct.Struct("<IBB")
PART = struct.Struct("<II")
OPERATION = np.dtype(
    [("waits", "<u4"), ("type", "u1"), ("peer", "<u4"), ("size", "<u8"), ("tag", "<u4"), ("cpu", "u1"), ("nic", "u1"),
     ("ends", "<u4"), ("ends_at", "<u4"), ("starts", "<u4"), ("starts_at", "<u4")]
)  # fmt: skip
SEND, RECEIVE, CALCULATION = 1, 2, 3
ANY = 2**32 - 1
"""What any rank, or any tag, is written as."""
Operations = npt.NDArray[np.void]


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a GOAL schedule in binary."""
    return beginning.startswith(COOKIE)


def read(path: Path, reading: Reading, watch: Watch) -> list[RankRecord]:
    """Reads a schedule: the records of all ranks. Raises InputFault for what is not one."""
    if reading.step is not None:
        what = "a GOAL schedule does not tell steps apart; Kineto profiles do"
        raise InputFault(f"{path}: --step {reading.step}: {what}")
    content = _content(path, watch)
    if len(content) < HEAD.size:
        raise InputFault(f"{path}: the file ends in the middle of its first bytes")
    world, _, _ = HEAD.unpack_from(content)
    if not 0 < world <= MOST_RANKS:
        raise InputFault(f"{path}: says {world:,} ranks; it must be 1 to {MOST_RANKS:,}")
    if len(content) < HEAD.size + 16 * world:
        raise InputFault(f"{path}: the file ends in the table of its {world:,} ranks")
    bounds = np.frombuffer(content, "<u8", 2 * world, HEAD.size).reshape(-1, 2)
    parts = [_Part(path, rank, world, content, *bounds[rank].tolist()) for rank in range(world)]
    if sum(len(part.operations) for part in parts) > MOST_TASKS:
        raise InputFault(f"{path}: has more than {MOST_TASKS:,} operations")
    return [part.record() for part in parts]


def _content(path: Path, watch: Watch) -> bytes:
    """What is behind the file's first number. Raises InputFault."""
    with opened(path) as file:
        content = read_block(path, file, -1)
        watch(path, *progress(file))
    return content[len(COOKIE) :]


class _Part:
    """The part of a rank. Raises InputFault where it does not fit into the file."""

    def __init__(self, path: Path, rank: int, world: int, content: bytes, first: int, end: int) -> None:
        self._path, self._rank, self._world = path, rank, world
        if not HEAD.size + 16 * world <= first <= end - PART.size <= len(content) - PART.size:
            raise self._fault(f"its part, bytes {first:,} to {end:,}, is not in the file's {len(content):,}")
        count, roots = PART.unpack_from(content, first)
        at = first + PART.size + 4 * roots
        appendix = at + OPERATION.itemsize * count
        if appendix > end:
            raise self._fault(f"says {count:,} operations, and has room for less")
        self.operations: Operations = np.frombuffer(content, OPERATION, count, at)
        self._appendix: npt.NDArray[np.uint32] = np.frombuffer(content, "<u4", (end - appendix) // 4, appendix)

    def record(self) -> RankRecord:
        """Returns the record of the rank. Raises InputFault for an operation that cannot be."""
        schedule = RankSchedule(self._path, NAME, self._rank, self._world)
        for number, operation in enumerate(self.operations.tolist()):
            _, kind, peer, size, tag, cpu, nic, *_ = operation
            place = f"rank {self._rank}, operation {number}"
            if kind == CALCULATION:
                schedule.calculate(place, size, cpu)
            elif kind in (SEND, RECEIVE):
                peer, tag = (-1 if said == ANY else said for said in (peer, tag))
                schedule.exchange(Call(Kind.SEND if kind == SEND else Kind.RECV, place, size, peer=peer, tag=tag), nic)
            else:
                raise InputFault(f"{self._path}: {place}: its type is {kind}: must be 1 to 3")
        for name, on_start in (("ends", False), ("starts", True)):
            for waiting, other in self._pairs(name).tolist():
                schedule.depend(waiting, other, on_start=on_start)
        schedule.close()
        return schedule.record

    def _pairs(self, name: str) -> Int64:
        """Operations that wait for another's end, or start, and the other, shape (n, 2). Raises InputFault."""
        counts, first = (self.operations[column].astype(np.int64) for column in (name, f"{name}_at"))
        has = counts > 0
        total = int(counts.sum())
        if total > len(self._appendix) or (first[has] + counts[has] > len(self._appendix)).any():
            raise self._fault(f"says that {total:,} operations wait for others, and lists {len(self._appendix):,}")
        offsets = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        waiting = self._appendix[np.repeat(first, counts) + offsets].astype(np.int64)
        if len(waiting) and waiting.max() >= len(self.operations):
            raise self._fault(f"operation {waiting.max():,} waits for another, and there are {len(self.operations):,}")
        return np.stack([waiting, np.repeat(np.arange(len(counts)), counts)], axis=1)

    def _fault(self, what: str) -> InputFault:
        return InputFault(f"{self._path}: rank {self._rank}: {what}")
