"""The division of a job among workers by tensor, pipeline, expert and data parallelism, and the order in which a stage
runs its passes.

Sources: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC 2021
(the grid of ranks, and 1F1B with flush, after PipeDream-Flush, and interleaved); Huang et al., GPipe: Efficient
Training of Giant Neural Networks using Pipeline Parallelism, NeurIPS 2019; for the order of interleaved passes,
`get_pp_rank_microbatches` and `get_schedule_table` in Megatron-LM's megatron/core/pipeline_parallel/schedules.py.

Where p stages of v chunks take the same time for each of m microbatches and messages take none, the bubble is (p - 1)
/ (m v) of the time that computation takes, and with either schedule (p - 1) / m where stages are whole.

A job's workers are a grid. Neighbours share a layer's products (tensor), so that they are on one host where hosts have
that many GPUs; then come replicas (data), then stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gradwire.faults import InputFault
from gradwire.workloads.engines.nccl.options import Setup
from gradwire.workloads.plan_size import MOST_OPS

PipelineSchedule = Literal["gpipe", "1f1b"]


class Pass(NamedTuple):
    """A pass of a microbatch through a stage, or through one of its chunks."""

    forward: bool
    microbatch: int
    chunk: int = 0


def passes_of_stage(
    schedule: PipelineSchedule, stages: int, stage: int, microbatches: int, chunks: int = 1
) -> list[Pass]:
    """All passes of a stage in an iteration, in order; backward passes take microbatches in the order of the forward
    passes.

    "gpipe": all forward passes, then all backward passes. "1f1b": as many forward passes as there are stages behind
    this one, then one forward and one backward pass in turn, then the backward passes that are left. With several
    chunks, `stages` microbatches go through a chunk and then through the next one, and twice as many passes go ahead,
    besides those through all chunks but the last.
    """
    forward = _order(stages, microbatches, chunks)
    backward = [Pass(False, forward_pass.microbatch, chunks - 1 - forward_pass.chunk) for forward_pass in forward]
    if schedule == "gpipe":
        ahead = len(forward)
    elif chunks == 1:
        ahead = min(stages - 1 - stage, microbatches)
    else:
        ahead = min(2 * (stages - 1 - stage) + (chunks - 1) * stages, len(forward))
    order = forward[:ahead]
    for number in range(len(forward) - ahead):
        order += [forward[ahead + number], backward[number]]
    return order + backward[len(forward) - ahead :]


def _order(stages: int, microbatches: int, chunks: int) -> list[Pass]:
    """Forward passes: groups of as many microbatches as there are stages, each group through one chunk after the
    other."""
    if chunks == 1:
        return [Pass(True, number) for number in range(microbatches)]
    return [
        Pass(True, first + number, chunk)
        for first in range(0, microbatches, stages)
        for chunk in range(chunks)
        for number in range(stages)
    ]


Recompute = Literal["none", "selective", "full"]
LEAST_BUCKET, BUCKET_PER_REPLICA = 40_000_000, 1_000_000
"""Parameters of a bucket of gradients that Megatron-LM takes by default: the greater of the first and the second times
the replicas (megatron/core/distributed/distributed_data_parallel.py)."""


@dataclass(frozen=True, kw_only=True)
class Division:
    """The division of a job among its workers. Raises InputFault for options that exclude one another."""

    tensor: int
    stages: int
    microbatches: int
    #: Samples of a replica; None: as many as its workers would process alone.
    replica_batch: int | None
    schedule: PipelineSchedule
    #: Size of an activation, and of its gradient, on the wire.
    activation_bytes: int
    #: Size of a parameter's gradient, and of a parameter, on the wire.
    gradient_bytes: int
    parameter_bytes: int = 2
    #: Replicas that experts are divided among.
    experts: int = 1
    #: Share of the tokens' choices that fall on the hottest expert; None: all experts get as many.
    token_skew: float | None = None
    #: Workers that divide a sample's tokens.
    context: int = 1
    #: Pieces of the model that each stage has.
    chunks: int = 1
    #: Blocks of the first and the last piece of the model; None: as many as others have.
    end_blocks: tuple[int | None, int | None] = (None, None)
    #: Whether what is between a tensor group's products is divided by tokens, too.
    sequence: bool = False
    #: The part of the forward pass that is computed again before the backward pass.
    recompute: Recompute = "none"
    #: Whether replicas divide the optimizer's state.
    sharded_optimizer: bool = False
    #: Whether gradients are summed during the last backward passes, in buckets of so many parameters (None: Megatron's
    #: default).
    overlap_gradients: bool = False
    bucket_parameters: int | None = None
    #: Algorithm by which gradients are summed.
    algorithm: str = "ring"
    #: The machines as NCCL sees them, if it chooses how gradients are summed.
    nccl: Setup | None = None
    #: Whether sums of gradients, and parameters that are gathered behind them, give way to all else.
    priorities: bool = False

    def __post_init__(self) -> None:
        """Rejects what cannot be together."""
        if self.sequence and self.tensor == 1:
            raise InputFault(
                "strategy.options.sequence_parallel = true: divides tokens among a tensor group's workers; needs "
                "tensor > 1"
            )
        if self.token_skew is not None and self.experts == 1:
            raise InputFault(
                f"strategy.options.token_skew = {self.token_skew:g}: says how tokens are spread over workers; needs "
                "experts > 1"
            )
        if self.context > 1 and self.experts > 1:
            raise InputFault(
                f"strategy.options.context = {self.context}: divides tokens that experts = {self.experts} brings to "
                "other workers; "
                "one of them has to be 1"
            )
        if self.chunks > 1 and (self.stages == 1 or self.schedule != "1f1b"):
            raise InputFault(
                f"strategy.options.chunks = {self.chunks}: interleaves the stages of a pipeline; needs stages > 1 and "
                'schedule = "1f1b"'
            )
        if self.chunks > 1 and self.microbatches % self.stages:
            raise InputFault(
                f"strategy.options.microbatches = {self.microbatches}: must be a multiple of strategy.options.stages = "
                f"{self.stages} where strategy.options.chunks is more than 1"
            )
        passes = 2 * self.stages * self.chunks * self.microbatches
        if passes > MOST_OPS:
            raise InputFault(
                f"strategy.options.microbatches = {self.microbatches}: with stages = {self.stages} and chunks = {self.chunks} makes "
                f"{passes:,} passes; must be at most {MOST_OPS:,}"
            )
        if self.end_blocks != (None, None) and self.stages == 1:
            raise InputFault(
                "strategy.options.first_blocks, last_blocks: are of the first and the last piece of a pipeline; needs "
                "stages > 1"
            )
        if self.bucket_parameters is not None and not self.overlap_gradients:
            raise InputFault(
                f"strategy.options.bucket_parameters = {self.bucket_parameters}: buckets are for overlap_gradients = "
                "true"
            )

    def bucket_values(self, replicas: int) -> int:
        """Parameters after which a bucket is closed."""
        return self.bucket_parameters or max(LEAST_BUCKET, BUCKET_PER_REPLICA * replicas)


@dataclass(frozen=True)
class WorkerGrid:
    """Workers by stage, replica and share of a layer: worker = (stage * data + replica) * tensor + share."""

    tensor: int
    data: int
    stages: int

    @staticmethod
    def of(workers: int, tensor: int, stages: int) -> WorkerGrid:
        """The grid of so many workers, as many replicas as they make.

        Raises InputFault if they make no whole number of replicas.
        """
        if workers % (tensor * stages):
            raise InputFault(
                f"cluster.workers = {workers}: must be a multiple of strategy.options.tensor = {tensor} times "
                f"strategy.options.stages = {stages}, the workers of one replica"
            )
        return WorkerGrid(tensor, workers // (tensor * stages), stages)

    def worker(self, stage: int, replica: int, share: int) -> int:
        """Number of a worker."""
        return (stage * self.data + replica) * self.tensor + share

    def place(self, worker: int) -> tuple[int, int, int]:
        """Stage, replica and share of a worker."""
        rest, share = divmod(worker, self.tensor)
        return (*divmod(rest, self.data), share)

    def tensor_groups(self, stage: int) -> list[list[int]]:
        """Workers of a stage that share layers' products."""
        return [[self.worker(stage, replica, share) for share in range(self.tensor)] for replica in range(self.data)]

    def data_groups(self, stage: int) -> list[list[int]]:
        """Workers of a stage that hold the same parameters, but for experts'."""
        return self._of_replicas(stage, [range(self.data)])

    def neighbours(self, stage: int, count: int) -> list[list[int]]:
        """Workers of a stage with the same share of so many neighbouring replicas, which have experts, or samples,
        between them."""
        return self._of_replicas(stage, [range(first, first + count) for first in range(0, self.data, count)])

    def same_experts(self, stage: int, experts: int) -> list[list[int]]:
        """Workers of a stage that hold the same experts."""
        return self._of_replicas(stage, [range(first, self.data, experts) for first in range(experts)])

    def _of_replicas(self, stage: int, groups: Sequence[range]) -> list[list[int]]:
        return [
            [self.worker(stage, replica, share) for replica in replicas]
            for replicas in groups
            for share in range(self.tensor)
        ]
