"""Programs of MSCCL as their XML has them: of each GPU, thread blocks, and of each of those, steps.

microsoft/msccl-tools (msccl/language/ir.py, `ir_to_xml` with `old_format`) writes, and RCCL (src/misc/msccl/msccl_parser.cc,
ROCm 6.2) and MSCCL read

    <algo name="ring" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1">
      <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="0">
        <tb id="0" send="1" recv="1" chan="0">
          <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>

Types are s (send), r (receive), cpy, re (add), nop, and what they make together: rcs (receive, copy and send on), rrc, rrs and
rrcs, which add. `depid` and `deps` are a thread block of the same GPU and its step, which are waited for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.json_items import opened, progress, read_block
from gradwire.workloads.traces.record import MOST_RANKS, Watch

TYPES = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop")
SENDS, RECEIVES = ("s", "rcs", "rrs", "rrcs"), ("r", "rcs", "rrs", "rrc", "rrcs")
FROM_SOURCE, TO_TARGET = ("s", "rrs", "rrc", "rrcs", "cpy", "re"), ("r", "rcs", "rrc", "rrcs", "cpy", "re")
"""Types that read the source of a step, and those that write its target."""
BUFFERS = ("i", "o", "s")
WHOLE = re.compile(r"-?[0-9]{1,9}")
MOST_STEPS, MOST_MOVED = 2_000_000, 4_000_000
"""The most steps, and the most chunks of all steps and of all GPUs; programs of 1.4 MB have 15,000 of each."""
BLOCK_BYTES = 1 << 20
Spot = tuple[str, int]
"""A buffer and the number of a chunk in it."""


@dataclass(frozen=True)
class ProgramStep:
    """A step of a thread block."""

    number: int
    type: str
    source: Spot
    target: Spot
    count: int
    #: A thread block of the same GPU and its step that is waited for; -1 where there is none.
    depends_block: int
    depends_step: int


@dataclass
class ThreadBlock:
    """Steps that follow one another, with the other ends of what they send and receive; -1 where there is none."""

    gpu: int
    number: int
    sends_to: int
    receives_from: int
    channel: int
    steps: list[ProgramStep] = field(default_factory=list)

    def place(self, step: ProgramStep) -> str:
        """Returns where a step is, for messages."""
        return f"gpu {self.gpu}, tb {self.number}, step {step.number}"


@dataclass
class MscclProgram:
    """A collective as a program."""

    name: str
    collective: str
    gpus: int
    #: Chunks of the larger of the buffers that come in and go out.
    chunks: int
    in_place: bool
    least_bytes: int
    most_bytes: int
    #: By GPU, thread blocks by their numbers.
    blocks: dict[int, dict[int, ThreadBlock]] = field(default_factory=dict)


def read_program(path: Path, watch: Watch) -> MscclProgram:
    """Reads a program. Raises InputFault, with the element and its attribute, for what is not one."""
    scan = _ElementScan(path)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = scan.doctype
    parser.StartElementHandler = scan.begin
    parser.EndElementHandler = scan.end
    with opened(path) as file:
        try:
            while block := read_block(path, file, BLOCK_BYTES):
                parser.Parse(block, False)
                watch(path, *progress(file))
            parser.Parse(b"", True)
        except (expat.ExpatError, ValueError) as error:
            raise InputFault(f"{path}: cannot be read as XML: {error}") from error
    return scan.program()


class _ElementScan:
    """Takes a program's elements as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[str] = []
        self._program: MscclProgram | None = None
        self._gpu = -1
        self._block: ThreadBlock | None = None
        self._steps = self._moved = 0

    def doctype(self, *_: object) -> None:
        """Raises InputFault."""
        raise InputFault(
            f"{self._path}: has a DOCTYPE, with which XML declares entities and names other files; remove it"
        )

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        """Takes an element. Raises InputFault for one that is not in its place, or lacks an attribute."""
        takes = {"algo": self._algorithm, "gpu": self._take_gpu, "tb": self._take_block, "step": self._take_step}
        within = {"algo": [], "gpu": ["algo"], "tb": ["algo", "gpu"], "step": ["algo", "gpu", "tb"]}
        if tag not in takes or self._open != within[tag]:
            more = ": MSCCL's newer form is not read: write it with old_format" if tag == "op" else ""
            raise self._fault(self._here(), f"<{tag[:40]}> in {' in '.join(self._open[::-1]) or 'the file'}{more}")
        self._open.append(tag)
        takes[tag](attributes)

    def end(self, _: str) -> None:
        """Leaves an element."""
        self._open.pop()

    def program(self) -> MscclProgram:
        """Returns the program. Raises InputFault if a GPU is missing."""
        if self._program is None:
            raise InputFault(f"{self._path}: has no <algo>")
        missing = next((gpu for gpu in range(self._program.gpus) if gpu not in self._program.blocks), None)
        if missing is not None:
            raise self._fault("algo", f"ngpus: {self._program.gpus}, and gpu {missing} is not there")
        for blocks in self._program.blocks.values():
            self._refuse_unknown(blocks)
        return self._program

    def _refuse_unknown(self, blocks: dict[int, ThreadBlock]) -> None:
        """Raises InputFault for a step that waits for one that is not there."""
        there = {(block.number, step.number) for block in blocks.values() for step in block.steps}
        for block in blocks.values():
            for step in block.steps:
                waited_for = step.depends_block, step.depends_step
                if step.depends_block >= 0 and waited_for not in there:
                    what = f"depid, deps: thread block {step.depends_block} has no step {step.depends_step}"
                    raise self._fault(block.place(step), what)

    def _algorithm(self, said: dict[str, str]) -> None:
        gpus = self._whole(said, "ngpus", 2, MOST_RANKS)
        chunks = self._whole(said, "nchunksperloop", 1, MOST_MOVED)
        if gpus * chunks > MOST_MOVED:
            raise self._fault(
                "algo", f"{chunks:,} chunks on {gpus:,} GPUs are more than the {MOST_MOVED:,} that are read"
            )
        self._program = MscclProgram(
            said.get("name", "")[:60], said.get("coll", "")[:40], gpus, chunks,
            self._whole(said, "inplace", 0, 1, "0") == 1 and self._whole(said, "outofplace", 0, 1, "0") == 0,
            self._whole(said, "minBytes", 0, 10**9, "0"), self._whole(said, "maxBytes", 0, 10**9, "0"),
        )  # fmt: skip

    def _take_gpu(self, said: dict[str, str]) -> None:
        program = self._known()
        self._gpu = self._whole(said, "id", 0, program.gpus - 1)
        if self._gpu in program.blocks:
            raise self._fault(f"gpu {self._gpu}", "id: is there twice")
        program.blocks[self._gpu] = {}

    def _take_block(self, said: dict[str, str]) -> None:
        most = self._known().gpus - 1
        block = ThreadBlock(
            self._gpu, self._whole(said, "id", 0, 10**6), self._whole(said, "send", -1, most),
            self._whole(said, "recv", -1, most), self._whole(said, "chan", 0, 10**6),
        )  # fmt: skip
        for key, other in (("send", block.sends_to), ("recv", block.receives_from)):
            if other == self._gpu:
                raise self._fault(f"gpu {self._gpu}, tb {block.number}", f"{key}: is the GPU itself")
        if block.number in self._known().blocks[self._gpu]:
            raise self._fault(f"gpu {self._gpu}", f"tb: id: {block.number} is there twice")
        self._known().blocks[self._gpu][block.number] = self._block = block

    def _take_step(self, said: dict[str, str]) -> None:
        block = self._block
        if block is None:
            raise self._fault(self._here(), "a step without a thread block")
        number = self._whole(said, "s", 0, MOST_STEPS)
        here = f"gpu {self._gpu}, tb {block.number}, step {number}"
        kind = said.get("type", "")
        if kind not in TYPES:
            raise self._fault(here, f"type: '{kind[:20]}': must be one of {', '.join(TYPES)}")
        if block.steps and number <= block.steps[-1].number:
            raise self._fault(here, f"s: is behind step {block.steps[-1].number}")
        for types, other, key in ((SENDS, block.sends_to, "send"), (RECEIVES, block.receives_from, "recv")):
            if kind in types and other < 0:
                raise self._fault(here, f"type: '{kind}': its thread block has no {key}")
        source, target = (
            self._spot(said, end) if kind in types else ("", 0)
            for end, types in (("src", FROM_SOURCE), ("dst", TO_TARGET))
        )
        count = 1 if kind == "nop" else self._whole(said, "cnt", 1, MOST_MOVED)
        self._steps, self._moved = self._steps + 1, self._moved + count
        if self._steps > MOST_STEPS or self._moved > MOST_MOVED:
            raise self._fault(here, f"more than {MOST_STEPS:,} steps, or {MOST_MOVED:,} chunks of steps, are not read")
        depends = (self._whole(said, key, -1, MOST_STEPS, "-1") for key in ("depid", "deps"))
        block.steps.append(ProgramStep(number, kind, source, target, count, *depends))

    def _spot(self, said: dict[str, str], end: str) -> Spot:
        buffer = said.get(f"{end}buf", "")
        if buffer not in BUFFERS:
            raise self._fault(self._here(), f"{end}buf: '{buffer[:20]}': must be i, o or s")
        return buffer, self._whole(said, f"{end}off", 0, MOST_MOVED)

    def _whole(self, said: dict[str, str], key: str, least: int, most: int, otherwise: str | None = None) -> int:
        text = said.get(key, otherwise)
        if text is None or WHOLE.fullmatch(text) is None or not least <= int(text) <= most:
            shown = "is missing" if text is None else f"'{text[:20]}'"
            raise self._fault(self._here(), f"{key}: {shown}: must be a whole number from {least} to {most:,}")
        return int(text)

    def _known(self) -> MscclProgram:
        if self._program is None:
            raise self._fault("the file", "has no <algo>")
        return self._program

    def _here(self) -> str:
        parts = [f"gpu {self._gpu}"] if "gpu" in self._open and self._gpu >= 0 else []
        if self._block is not None and self._open[-1:] == ["step"]:
            parts.append(f"tb {self._block.number}, step {len(self._block.steps)}")
        return ", ".join(parts) or "algo"

    def _fault(self, place: str, what: str) -> InputFault:
        return InputFault(f"{self._path}: {place}: {what}")
