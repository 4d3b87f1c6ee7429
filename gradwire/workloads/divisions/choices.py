"""The possible divisions of a model: data x tensor x pipeline x context, experts, chunks, microbatches and
recomputation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal

from gradwire.faults import InputFault
from gradwire.workloads.engines.parallel.ring_attention import key_value_values
from gradwire.workloads.engines.parallel.segments import HALF, cut, piece_blocks
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.published_models import published_shape
from gradwire.workloads.models.resized import block_count

MICROBATCH_SAMPLES = (1, 2, 4, 8)
"""Samples of a microbatch that are tried."""
MOST_CHUNKS = 16
"""Pieces of a stage, at most: powers of two up to this."""
LEAST_CONTEXT_TOKENS = 4096
"""The fewest tokens of a sample at each of the workers that divide it. Llama 3 405B had 8,192 of 131,072 at each of 16,
and divided no shorter samples (The Llama 3 Herd of Models, 2024, table 4)."""
MOST_PASSES = 500_000
"""Forward passes of microbatches through pieces of the model in an iteration, of all stages: a bound of so many takes
seconds. Llama 3 405B on 64 GPUs, with 16 M tokens, has 260,000."""
RECOMPUTES: tuple[Literal["none", "full"], ...] = ("none", "full")
"""The choices of recomputation that are tried. "selective" keeps attention's scores out of memory, which a fused
attention never stores (Dao et al., FlashAttention, 2022; workloads/divisions/memory.py)."""


@dataclass(frozen=True)
class ModelShape:
    """The properties of a model that decide how it can be divided."""

    blocks: int
    #: Heads of queries, and of keys and values; 0 where the model's source does not say.
    heads: int
    key_value_heads: int
    #: Inputs and outputs of the blocks' products.
    widths: frozenset[int]
    #: Whether workers can divide the tokens of a sample: keys and values are separate products.
    divides_tokens: bool = False
    #: Experts of a block; 0 for a model without them.
    experts: int = 0

    @staticmethod
    def of(profile: Profile) -> ModelShape:
        """Returns the shape of a transformer."""
        shape = published_shape(profile.name)
        widths = {
            side
            for layer in profile.layers
            if HALF.match(layer.name)
            for tensor in layer.tensors
            if tensor.parameters > tensor.rows
            for side in (tensor.rows, tensor.parameters // tensor.rows)
        }
        heads = (shape.heads, shape.key_value_heads) if shape else (0, 0)
        blocks = block_count(profile)
        return ModelShape(blocks, *heads, frozenset(widths), _divides_tokens(profile), _experts(profile))

    def divides_into(self, tensor: int) -> bool:
        """Returns whether so many workers can share every product evenly: each has whole heads of queries, and whole
        heads of keys and values, or several share one of those."""
        if not self.heads:
            return all(width % tensor == 0 for width in self.widths)
        keys = self.key_value_heads
        return self.heads % tensor == 0 and (keys % tensor == 0 or tensor % keys == 0)


def _divides_tokens(profile: Profile) -> bool:
    try:
        return key_value_values(profile, 1) is not None
    except InputFault:
        return False


def _experts(profile: Profile) -> int:
    """Experts of a block; blocks that differ in that are divided as the first one is."""
    return next((s.experts for s in chain(*cut(profile, 1, 2).stages) if s.experts), 0) if _has_experts(profile) else 0


def _has_experts(profile: Profile) -> bool:
    return any(layer.name.endswith("/experts") for layer in profile.layers)


@dataclass(frozen=True)
class DivisionChoice:
    """One way to divide a model."""

    data: int
    tensor: int
    pipeline: int
    chunks: int
    #: Samples of a microbatch, and microbatches of a replica.
    samples: int
    microbatches: int
    recompute: Literal["none", "full"]
    #: Blocks of the first and the last piece; None: as many as others.
    ends: tuple[int | None, int | None] = (None, None)
    #: Workers that divide a sample's tokens; all of them hold the same parameters.
    context: int = 1
    #: Workers that divide the experts; of those that hold the same parameters but for these.
    experts: int = 1

    strategy: ClassVar[str] = "megatron"
    #: Samples of a worker, which `options` have instead.
    batch: ClassVar[int | None] = None
    #: Divisions of one family are ranked among themselves as well.
    family: ClassVar[str] = ""

    @property
    def title(self) -> str:
        """The products of the groups."""
        return f"{self.data} x {self.tensor} x {self.pipeline}"

    @property
    def holders(self) -> int:
        """Workers that hold the same parameters, but for experts."""
        return self.data * self.context

    @property
    def expert_holders(self) -> int:
        """Workers that hold the same experts."""
        return self.holders // self.experts

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """The options of `megatron`. Sequence parallelism, a divided optimizer and overlapped gradients are taken
        wherever they do something."""
        found: dict[str, Any] = {
            "tensor": self.tensor,
            "stages": self.pipeline,
            "chunks": self.chunks,
            "microbatches": self.microbatches,
            "replica_batch": self.microbatches * self.samples,
            "recompute": self.recompute,
            "sequence_parallel": self.tensor > 1,
            "sharded_optimizer": self.holders > 1,
            "overlap_gradients": self.holders > 1,
        }
        found |= {"context": self.context} if self.context > 1 else {}
        found |= {"experts": self.experts} if self.experts > 1 else {}
        found |= {
            key: count
            for key, count in zip(("first_blocks", "last_blocks"), self.ends, strict=True)
            if count is not None
        }
        return found

    def __str__(self) -> str:
        """Returns the choice in the words of `--parallel`, and the rest of it behind them."""
        words = [f"data={self.data}", f"tensor={self.tensor}", f"pipeline={self.pipeline}"]
        words += [f"context={self.context}"] if self.context > 1 else []
        words += [f"experts={self.experts}"] if self.experts > 1 else []
        words += [f"chunks={self.chunks}"] if self.chunks > 1 else []
        words += [f"microbatches={self.microbatches} of {self.samples}"]
        words += ["recompute"] if self.recompute == "full" else []
        return ", ".join(words)


@dataclass(frozen=True)
class DivisionRequest:
    """A model, and the GPUs and samples among which it is to be divided."""

    gpus: int
    #: GPUs of a machine.
    machine_gpus: int
    #: Samples of an iteration.
    samples: int
    shape: ModelShape
    #: Tokens of a sample.
    tokens: int = 0


HEADS = "tensor does not divide the heads"
BLOCKS = "stages and chunks do not divide the blocks, not even with fewer in the last piece"
SAMPLES = "replicas do not divide the samples of an iteration"
PASSES = f"stages, chunks and microbatches make more than {MOST_PASSES:,} passes"
MACHINES = "machines would have parts of several stages or tensor groups"


def choices(asked: DivisionRequest) -> tuple[list[DivisionChoice], Counter[str]]:
    """All divisions that there are, and how many products of data, tensor and pipeline are left out, by reason."""
    found: list[DivisionChoice] = []
    left_out: Counter[str] = Counter()
    for tensor, pipeline, holders in _products(asked.gpus):
        if not asked.shape.divides_into(tensor):
            left_out[HEADS] += 1
        elif not _fills_machines(asked.machine_gpus, tensor, holders):
            left_out[MACHINES] += 1
        elif pieces := list(_pieces(asked.shape.blocks, pipeline)):
            for context, experts in _neighbours(asked, tensor, holders):
                data = holders // context
                if asked.samples % data:
                    left_out[SAMPLES] += 1
                    continue
                parts = [
                    (chunks, ends, samples, microbatches)
                    for chunks, ends in pieces
                    for samples, microbatches in split_into_microbatches(asked.samples // data)
                    if pipeline * chunks * microbatches <= MOST_PASSES
                ]
                left_out[PASSES] += not parts
                found += (
                    DivisionChoice(
                        data, tensor, pipeline, chunks, samples, microbatches, recompute, ends, context, experts
                    )
                    for chunks, ends, samples, microbatches in parts
                    if chunks == 1 or microbatches % pipeline == 0
                    for recompute in RECOMPUTES
                )
        else:
            left_out[BLOCKS] += 1
    return found, +left_out


def _neighbours(asked: DivisionRequest, tensor: int, holders: int) -> Iterator[tuple[int, int]]:
    """Yields how many neighbouring workers divide tokens, and how many divide experts, for `holders` workers that hold
    the same parameters. One of the two is 1, as in `megatron`."""
    groups = max(1, asked.machine_gpus // tensor)
    most = asked.tokens // LEAST_CONTEXT_TOKENS if asked.shape.divides_tokens else 1
    contexts = (2**power for power in range(1, max(1, most).bit_length()))
    experts = (count for count in range(2, asked.shape.experts + 1) if asked.shape.experts % count == 0)
    yield 1, 1
    yield from ((count, 1) for count in contexts if holders % count == 0 and _fits_machines(count, groups))
    yield from ((1, count) for count in experts if holders % count == 0 and _fits_machines(count, groups))


def _fits_machines(count: int, groups: int) -> bool:
    """Returns whether groups of neighbours fill machines of so many tensor groups, or machines have whole groups."""
    return count % groups == 0 or groups % count == 0


def _products(gpus: int) -> Iterator[tuple[int, int, int]]:
    divisors = [number for number in range(1, gpus + 1) if gpus % number == 0]
    for tensor in divisors:
        for pipeline in (number for number in divisors if (gpus // tensor) % number == 0):
            yield tensor, pipeline, gpus // tensor // pipeline


def _fills_machines(machine_gpus: int, tensor: int, data: int) -> bool:
    """Returns whether each machine has parts of one tensor group, or whole ones of one stage."""
    if tensor % machine_gpus == 0:
        return True
    return machine_gpus % tensor == 0 and data % (machine_gpus // tensor) == 0


def _pieces(blocks: int, pipeline: int) -> Iterator[tuple[int, tuple[int | None, int | None]]]:
    """Numbers of chunks, and the blocks of the first and the last piece."""
    chunks = 1
    while chunks <= (MOST_CHUNKS if pipeline > 1 else 1):
        ends = end_blocks(blocks, pipeline * chunks)
        if ends is not None:
            yield chunks, ends
        chunks *= 2


def end_blocks(blocks: int, pieces: int) -> tuple[int | None, int | None] | None:
    """The blocks of the first and the last piece where they have one less than the others, or the last one alone has;
    (None, None) where all have as many. Else the last one alone has fewer, and None where that does not work either.

    Llama 3 405B has one block less in the first stage and in the last one (The Llama 3 Herd of Models, 2024, section
    3.3), for what the embedding and the output take.
    """
    if piece_blocks(blocks, pieces):
        return None, None
    if pieces > 1 and (blocks + 2) % pieces == 0:
        less = (blocks + 2) // pieces - 1
        return (less, less) if piece_blocks(blocks, pieces, less, less) else None
    if pieces > 1 and (blocks + 1) % pieces == 0:
        less = (blocks + 1) // pieces - 1
        return (None, less) if piece_blocks(blocks, pieces, None, less) else None
    # As in DeepSeek-V3, whose 61 blocks are in 16 stages, the last piece has what is left.
    left = blocks - -(-blocks // pieces) * (pieces - 1)
    return (None, left) if pieces > 1 and left > 0 and piece_blocks(blocks, pieces, None, left) else None


def split_into_microbatches(samples: int) -> Iterator[tuple[int, int]]:
    """Yields numbers of samples of a microbatch, and of microbatches of so many samples."""
    for size in MICROBATCH_SAMPLES:
        if samples % size == 0:
            yield size, samples // size
