"""Whether a program of MSCCL does what its collective promises: which ranks' chunks end where, carried out without time.

A chunk is a number in the buffer that comes in, and the set of ranks whose chunks of that number have been added. Thread
blocks go on as long as any can. What several orders would make of a program that forgot a dependency is not looked at: one
order is carried out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from gradwire.workloads.traces.formats.msccl_program import (
    RECEIVES,
    SENDS,
    MscclProgram,
    ProgramStep,
    Spot,
    ThreadBlock,
)

Value = tuple[int, int]
"""The number of a chunk, and the ranks that it is of, a bit each."""


class BrokenPromise(ValueError):
    """A program does not do what its collective promises; with the place and the reason."""


NAMES = ("allreduce", "allgather", "reducescatter", "alltoall")
"""Collectives by their names in MSCCL, without underscores."""


@dataclass(frozen=True)
class _Collective:
    """What a collective has before and after it, of so many chunks in the larger buffer and so many ranks."""

    name: str
    chunks: int
    ranks: int

    @property
    def share(self) -> int:
        """Chunks of one rank, where each has another part."""
        return self.chunks // self.ranks

    @property
    def comes_in(self) -> int:
        """Chunks in each rank's buffer that comes in."""
        return self.share if self.name == "allgather" else self.chunks

    @property
    def goes_out(self) -> int:
        """Chunks in each rank's buffer that goes out."""
        return self.share if self.name == "reducescatter" else self.chunks

    def in_place(self, rank: int, buffer: str, chunk: int) -> Spot:
        """Returns where a chunk is if both buffers are one."""
        if self.name == "allgather":
            return "o", chunk + (rank * self.share if buffer == "i" else 0)
        return "i", chunk + (rank * self.share if buffer == "o" and self.name == "reducescatter" else 0)

    def promised(self, rank: int, chunk: int) -> Value:
        """Returns what a chunk of a rank's buffer that goes out has to be."""
        everyone = (1 << self.ranks) - 1
        if self.name == "allreduce":
            return chunk, everyone
        if self.name == "reducescatter":
            return rank * self.share + chunk, everyone
        first = rank * self.share if self.name == "alltoall" else 0
        return first + chunk % self.share, 1 << chunk // self.share


def collective_of(program: MscclProgram) -> _Collective | None:
    """Returns what a program has to do; None if nobody said it."""
    name = program.collective.replace("_", "")
    if name not in NAMES or (program.chunks % program.gpus and name != "allreduce"):
        return None
    return _Collective(name, program.chunks, program.gpus)


def check_promise(program: MscclProgram) -> None:
    """Carries a program out. Raises BrokenPromise where it reads what is not there, adds what may not be added, waits for
    ever, or leaves a rank with something else than its collective promises."""
    _RankSets(program).run()


class _RankSets:
    """The chunks of all GPUs, and how far thread blocks are."""

    def __init__(self, program: MscclProgram) -> None:
        self._program = program
        self._collective = collective_of(program)
        count = program.chunks if self._collective is None else self._collective.comes_in
        self._memory: list[dict[Spot, Value]] = [{} for _ in range(program.gpus)]
        for gpu in range(program.gpus):
            for chunk in range(count):
                self._memory[gpu][self._spot(gpu, ("i", chunk), 0)] = chunk, 1 << gpu
        self._wires: dict[tuple[int, int, int], deque[list[Value]]] = {}
        self._done: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        """Carries out all steps. Raises BrokenPromise."""
        left = [
            (block, block.steps, 0)
            for of_gpu in self._program.blocks.values()
            for block in of_gpu.values()
            if block.steps
        ]
        while left:
            again, moves = [], False
            for block, steps, at in left:
                reached = self._advance(block, steps, at)
                moves = moves or reached > at
                if reached < len(steps):
                    again.append((block, steps, reached))
            if not moves:
                block, steps, at = left[0]
                raise BrokenPromise(f"{block.place(steps[at])}: waits for what never comes")
            left = again
        self._compare()

    def _advance(self, block: ThreadBlock, steps: list[ProgramStep], at: int) -> int:
        """Goes on with a thread block as long as it can; returns the first step that it cannot do yet."""
        while at < len(steps):
            step = steps[at]
            if step.depends_block >= 0 and self._done.get((block.gpu, step.depends_block), -1) < step.depends_step:
                return at
            wire = self._wires.get((block.receives_from, block.gpu, block.channel))
            if step.type in RECEIVES and not wire:
                return at
            self._carry_out(block, step, wire.popleft() if wire and step.type in RECEIVES else [])
            self._done[block.gpu, block.number] = step.number
            at += 1
        return at

    def _carry_out(self, block: ThreadBlock, step: ProgramStep, received: list[Value]) -> None:
        if step.type == "nop":
            return
        if step.type in RECEIVES and len(received) != step.count:
            raise BrokenPromise(f"{block.place(step)}: cnt: {step.count}, and {len(received)} chunks come")
        values = received or list(self._read(block, step, step.source))
        if step.type.startswith("rr"):
            values = self._added(block, step, received, self._read(block, step, step.source))
        elif step.type == "re":
            values = self._added(block, step, values, self._read(block, step, step.target))
        if step.target[0]:
            for number, value in enumerate(values):
                self._memory[block.gpu][self._spot(block.gpu, step.target, number)] = value
        if step.type in SENDS:
            key = block.gpu, block.sends_to, block.channel
            self._wires.setdefault(key, deque()).append(values)

    def _read(self, block: ThreadBlock, step: ProgramStep, spot: Spot) -> Iterator[Value]:
        for number in range(step.count):
            value = self._memory[block.gpu].get(self._spot(block.gpu, spot, number))
            if value is None:
                raise BrokenPromise(
                    f"{block.place(step)}: reads {spot[0]}[{spot[1] + number}], in which nothing is yet"
                )
            yield value

    def _added(self, block: ThreadBlock, step: ProgramStep, ones: list[Value], others: Iterator[Value]) -> list[Value]:
        added = []
        for (one, ranks), (other, more) in zip(ones, others, strict=True):
            if one != other:
                raise BrokenPromise(f"{block.place(step)}: adds chunk {one} to chunk {other}")
            if ranks & more:
                twice = (ranks & more).bit_length() - 1
                raise BrokenPromise(f"{block.place(step)}: adds chunk {one} of rank {twice} twice")
            added.append((one, ranks | more))
        return added

    def _spot(self, gpu: int, spot: Spot, number: int) -> Spot:
        """Where a chunk is, which for a program in place is the same in two buffers."""
        buffer, chunk = spot[0], spot[1] + number
        if self._program.in_place and self._collective is not None and buffer != "s":
            return self._collective.in_place(gpu, buffer, chunk)
        return buffer, chunk

    def _compare(self) -> None:
        """Compares what ranks have with what is promised. Raises BrokenPromise."""
        if self._collective is None:
            return
        for gpu, memory in enumerate(self._memory):
            for chunk in range(self._collective.goes_out):
                promised = self._collective.promised(gpu, chunk)
                found = memory.get(self._spot(gpu, ("o", chunk), 0))
                if found != promised:
                    what = "nothing" if found is None else _words(found)
                    raise BrokenPromise(
                        f"gpu {gpu}: o[{chunk}] has {what} at the end, and must have {_words(promised)}"
                    )


def _words(value: Value) -> str:
    ranks = [rank for rank in range(value[1].bit_length()) if value[1] >> rank & 1]
    return f"chunk {value[0]} of {len(ranks)} rank{'s' if len(ranks) > 1 else ''} ({', '.join(map(str, ranks[:8]))})"
