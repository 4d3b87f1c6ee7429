"""Ways to train a model whose workers are divided as a user says: "data=8,tensor=8"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.scenario.contenders import ALLREDUCE, CONTENDERS, Contender

BLOCKS, BLOCKS_PER_STAGE = 8, 4
"""Blocks that stand for more of them, of the model and of a stage, at least. With 4, 8 and 16 of the 80 blocks of Llama 3 70B on 64 GPUs,
FSDP's iteration comes out 1.5, 0.9 and 0.5 % too short, and Megatron's within 0.1 % (docs/quicker-runs.md)."""
MOST_ON_HOST = 8
"""GPUs of a machine where nothing says how many: as many as the common ones have (NVIDIA's DGX and HGX)."""
MEGATRON = "megatron"
SHARDED = ("ddp", "zero1", "zero2", "fsdp")
"""Strategies that divide data alone."""


@dataclass(frozen=True)
class Parallel:
    """Workers as a product of groups."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    #: Workers that divide a sample's tokens.
    context: int = 1
    #: Replicas, out of `data`, that a mixture's experts are divided among.
    expert: int = 1

    @staticmethod
    def parse(text: str) -> Parallel:
        """Reads "data=8,tensor=8". Raises InputFault."""
        known = [field.name for field in fields(Parallel)]
        sizes: dict[str, int] = {}
        for part in text.split(","):
            name, _, number = (word.strip() for word in part.partition("="))
            if name not in known or not number.isdecimal() or not 1 <= int(number) <= 10_000 or name in sizes:
                raise InputFault(
                    f"--parallel '{text}': '{part.strip()}' must be one of {', '.join(known)}, each once, with a number, as in "
                    "'data=8,tensor=8'"
                )
            sizes[name] = int(number)
        parallel = Parallel(**sizes)
        if parallel.data % parallel.expert:
            raise InputFault(f"--parallel '{text}': expert = {parallel.expert} must divide data = {parallel.data}")
        return parallel

    @property
    def workers(self) -> int:
        """Number of all workers."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def usual_on_host(self) -> int:
        """GPUs of a machine: as many as share a layer's products, or else up to MOST_ON_HOST."""
        return self.tensor if self.tensor > 1 else math.gcd(self.workers, MOST_ON_HOST)

    @property
    def words(self) -> str:
        """Text for the name of a folder."""
        return "-".join(f"{name}{size}" for name, size in self._named)

    def __str__(self) -> str:
        """Text as it is written on the command line."""
        return ",".join(f"{name}={size}" for name, size in self._named)

    @property
    def _named(self) -> list[tuple[str, int]]:
        sizes = [(field.name, int(getattr(self, field.name))) for field in fields(self)]
        return [(name, size) for name, size in sizes if size > 1 or name == "data"]

    @property
    def divides_data_alone(self) -> bool:
        """Whether every worker has the whole model."""
        return self.tensor == self.pipeline == self.context == self.expert == 1


def kept_blocks(parallel: Parallel, blocks: int) -> int | None:
    """Number of a model's blocks that stand for all; None if too few could be left out."""
    kept = parallel.pipeline * max(BLOCKS_PER_STAGE, -(-BLOCKS // parallel.pipeline))
    return kept if blocks >= 2 * kept else None


def divided(parallel: Parallel, names: Sequence[str] = ()) -> list[Contender]:
    """The ways to train a model that is divided so, or those by the named strategies. Raises InputFault for a name that has no part.

    In addition to what `parallel` says, Megatron's options are tried one at a time, and those of gradients together as well.
    """
    options = {
        "tensor": parallel.tensor,
        "stages": parallel.pipeline,
        "context": parallel.context,
        "experts": parallel.expert,
    }
    shares = {key: size for key, size in options.items() if size > 1}
    if not parallel.divides_data_alone:
        # A microbatch has as many samples as a worker would process alone.
        shares["microbatches"] = parallel.workers // parallel.data
    found = [Contender(MEGATRON, ALLREDUCE, shares | own, told_by=tuple(own)) for own in _megatron_options(parallel)]
    if parallel.divides_data_alone:
        # As they take part in other comparisons: with formats and buckets that are alike.
        alike = {contender.strategy: contender for contender in CONTENDERS}
        found = [*(alike[name] for name in SHARDED), *found]
    known = dict.fromkeys(contender.strategy for contender in found)
    if unknown := [name for name in names if name not in known]:
        raise InputFault(f"--strategy {', '.join(unknown)}: with --parallel {parallel} there are {', '.join(known)}")
    return [contender for contender in found if not names or contender.strategy in names]


def _megatron_options(parallel: Parallel) -> list[Document]:
    """Options to try: none, and each by itself where it does something; those of gradients together as well."""
    tried: list[Document] = [{}]
    if parallel.data > 1:
        tried += [{"overlap_gradients": True}, {"sharded_optimizer": True}]
        tried.append({"overlap_gradients": True, "sharded_optimizer": True})
        tried.append({"algorithm": "double-tree"})
        if parallel.data & (parallel.data - 1) == 0:
            tried.append({"algorithm": "halving-doubling"})
        if not parallel.divides_data_alone:
            tried.append({"overlap_gradients": True, "priorities": True})
    if parallel.tensor > 1:
        tried.append({"sequence_parallel": True})
    if parallel.pipeline > 1:
        tried += [{"schedule": "gpipe"}, {"chunks": 2}]
    return tried
