"""Workers and what they compute: forward and backward passes over the model's layers as COMPUTE ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.workloads.builder import PlanBuilder, nanoseconds
from gradwire.workloads.engines.placement import Piece, slices_of_layers
from gradwire.workloads.job import Job


@dataclass(frozen=True)
class Passes:
    """Op numbers of one worker's iteration. `backward` is empty if the worker only infers."""

    #: Begins the iteration and takes no time.
    begin: int
    #: Forward op of each layer, by the layer's index.
    forward: tuple[int, ...]
    #: Backward op of each layer, by the layer's index: backward[0] is the last of the pass.
    backward: tuple[int, ...]


def with_merging(job: Job, pieces: Sequence[Piece]) -> Job:
    """The job with each layer's forward op prolonged by merging the layer's slices, which the computing stream does."""
    if not job.costs.merge_s:
        return job
    merged = slices_of_layers(pieces)
    forward_s = tuple(time_s + merged[layer] * job.costs.merge_s for layer, time_s in enumerate(job.compute.forward_s))
    return replace(job, compute=replace(job.compute, forward_s=forward_s))


def add_passes(builder: PlanBuilder, job: Job, rank: int) -> Passes:
    """Adds the begin, forward (layer by layer in topological order) and backward (reversed) ops of worker `rank`.

    A GPU runs one kernel after the other, so the passes are a chain whatever branches the model has.
    """
    forward, layers = len(job.compute.forward_s), len(job.profile.layers)
    duration_s = np.array([0.0, *job.compute.forward_s, *reversed(job.compute.backward_s[:layers])])
    ops = builder.add_columns(
        OpKind.COMPUTE,
        ops_of_passes(job),
        rank=rank,
        lane=0,
        duration_ns=nanoseconds(duration_s * job.relative_time(rank)),
        layer=np.array([-1, *range(forward), *reversed(range(layers))], np.int64),
    )
    builder.depend_columns(ops[1:], ops[:-1])
    return Passes(ops[0], tuple(ops[1 : 1 + forward]), tuple(reversed(ops[1 + forward :])))


def ops_of_passes(job: Job) -> int:
    """Returns how many ops `add_passes` adds for a worker."""
    return 1 + len(job.compute.forward_s) + len(job.profile.layers)


def add_graph_passes(builder: PlanBuilder, job: Job, rank: int, *, backward: bool = True) -> Passes:
    """Adds the begin, forward and, unless `backward` is False, backward ops of worker `rank`, each waiting only for
    what it reads.

    The stream stays serial: it takes the op that became ready first, and of several the first in topological order. So
    a branch whose parameters have arrived runs while another one waits, as in TensorFlow's and PyTorch's graphs
    (TicTac, section 2). The last layers' backward ops read the loss, which all outputs feed.
    """
    layers = job.profile.layers
    begin, pace = builder.compute(rank), job.relative_time(rank)
    forward: list[int] = []
    read_by: list[list[int]] = [[] for _ in layers]
    for number, (layer, duration_s) in enumerate(zip(layers, job.compute.forward_s, strict=True)):
        op = builder.compute(rank, duration_s * pace, layer=number, order=number)
        builder.depend(op, *([forward[read] for read in layer.inputs] or [begin]))
        forward.append(op)
        for read in layer.inputs:
            read_by[read].append(number)
    if not backward:
        return Passes(begin, tuple(forward), ())
    outputs = [op for op, readers in zip(forward, read_by, strict=True) if not readers]
    gradients: dict[int, int] = {}
    for number in reversed(range(len(layers))):
        duration_s = job.compute.backward_s[number] * pace
        op = builder.compute(rank, duration_s, layer=number, order=2 * len(layers) - 1 - number)
        builder.depend(op, *([gradients[reader] for reader in read_by[number]] or outputs))
        gradients[number] = op
    return Passes(begin, tuple(forward), tuple(gradients[number] for number in range(len(layers))))


PassBuilder = Callable[[PlanBuilder, Job, int], Passes]


class Workers:
    """The workers of a plan under construction. Tensors have the numbers that they have in the profile.

    add: adds a worker's passes; `add_passes`, the default, adds a chain.
    """

    #: Adds ops, chunks, and what waits for what.
    builder: PlanBuilder
    job: Job
    #: Rank of each worker; rank w is worker w.
    workers: list[int]
    #: Forward and backward ops of each worker.
    passes: list[Passes]

    def __init__(self, name: str, job: Job, add: PassBuilder = add_passes) -> None:
        self.builder, self.job = PlanBuilder(name), job
        hosts = [job.cluster.worker_host(worker) for worker in range(job.cluster.workers)]
        self.workers = [self.builder.rank(Role.WORKER, host) for host in hosts]
        for tensor in job.profile.tensors:
            self.builder.tensor(tensor.name)
        self.passes = [add(self.builder, job, rank) for rank in self.workers]

    def end(self, worker: int, *after: int) -> None:
        """Ends a worker's iteration after these of its ops; the next one begins then."""
        begin, end = self.passes[worker].begin, self.builder.compute(self.workers[worker])
        self.builder.depend(end, *after)
        self.builder.depend(begin, end, lag=1)
        self.builder.iteration(self.workers[worker], begin, end)

    def build(self) -> Plan:
        """Freezes the plan."""
        return self.builder.build(self.job.compute_s, self.job.samples)
