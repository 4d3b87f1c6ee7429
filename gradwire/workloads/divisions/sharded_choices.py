"""Fully sharded data parallelism as a way to divide a model: all GPUs hold it together (FSDP), or those of each machine do (hybrid
sharding, HSDP), and how fast either can be at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from gradwire.workloads.divisions.choices import (
    PASSES,
    RECOMPUTES,
    SAMPLES,
    DivisionRequest,
    split_into_microbatches,
)
from gradwire.workloads.divisions.least_time import LeastTime
from gradwire.workloads.engines.allreduce_plan import BYTES_ON_WIRE
from gradwire.workloads.engines.parallel.sharded import ROOT, recomputing, units_of
from gradwire.workloads.job import Job
from gradwire.workloads.strategies.fsdp import FsdpOptions

MOST_UNIT_PASSES = 20_000
"""Passes of microbatches through blocks in an iteration: an estimate of so many takes half a minute."""


@dataclass(frozen=True)
class ShardedChoice:
    """One way to shard a model. It has the dimensions of other divisions, none of which but data is divided."""

    gpus: int
    #: Neighbours that hold the model together.
    shard: int
    #: Samples of a microbatch, and microbatches of a GPU.
    samples: int
    microbatches: int
    recompute: Literal["none", "full"]
    #: Whether parameters are forgotten after the forward pass, and gathered again.
    reshard: bool

    strategy: ClassVar[str] = "fsdp"
    tensor: ClassVar[int] = 1
    pipeline: ClassVar[int] = 1
    chunks: ClassVar[int] = 1
    context: ClassVar[int] = 1
    experts: ClassVar[int] = 1
    ends: ClassVar[tuple[int | None, int | None]] = (None, None)

    @property
    def data(self) -> int:
        """GPUs that have samples of their own."""
        return self.gpus

    @property
    def batch(self) -> int:
        """Samples of a GPU in an iteration."""
        return self.samples * self.microbatches

    @property
    def family(self) -> str:
        """Returns "FSDP" or "HSDP"."""
        return "FSDP" if self.shard == self.gpus else "HSDP"

    @property
    def title(self) -> str:
        """Words for the groups: "FSDP 64", or the replicas and GPUs of "HSDP 8 x 8"; "kept" is `reshard_after_forward` = false."""
        groups = f"{self.gpus}" if self.shard == self.gpus else f"{self.gpus // self.shard} x {self.shard}"
        return f"{self.family} {groups}{'' if self.reshard else ' kept'}"

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """The options of `fsdp`."""
        found: dict[str, Any] = {"microbatches": self.microbatches, "recompute": self.recompute}
        found |= {} if self.shard == self.gpus else {"shard": self.shard}
        return found | ({} if self.reshard else {"reshard_after_forward": False})

    def __str__(self) -> str:
        """Returns the choice in words."""
        words = [self.title, f"microbatches={self.microbatches} of {self.samples}"]
        words += ["recompute"] if self.recompute == "full" else []
        return ", ".join(words)


def sharded_choices(asked: DivisionRequest) -> tuple[list[ShardedChoice], Counter[str]]:
    """Returns all ways to shard that there are, and how many are left out, by reason."""
    if asked.samples % asked.gpus:
        return [], Counter({SAMPLES: 1})
    left_out = Counter[str]()
    found: list[ShardedChoice] = []
    for samples, microbatches in split_into_microbatches(asked.samples // asked.gpus):
        if microbatches * asked.shape.blocks > MOST_UNIT_PASSES:
            left_out[PASSES] += 1
            continue
        found += (
            ShardedChoice(asked.gpus, shard, samples, microbatches, recompute, reshard)
            for shard in _shards(asked)
            for recompute in RECOMPUTES
            for reshard in (True, False)
        )
    return found, left_out


def _shards(asked: DivisionRequest) -> Iterator[int]:
    yield asked.gpus
    if 1 < asked.machine_gpus < asked.gpus:
        yield asked.machine_gpus


def sharded_least_time(job: Job, choice: ShardedChoice, rate_bytes_per_s: float) -> LeastTime:
    """Returns the least time of an iteration: computation, or what each NIC sends, of which there is one for each GPU.

    job: of all workers, with times of `job.batch` samples; rate: of a NIC, for payload.
    """
    computed = recomputing(job) if choice.recompute == "full" else job
    compute_s = computed.compute_s * choice.batch / job.batch
    sent_s = choice.microbatches * _sent_bytes(job, choice) / rate_bytes_per_s
    return LeastTime(max(compute_s, sent_s), compute_s, compute_s)


def _sent_bytes(job: Job, choice: ShardedChoice) -> float:
    """Returns the bytes that each NIC sends for a microbatch: around a ring of all GPUs, a machine's NICs share what leaves it
    once; with a machine's GPUs as a group, each sums its shard with its likes."""
    options = FsdpOptions()
    gathered_bytes, reduced_bytes = BYTES_ON_WIRE[options.parameters], BYTES_ON_WIRE[options.gradients]
    machines = choice.gpus // job.cluster.workers_per_host
    if machines == 1:
        return 0.0
    root = sum(unit.values for unit in units_of(job.profile) if unit.name == ROOT)
    values = job.profile.parameters
    if choice.shard < choice.gpus:
        return 2 * (machines - 1) / machines * reduced_bytes * values / choice.shard
    gathered = root + (values - root) * (2 if choice.reshard else 1)
    around = (choice.gpus - 1) / choice.gpus / job.cluster.workers_per_host
    return around * (gathered * gathered_bytes + values * reduced_bytes)
