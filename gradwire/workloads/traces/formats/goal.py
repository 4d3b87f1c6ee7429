"""GOAL schedules in text: all ranks of a job in one file, as messages and calculations.

LogGOPSim (spcl/LogGOPSim) and ATLAHS (spcl/atlahs), which publishes traces of training jobs in this format, read it with
src/LogGOPSim/txt2bin.re, the grammar that is followed here:

    num_ranks 2
    rank 0 {
    l1: calc 1500 cpu 0
    l2: send 4096b to 1 tag 7 cpu 0 nic 0
    l2 requires l1
    }

A `calc` takes nanoseconds of its CPU, which calculates one after the other (`case OP_LOCOP` of LogGOPSim.cpp). What
`requires` waits for the other's end, what `irequires` for its start. A receive from any rank (-1) or of any tag is
refused: whom it meets depends on the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.goal_schedule import RankSchedule
from gradwire.workloads.traces.formats.text_lines import lines_of
from gradwire.workloads.traces.record import MOST_RANKS, Call, RankRecord, Reading, Watch
from gradwire.workloads.traces.workload import Kind

NAME = "GOAL schedule"
NUMBER = "[0-9]{1,18}"
LABEL = "[a-zA-Z][a-zA-Z0-9_]*"
BEGINNING = re.compile(rb"(?:\s++|//[^\n]*+\n|/\*(?:[^*]++|\*(?!/))*+\*/)*+num_ranks[ \t]+[0-9]")
"""Possessive, so that a file of blanks takes no memory for ways back."""
RANKS = re.compile(rf"\s*num_ranks\s+({NUMBER})\s*")
BLOCK = re.compile(rf"\s*rank\s+({NUMBER})\s*\{{(.*)", re.DOTALL)
PLACED = rf"(?:\s+cpu\s+(?P<cpu>{NUMBER}))?(?:\s+nic\s+(?P<nic>{NUMBER}))?\s*"
CALC = re.compile(rf"\s*(?:(?P<label>{LABEL})\s*:\s*)?calc\s+(?P<ns>{NUMBER}){PLACED}")
MESSAGE = re.compile(
    rf"\s*(?:(?P<label>{LABEL})\s*:\s*)?(?P<kind>send|recv)\s+(?P<bytes>{NUMBER})\s*b\s+(?P<way>to|from)\s+"
    rf"(?P<peer>-1|{NUMBER})(?:\s+tag\s+(?P<tag>-1|{NUMBER}))?{PLACED}"
)
REQUIRES = re.compile(rf"\s*({LABEL})\s+(i?)requires\s+({LABEL})\s*")


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a GOAL schedule in text."""
    return BEGINNING.match(beginning) is not None


def read(path: Path, reading: Reading, watch: Watch) -> list[RankRecord]:
    """Reads a schedule: the records of all ranks. Raises InputFault for what is not one."""
    if reading.step is not None:
        raise InputFault(
            f"{path}: --step {reading.step}: a GOAL schedule does not tell steps apart; Kineto profiles do"
        )
    world: int | None = None
    blocks: dict[int, _Block] = {}
    block: _Block | None = None
    for number, line in _without_comments(path, watch):
        place = f"line {number}"
        if block is None and (said := RANKS.fullmatch(line)) is not None:
            if world is not None or not 0 < int(said[1]) <= MOST_RANKS:
                raise InputFault(f"{path}: {place}: num_ranks must be there once, and 1 to {MOST_RANKS:,}")
            world = int(said[1])
            continue
        operation = line
        if block is None and (opens := BLOCK.fullmatch(line)) is not None:
            rank, operation = int(opens[1]), opens[2]
            if world is None or rank >= world or rank in blocks:
                raise InputFault(f"{path}: {place}: rank {rank}: must be one of num_ranks, and there once")
            block = blocks[rank] = _Block(path, rank, world)
        if block is None:
            raise InputFault(f"{path}: {place}: must be 'num_ranks N' or 'rank N {{', and is '{line.strip()[:60]}'")
        if operation.strip() == "}":
            block.close()
            block = None
        elif operation.strip():
            block.take(place, operation)
    if block is not None:
        raise InputFault(f"{path}: the file ends in the middle of rank {block.record.rank}")
    missing = next((rank for rank in range(world or 0) if rank not in blocks), None)
    if missing is not None:
        raise InputFault(f"{path}: num_ranks says {world} ranks, and rank {missing} is not there")
    return [blocks[rank].record for rank in range(world or 0)]


def _without_comments(path: Path, watch: Watch) -> Iterator[tuple[int, str]]:
    """Yields the lines that have more than comments, which begin where an operation may. Raises InputFault."""
    within = False
    for number, line in lines_of(path, watch):
        rest = line
        while rest:
            if within:
                _, end, rest = rest.partition("*/")
                within = not end
            elif (begun := rest.lstrip()).startswith("/*"):
                within, rest = True, begun[2:]
            else:
                break
        if rest.strip() and not rest.lstrip().startswith("//"):
            yield number, rest
    if within:
        raise InputFault(f"{path}: the file ends in the middle of a comment")


class _Block:
    """The operations of one rank, as they come, by their labels."""

    def __init__(self, path: Path, rank: int, world: int) -> None:
        self.schedule = RankSchedule(path, NAME, rank, world)
        self._labels: dict[str, int] = {}

    @property
    def record(self) -> RankRecord:
        """The record of the rank."""
        return self.schedule.record

    def take(self, place: str, line: str) -> None:
        """Takes an operation or a dependency. Raises InputFault for what is neither."""
        record = self.record
        if (requires := REQUIRES.fullmatch(line)) is not None:
            one, other = (self._labels.get(requires[number]) for number in (1, 3))
            if one is None or other is None:
                unknown = requires[1] if one is None else requires[3]
                raise InputFault(f"{record.file}: {place}: no operation of rank {record.rank} before it is '{unknown}'")
            self.schedule.depend(one, other, on_start=bool(requires[2]))
            return
        if (calc := CALC.fullmatch(line)) is not None:
            self._name(place, calc["label"], self.schedule.calculate(place, int(calc["ns"]), int(calc["cpu"] or 0)))
            return
        message = MESSAGE.fullmatch(line)
        if message is None or (message["kind"] == "send") != (message["way"] == "to"):
            raise InputFault(f"{record.file}: {place}: is no operation of GOAL: '{line.strip()[:60]}'")
        kind = Kind.SEND if message["kind"] == "send" else Kind.RECV
        peer, tag = int(message["peer"]), int(message["tag"] or 0)
        call = Call(kind, place, int(message["bytes"]), peer=peer, tag=tag)
        self._name(place, message["label"], self.schedule.exchange(call, int(message["nic"] or 0)))

    def _name(self, place: str, label: str | None, task: int) -> None:
        if label is not None and self._labels.setdefault(label, task) != task:
            raise InputFault(f"{self.record.file}: {place}: there are two operations '{label}' of this rank")

    def close(self) -> None:
        """Adds what waits for what, once all operations are there. Raises InputFault for too many CPUs."""
        self.schedule.close()
        self._labels = {}
