"""The table of costs: times that belong neither to the network nor to the GPU's computation, each with its
source."""

from __future__ import annotations

from pydantic import Field

from gradwire.workloads.fields import BytesPerS, DurationS, Section


class SourcedRate(Section):
    """A rate of bytes and where it comes from."""

    value: BytesPerS = Field(ge=1)
    """The rate."""
    source: str = Field(min_length=1)
    """Where the value comes from."""


class SourcedDuration(Section):
    """A duration and where it comes from."""

    value: DurationS = Field(ge=0)
    """The duration."""
    source: str = Field(min_length=1)
    """Where the value comes from."""


class SourcedVariation(Section):
    """A coefficient of variation, standard deviation over mean, and where it comes from."""

    value: float = Field(ge=0, le=10)
    """The coefficient of variation."""
    source: str = Field(min_length=1)
    """Where the value comes from."""


class SourcedShare(Section):
    """A share, and where it comes from."""

    value: float = Field(gt=0, le=1)
    """The share, above 0 and up to 1."""
    source: str = Field(min_length=1)
    """Where the value comes from."""


class CostsSection(Section):
    """Costs other than those of network and GPU. Each needs its source.

    A cost that is left out is free, but for `call_latency` and `local_rate`, which a device may know; without
    `compute_variation`, all workers take equally long. The last line of each table of results names what was free.
    """

    call_latency: SourcedDuration | None = None
    """Time that each call of a collective takes before its first message: launching a kernel, and its hops' latencies together. Unset: for
    `ddp`, `fsdp`, `zero1` and `zero2` on V100, A100, H100, H200 and B200 what NCCL's table has for the machines and the size, but with
    algorithm "nccl", or where `message_latency` or `local_latency` is given, nothing. For other strategies it is left out."""
    aggregation_rate: SourcedRate | None = None
    """Rate at which one server adds gradients, while the network carries data."""
    message_latency: SourcedDuration | None = None
    """Software latency of every message before its first byte leaves."""
    local_rate: SourcedRate | None = None
    """Rate of a host's own link between two of its GPUs. Unset: that of `model.device` (`gradwire devices`), where it is known."""
    local_latency: SourcedDuration | None = None
    """Software latency of every message between two GPUs of one host; if it is left out, `message_latency` as for all others."""
    copy_rate: SourcedRate | None = None
    """Rate at which one thread copies memory: a worker, gradients into and out of a fused buffer; a server, the values with which it
    answers a pull."""
    slice_merge: SourcedDuration | None = None
    """For Geryon's strategies that slice, and for NetOps' messages."""
    compute_variation: SourcedVariation | None = None
    """Of workers' compute times. Each worker draws its own factor, seeded by run.seed, from a log-normal distribution with mean 1."""
    compute_while_communicating: SourcedShare | None = None
    """Speed at which a worker computes while it communicates, as a share of its speed otherwise, in thousandths: collectives run on the GPU
    that computes. A tensor is under way from the first of its messages that a worker sends or receives in an iteration to the last one
    (docs/trust/limits.md). Unset: 1, which is full speed."""
