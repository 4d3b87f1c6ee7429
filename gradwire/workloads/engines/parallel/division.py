"""How a job is divided among workers by tensor, pipeline, expert and data parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gradwire.faults import InputFault
from gradwire.workloads.engines.parallel.schedules import PipelineSchedule

Recompute = Literal["none", "selective", "full"]
LEAST_BUCKET, BUCKET_PER_REPLICA = 40_000_000, 1_000_000
"""Parameters of a bucket of gradients that Megatron-LM takes by default: the greater of the first and the second times the replicas
(megatron/core/distributed/distributed_data_parallel.py)."""


@dataclass(frozen=True, kw_only=True)
class Division:
    """How a job is divided. Raises InputFault for options that exclude one another."""

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
    #: Whether what is between a tensor group's products is divided by tokens, too.
    sequence: bool = False
    #: What of the forward pass is computed again before the backward pass.
    recompute: Recompute = "none"
    #: Whether replicas divide the optimizer's state.
    sharded_optimizer: bool = False
    #: Whether gradients are summed beside the last backward passes, in buckets of so many parameters (None: Megatron's default).
    overlap_gradients: bool = False
    bucket_parameters: int | None = None
    #: By which gradients are summed.
    algorithm: str = "ring"
    #: Whether sums of gradients, and parameters that are gathered behind them, give way to all else.
    priorities: bool = False

    def __post_init__(self) -> None:
        """Rejects what cannot be together."""
        if self.sequence and self.tensor == 1:
            raise InputFault(
                "strategy.options.sequence_parallel = true: divides tokens among a tensor group's workers; needs tensor > 1"
            )
        if self.token_skew is not None and self.experts == 1:
            raise InputFault(
                f"strategy.options.token_skew = {self.token_skew:g}: says how tokens are spread over workers; needs experts > 1"
            )
        if self.context > 1 and self.experts > 1:
            raise InputFault(
                f"strategy.options.context = {self.context}: divides tokens that experts = {self.experts} brings to other workers; "
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
        if self.bucket_parameters is not None and not self.overlap_gradients:
            raise InputFault(
                f"strategy.options.bucket_parameters = {self.bucket_parameters}: buckets are for overlap_gradients = true"
            )

    def bucket_values(self, replicas: int) -> int:
        """Parameters after which a bucket is closed."""
        return self.bucket_parameters or max(LEAST_BUCKET, BUCKET_PER_REPLICA * replicas)
