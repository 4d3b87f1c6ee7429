"""Workloads of SimAI in text, as AICB writes them: the layers of a model, of which all ranks do the same.

AICB (aliyun/aicb, workload_generator/SimAI_training_workload_generator.py) writes a line of parallelism, the number of
layers, and of each layer its name, a dependency (-1), and the time, kind and bytes of its forward pass, of the gradients
of its inputs, and of those of its weights, and what it takes to take a result in. Times are nanoseconds.

    HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 8 ga: 1 all_gpus: 8 ... pp_comm: 0
    1
    attention -1 1750840 ALLGATHER 50331648 875420 REDUCESCATTER 0 875420 NONE 0 100

What is done with it follows SimAI (aliyun/SimAI, astra-sim-alibabacloud/astra-sim): `iterate_hybrid_parallel_*` of
workload/Workload.cc for the order, in which only the communication of weights' gradients is not waited for at once,
and `MockNcclGroup` of system/MockNcclGroup.cc for the groups. There, the size of an all-gather is of all that comes out.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.text_lines import lines_of
from gradwire.workloads.traces.record import (
    HOST_STREAM,
    MOST_FILLED_TASKS,
    MOST_RANKS,
    Call,
    Findings,
    RankRecord,
    Reading,
    Watch,
)
from gradwire.workloads.traces.workload import Kind

NAME = "SimAI workload"
TRANSFORMERS = ("HYBRID_TRANSFORMER", "HYBRID_TRANSFORMER_FWD_IN_BCKWD")
OTHERS = (
    *("MICRO", "DATA", "MODEL", "HYBRID_DLRM", "HYBRID_DLRM_ENHANCED", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA"),
    *("HYBRID_CUSTOMIZED", "DISTRIBUTED_INFERENCE"),
)
"""Parallelisms of `decode_parallelsim` that are not read."""
BEGINNING = re.compile(rb"\s*(%s)(\s[^\n]*)?\n\s*[0-9]+\s*\n" % "|".join((*TRANSFORMERS, *OTHERS)).encode())
KEYS = {
    "model_parallel_NPU_group": "tensor", "ep": "experts", "expert_parallel_npu_group": "experts", "pp": "stages",
    "all_gpus": "ranks", "pp_comm": "stage_bytes", "checkpoints": "checkpoints", "checkpoint_initiates": "checkpoints",
    "vpp": "", "ga": "",
}  # fmt: skip
"""Keys of the first line, and the fields that they become; "" for those that only say how many layers there are."""
WHOLE = re.compile(r"[0-9]{1,18}(\.0{1,18})?")
"""A number; AICB writes some as Python does floats."""
KINDS = {
    "ALLREDUCE": Kind.ALL_REDUCE, "ALLGATHER": Kind.ALL_GATHER, "REDUCESCATTER": Kind.REDUCE_SCATTER,
    "ALLTOALL": Kind.ALL_TO_ALL, "BROADCAST": Kind.BROADCAST,
}  # fmt: skip
SUFFIXES = {"_EP": "ep", "_DP_EP": "dp_ep"}
"""Groups by the ending of a kind. Without one it is of the tensor-parallel group, or of the data-parallel one if it is
of weights' gradients."""
COLUMNS = 12
MOST_LAYERS = 1_000_000


