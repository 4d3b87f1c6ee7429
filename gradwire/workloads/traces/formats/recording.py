"""Recordings of PyTorch scripts, which `gradwire record` makes: one file per recorded rank (docs/recording.md).

Computations have FLOPs, and take their time at the rate of a device. The groups of all ranks are listed, so that ranks
without a recording can be given what a recorded one does (workloads/traces/filling.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_items import JsonItems
from gradwire.workloads.traces.record import LONGEST_NS, MOST_RANKS, Call, Findings, RankRecord, Reading, Watch
from gradwire.workloads.traces.workload import POINT_TO_POINT, UNKNOWN, Kind

NAME = "gradwire recording"
VERSION = 1
MOST_GUESSES = 100
"""Kinds of guesses; the recorder knows less than 20."""


Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number, as whoever records has them: Python reads longer ones, and no float can hold those of 309 digits."""


class RecordedTask(msgspec.Struct):
    """A computation, or the rank's part in a communication."""

    kind: str
    after: list[Whole] = []
    flops: Whole = 0
    bytes: Whole = 0
    element_bytes: Whole = 1
    #: Number of the group of a collective, in the list of the file.
    group: str = ""
    root: Whole = UNKNOWN
    #: The other end of a message.
    peer: Whole = UNKNOWN
    tag: Whole = 0


class RecordingHead(msgspec.Struct):
    """The fields of a recording besides its tasks."""

    format: Literal["gradwire recording"]
    version: Whole
    rank: Whole
    world: Whole
    groups: list[list[Whole]]
    torch: str = ""
    #: Steps of the optimizer that the script made; the recorded iteration is the last of them.
    steps: Whole = 0
    #: Whether large tensors had values.
    values: bool = False
    flops_of_type: dict[str, Whole] = {}
    #: Bytes that operations without FLOPs read and wrote in the iteration.
    moved_bytes: Whole = 0
    #: The guesses that were made, and how often each.
    guesses: dict[str, Whole] = {}
    #: Communication of kinds that the recorder does not know.
    unknown: list[str] = []


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a recording."""
    return beginning.lstrip().startswith(b'{"format": "' + NAME.encode() + b'"')


def read(path: Path, reading: Reading, watch: Watch) -> RankRecord:
    """Reads a recording. Raises InputFault for what is not one."""
    if reading.step is not None:
        raise InputFault(
            f"{path}: --step {reading.step}: a recording has one iteration; Kineto profiles tell steps apart"
        )
    record = RankRecord(path, NAME, Findings())
    items = JsonItems(path, "tasks", RecordedTask, RecordingHead, watch)
    tasks = list(items)
    head = items.head()
    _take_head(record, head)
    for number, task in enumerate(tasks):
        _take(record, number, task, reading.flops_per_s, len(head.groups))
    _note_guesses(record, head)
    return record


def _take_head(record: RankRecord, head: RecordingHead) -> None:
    """Raises InputFault for a rank or a group that cannot be."""
    if head.version != VERSION:
        raise InputFault(
            f"{record.file}: has version {head.version} of its format, and this gradwire reads {VERSION}; record again"
        )
    if not 0 <= head.rank < head.world <= MOST_RANKS:
        raise InputFault(
            f"{record.file}: is of rank {head.rank} of {head.world}; at most {MOST_RANKS:,} ranks are read"
        )
    for number, ranks in enumerate(head.groups):
        if not ranks or len(set(ranks)) != len(ranks) or min(ranks) < 0 or max(ranks) >= head.world:
            raise InputFault(
                f"{record.file}: groups[{number}]: {ranks[:8]}: must be different ranks from 0 to {head.world - 1}"
            )
    record.rank, record.world = head.rank, head.world
    record.lists_all_groups = True
    record.learn_groups({str(number): tuple(ranks) for number, ranks in enumerate(head.groups)})
    for what in head.unknown[:MOST_GUESSES]:
        record.findings.refuse(
            record.file, "", f"'{what}' communicates, and what it moves is not known to this gradwire"
        )


def _take(record: RankRecord, number: int, task: RecordedTask, flops_per_s: float | None, groups: int) -> None:
    """Adds a task. Raises InputFault for one that cannot be."""
    place = f"tasks[{number}]"
    kind = KINDS.get(task.kind)
    if kind is None:
        raise InputFault(f"{record.file}: {place}: kind '{task.kind}': must be one of {', '.join(KINDS)}")
    if any(not 0 <= other < number for other in task.after):
        raise InputFault(f"{record.file}: {place}: after {task.after[:8]}: must be tasks before it")
    if kind is Kind.COMPUTE:
        record.compute(_duration_ns(record, place, task.flops, flops_per_s), after=task.after, item=place)
        return
    if not 1 <= task.element_bytes <= 16:
        raise InputFault(f"{record.file}: {place}: element_bytes {task.element_bytes}: must be 1 to 16")
    if kind in POINT_TO_POINT:
        if not 0 <= task.peer < (record.world or 0):
            raise InputFault(f"{record.file}: {place}: peer {task.peer}: must be a rank of the job")
    elif not (task.group.isascii() and task.group.isdecimal() and len(task.group) < 10 and int(task.group) < groups):
        raise InputFault(
            f"{record.file}: {place}: group '{task.group}': must be the number of one of its {groups} groups"
        )
    peer = task.peer if kind in POINT_TO_POINT else task.root
    group = "" if kind in POINT_TO_POINT else str(int(task.group))
    record.call(Call(kind, place, task.bytes, task.element_bytes, group, peer, task.tag), after=task.after)


KINDS = {kind.words: kind for kind in Kind}


def _duration_ns(record: RankRecord, place: str, flops: int, flops_per_s: float | None) -> int:
    if flops < 0:
        raise InputFault(f"{record.file}: {place}: flops {flops}: must be 0 or more")
    if flops_per_s is None:
        record.findings.refuse(
            record.file, place, "computations have FLOPs: say with --flop-rate at which rate, such as 395TFLOP/s"
        )
        return 0
    return min(round(flops / flops_per_s * 1e9), LONGEST_NS + 1)


def _note_guesses(record: RankRecord, head: RecordingHead) -> None:
    """Notes the assumptions that the record rests on."""
    note = record.findings.note
    if not head.values:
        note(record.file, "", "large tensors had no values: what a script does by what it has learnt was not seen")
    total = sum(flops for flops in head.flops_of_type.values() if flops > 0)
    if total:
        types = ", ".join(f"{flops / total:.0%} {name}" for name, flops in head.flops_of_type.items())
        note(record.file, "", f"computation is FLOPs at one rate, whatever their type ({types})")
    if head.moved_bytes > 0:
        note(
            record.file,
            "",
            f"operations without FLOPs take no time: norms, activations, copies and the optimizer, which read and "
            f"write {head.moved_bytes / 1e9:.3f} GB per iteration, one by one",
        )
    note(record.file, "", "what waits for what is taken from the data that each reads and writes")
    for what, count in list(head.guesses.items())[:MOST_GUESSES]:
        note(record.file, "", what, count)
