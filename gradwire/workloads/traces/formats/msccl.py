"""Algorithms of MSCCL in XML: one collective of one's own, as the messages of all GPUs.

What `msccl_program` reads is checked by `msccl_promise` and becomes messages: the steps of a thread block follow one another,
and what receives and sends on has both. Chunks are the buffer, whose size --buffer gives, over `nchunksperloop`, as MSCCL
divides it where one loop is enough.
"""

from __future__ import annotations

import re
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_items import beginning
from gradwire.workloads.traces.formats.msccl_program import (
    RECEIVES,
    SENDS,
    MscclProgram,
    ProgramStep,
    ThreadBlock,
    read_program,
)
from gradwire.workloads.traces.formats.msccl_promise import BrokenPromise, check_promise, collective_of
from gradwire.workloads.traces.record import POINT_STREAM, Call, Findings, RankRecord, Reading, Watch
from gradwire.workloads.traces.workload import Kind

NAME = "MSCCL algorithm"
PLAN = (b'"gpus"', b'"threadblocks"')
"""Keys of an execution plan of MSCCL++ (microsoft/mscclpp), which is JSON."""
BEGINNING_BYTES = 1 << 20
BEGINNING = re.compile(rb"(?:\s++|<\?[^>]*+>|<!--(?:[^-]++|-(?!->))*+-->)*+<algo\s")


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be an algorithm of MSCCL, or a plan of MSCCL++, which is refused."""
    return BEGINNING.match(beginning) is not None or _is_plan(beginning)


def _is_plan(text: bytes) -> bool:
    return text.lstrip()[:1] == b"{" and all(key in text[:BEGINNING_BYTES] for key in PLAN)


def read(path: Path, reading: Reading, watch: Watch) -> list[RankRecord]:
    """Reads an algorithm: the records of all GPUs. Raises InputFault for what is not one, or not what it says."""
    if reading.step is not None:
        raise InputFault(
            f"{path}: --step {reading.step}: an algorithm is one collective; Kineto profiles tell steps apart"
        )
    if _is_plan(beginning(path, BEGINNING_BYTES)):
        what = (
            "is a plan of MSCCL++, whose puts and signals are not read: give the algorithm as MSCCL's XML, or as GOAL"
        )
        raise InputFault(f"{path}: gpus.threadblocks: {what}")
    program = read_program(path, watch)
    findings = Findings()
    chunk_bytes = _chunk_bytes(path, program, reading, findings)
    try:
        check_promise(program)
    except BrokenPromise as broken:
        raise InputFault(f"{path}: {broken}") from broken
    records = []
    for gpu, blocks in sorted(program.blocks.items()):
        record = RankRecord(path, NAME, findings if not gpu else Findings())
        record.rank, record.world = gpu, program.gpus
        _Filling(record, blocks, chunk_bytes).fill()
        records.append(record)
    _note(path, program, findings)
    return records


def _chunk_bytes(path: Path, program: MscclProgram, reading: Reading, findings: Findings) -> int:
    """Bytes of a chunk. Raises InputFault without a size that chunks divide."""
    size = reading.buffer_bytes
    if size is None:
        what = f"says {program.chunks} chunks and not of which size: give the larger of its buffers with --buffer"
        raise InputFault(f"{path}: nchunksperloop: {what}, such as --buffer 64MiB")
    if size % program.chunks:
        near = max(size // program.chunks, 1) * program.chunks
        raise InputFault(f"{path}: --buffer: {size:,} bytes are not {program.chunks} alike chunks: give {near}B")
    if size < program.least_bytes or 0 < program.most_bytes < size:
        what = f"minBytes: {program.least_bytes}, maxBytes: {program.most_bytes}: MSCCL would not take it for {size:,} bytes"
        findings.note(str(path), "", what)
    return size // program.chunks


def _note(path: Path, program: MscclProgram, findings: Findings) -> None:
    note = findings.note
    if collective_of(program) is None:
        what = f"coll: '{program.collective}': what it has to leave with whom is not known, and not checked"
        note(str(path), "", what)
    else:
        note(str(path), "", f"leaves with every rank what {program.collective} promises, carried out in one order")
    note(str(path), "", "copies and additions take no time, and a chunk's protocol (proto) is not looked at")


class _Filling:
    """Adds the steps of a GPU's thread blocks."""

    def __init__(self, record: RankRecord, blocks: dict[int, ThreadBlock], chunk_bytes: int) -> None:
        self._record, self._blocks, self._chunk_bytes = record, blocks, chunk_bytes
        #: By thread block and step, the tasks that it ends with.
        self._ends: dict[tuple[int, int], list[int]] = {}
        #: The first tasks of steps, and the steps of other thread blocks that they wait for.
        self._waits: list[tuple[int, tuple[int, int]]] = []

    def fill(self) -> None:
        """Adds all steps, and then what waits for what of other thread blocks. Raises InputFault."""
        for block in self._blocks.values():
            self._refuse_shared(block)
            before: list[int] = []
            for step in block.steps:
                first, before = self._add(block, step, before)
                self._ends[block.number, step.number] = before
                if step.depends_block >= 0:
                    self._waits.append((first, (step.depends_block, step.depends_step)))
        for first, other in self._waits:
            for task in self._ends[other]:
                self._record.depend(first, task)

    def _refuse_shared(self, block: ThreadBlock) -> None:
        """Refuses two thread blocks whose messages to or from one GPU go over one channel: which is which is not said."""
        for other in self._blocks.values():
            if other.number < block.number and other.channel == block.channel:
                for key in ("sends_to", "receives_from"):
                    if getattr(block, key) == getattr(other, key) >= 0:
                        what = f"tb {other.number} and tb {block.number}: chan: both have channel {block.channel} with the same GPU"
                        raise InputFault(f"{self._record.file}: gpu {block.gpu}: {what}")

    def _add(self, block: ThreadBlock, step: ProgramStep, before: list[int]) -> tuple[int, list[int]]:
        """Adds the tasks of a step; returns the first, and those that it ends with."""
        record, place, size_bytes = self._record, block.place(step), step.count * self._chunk_bytes
        tasks: list[int] = []
        if step.type in RECEIVES:
            call = Call(Kind.RECV, place, size_bytes, peer=block.receives_from, tag=block.channel)
            tasks.append(record.call(call, before))
        if step.type in SENDS:
            call = Call(Kind.SEND, place, size_bytes, peer=block.sends_to, tag=block.channel)
            tasks.append(record.call(call, tasks or before))
        if not tasks:
            tasks.append(record.compute(0, POINT_STREAM, before, place))
        return tasks[0], tasks[-1:]