@dataclass
class _Parallelism:
    """How many ranks are in each kind of group, as the first line says."""

    tensor: int = 1
    experts: int = 1
    stages: int = 1
    ranks: int = 0
    stage_bytes: int = 0
    checkpoints: int = 0
    _groups: dict[tuple[int, int, int], tuple[int, ...]] = field(default_factory=dict)

    def groups_of(self, rank: int) -> dict[str, tuple[int, ...]]:
        """Returns the ranks of each group that a rank is in, the same tuples for all of a group."""
        place, replica = rank % self.tensor, rank // self.tensor
        first, own = replica - replica % self.experts, replica % self.experts
        return {
            "tp": self._group(replica * self.tensor, 1, self.tensor),
            "dp": self._group(place, self.tensor, self.ranks // self.tensor),
            "ep": self._group(place + first * self.tensor, self.tensor, self.experts),
            "dp_ep": self._group(
                place + own * self.tensor, self.tensor * self.experts, self.ranks // self.tensor // self.experts
            ),
        }

    def _group(self, first: int, apart: int, members: int) -> tuple[int, ...]:
        key = first, apart, members
        if key not in self._groups:
            self._groups[key] = tuple(range(first, first + apart * members, apart))
        return self._groups[key]


@dataclass(frozen=True)
class _Pass:
    """The work of one pass of a layer: a time, and then a communication, unless it has none."""

    duration_ns: int
    kind: Kind | None
    group: str
    size_bytes: int
    place: str
    update_ns: int


def recognises(beginning: bytes) -> bool:
    """Returns whether a file that begins so may be a workload of SimAI."""
    return BEGINNING.match(beginning) is not None


def read(path: Path, reading: Reading, watch: Watch) -> list[RankRecord]:
    """Reads a workload: the records of all ranks, which do the same. Raises InputFault for what is not one."""
    if reading.step is not None:
        raise InputFault(
            f"{path}: --step {reading.step}: a workload of SimAI is one step; Kineto profiles tell them apart"
        )
    lines = ((number, line.split()) for number, line in lines_of(path, watch) if line.strip())
    said = _parallelism(path, next(lines, (1, []))[1], reading)
    number, count = next(lines, (2, []))
    if len(count) != 1 or WHOLE.fullmatch(count[0]) is None or not 0 < _whole(count[0]) <= MOST_LAYERS:
        raise InputFault(f"{path}: line {number}: must be the number of layers, at most {MOST_LAYERS:,}")
    layers = [_layer(path, number, words) for number, words in lines]
    if len(layers) != _whole(count[0]):
        raise InputFault(f"{path}: line {number}: says {count[0]} layers, and there are {len(layers)}")
    record = RankRecord(path, NAME, Findings())
    record.groups = said.groups_of(0)
    _Filling(record).fill(layers)
    if len(record) * said.ranks > MOST_FILLED_TASKS:
        what = f"{len(record):,} tasks on each of {said.ranks:,} ranks are more than the {MOST_FILLED_TASKS:,} that are read"
        raise InputFault(f"{path}: {what}: give fewer ranks with --ranks, or fewer layers")
    what = "all ranks do the same, in groups that SimAI makes: neighbours share the tensor, then the experts"
    record.findings.note(record.file, "", what)
    return [_of_rank(record, rank, said) for rank in range(said.ranks)]


def _parallelism(path: Path, words: list[str], reading: Reading) -> _Parallelism:
    """Returns the parallelism that the first line states. Raises InputFault for a value that is not read, with its key."""
    policy, *rest = words or [""]
    if policy not in TRANSFORMERS:
        raise InputFault(f"{path}: line 1: {policy}: of SimAI's parallelisms, {' and '.join(TRANSFORMERS)} are read")
    said = _Parallelism()
    if len(rest) % 2:
        raise InputFault(f"{path}: line 1: must be keys and numbers, such as 'pp: 1', and ends in '{rest[-1][:60]}'")
    for key, value in zip(rest[::2], rest[1::2], strict=True):
        named = KEYS.get(key.removesuffix(":"))
        if named is None or WHOLE.fullmatch(value) is None:
            raise InputFault(f"{path}: line 1: '{key[:60]} {value[:60]}': is no key of SimAI's with a whole number")
        if named == "checkpoints" and _whole(value):
            raise InputFault(f"{path}: line 1: {key} {value}: layers that are computed once more are not read")
        if named:
            setattr(said, named, _whole(value))
    if said.stages > 1 or said.stage_bytes:
        what = f"pp: {said.stages}, pp_comm: {said.stage_bytes}: the file has the layers of one stage, and not what others do"
        raise InputFault(f"{path}: line 1: {what}; write it with pp: 1")
    if reading.ranks is not None and said.ranks not in (0, reading.ranks):
        raise InputFault(f"{path}: line 1: all_gpus: {said.ranks}, and --ranks says {reading.ranks}")
    said.ranks = said.ranks or reading.ranks or 0
    if not said.ranks:
        raise InputFault(f"{path}: line 1: does not say all_gpus: give the number of ranks with --ranks")
    within = said.tensor * said.experts
    if said.ranks > MOST_RANKS or not within or said.ranks % within:
        what = f"{said.ranks:,} ranks in groups of {said.tensor} (model_parallel_NPU_group) times {said.experts} (ep)"
        raise InputFault(f"{path}: line 1: {what}: must divide, with at most {MOST_RANKS:,} ranks")
    return said


def _whole(text: str) -> int:
    return int(text.partition(".")[0])


def _layer(path: Path, number: int, words: list[str]) -> tuple[_Pass, ...]:
    """The forward pass of a layer, its inputs' gradients and its weights'. Raises InputFault."""
    place = f"line {number}"
    if len(words) != COLUMNS:
        raise InputFault(f"{path}: {place}: has {len(words)} columns, and a layer has {COLUMNS}")
    name, dependency, *passes, update = words
    if dependency != "-1":
        raise InputFault(
            f"{path}: {place}: depends on '{dependency[:60]}': SimAI reads no dependencies, and AICB has -1"
        )
    numbers = [*passes[::3], *passes[2::3], update]
    wrong = next((text for text in numbers if WHOLE.fullmatch(text) is None), None)
    if wrong is not None:
        raise InputFault(f"{path}: {place}: '{wrong[:60]}': must be a whole number")
    return tuple(
        _Pass(_whole(time), *_kind(path, place, kind, gradients=column == 2), _whole(size), f"{place} ({name[:60]})",
              _whole(update))
        for column, (time, kind, size) in enumerate(zip(passes[::3], passes[1::3], passes[2::3], strict=True))
    )  # fmt: skip


def _kind(path: Path, place: str, said: str, *, gradients: bool) -> tuple[Kind | None, str]:
    """The kind of a communication and its group; gradients: of weights' gradients. Raises InputFault."""
    if said == "NONE":
        return None, ""
    plain, underscore, ending = said.partition("_")
    kind, group = KINDS.get(plain), SUFFIXES.get(underscore + ending, "" if underscore else "dp" if gradients else "tp")
    if kind is None or not group:
        endings = " or ".join(SUFFIXES)
        what = f"must be NONE, or one of {', '.join(KINDS)}, alone or with {endings}"
        raise InputFault(f"{path}: {place}: '{said[:60]}': {what}")
    return kind, group


class _Filling:
    """Adds what a rank does: all forward passes, and then, from the last layer on, the gradients."""

    def __init__(self, record: RankRecord) -> None:
        self._record = record
        self._last: list[int] = []
        #: The last communication of weights' gradients in each group.
        self._of_weights: dict[str, list[int]] = {}

    def fill(self, layers: list[tuple[_Pass, ...]]) -> None:
        """Adds the passes of all layers."""
        for forward, _, _ in layers:
            self._waited(forward)
        for _, inputs, weights in reversed(layers):
            self._waited(inputs)
            self._compute(weights)
            before = self._of_weights.get(weights.group, [])
            call = self._call(weights, [*self._last, *before])
            if call is not None:
                self._of_weights[weights.group] = [call]
                self._record.compute(weights.update_ns, HOST_STREAM, [call])

    def _waited(self, work: _Pass) -> None:
        """Adds a pass whose communication is waited for."""
        self._compute(work)
        call = self._call(work, self._last)
        if call is not None:
            self._last = [self._record.compute(work.update_ns, HOST_STREAM, [call])]

    def _compute(self, work: _Pass) -> None:
        if work.duration_ns:
            self._last = [self._record.compute(work.duration_ns, after=self._last, item=work.place)]

    def _call(self, work: _Pass, after: list[int]) -> int | None:
        """Adds the communication of a pass; None if it has none, or none that moves anything."""
        record = self._record
        if work.kind is None or not work.size_bytes:
            return None
        members = len(record.groups[work.group])
        if members == 1:
            record.findings.note(record.file, work.place, f"communication in a group of one rank ({work.group}): none")
            return None
        size_bytes = work.size_bytes
        if work.kind is Kind.ALL_GATHER:
            size_bytes //= members
        if work.size_bytes % members and work.kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL):
            what = f"bytes that {members} ranks do not share evenly: rounded down to what they do, as SimAI does"
            record.findings.note(record.file, work.place, what)
            size_bytes = work.size_bytes // members * (1 if work.kind is Kind.ALL_GATHER else members)
        return record.call(Call(work.kind, work.place, size_bytes, group=work.group), after)


def _of_rank(record: RankRecord, rank: int, said: _Parallelism) -> RankRecord:
    """The record of a rank, which shares its tasks with the others."""
    own = copy(record)
    own.rank, own.world, own.groups = rank, said.ranks, said.groups_of(rank)
    own.findings = record.findings if rank == 0 else Findings()
    return own
