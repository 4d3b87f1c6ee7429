"""The computing part of a worker's plan: forward and backward passes over the model's layers, as a chain of COMPUTE ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwire.workloads.builder import PlanBuilder
from gradwire.workloads.engines.placement import Piece, slices_of_layers
from gradwire.workloads.job import Job


@dataclass(frozen=True)
class Passes:
    """Op numbers of one worker's iteration: its begin, and the forward and backward op of each layer."""

    begin: int
    forward: tuple[int, ...]
    backward: tuple[int, ...]


def with_merging(job: Job, pieces: Sequence[Piece]) -> Job:
    """The job with a layer's forward op longer by what merging its slices takes: the stream that computes puts tensors together."""
    if not job.costs.merge_s:
        return job
    merged = slices_of_layers(pieces)
    forward_s = tuple(time_s + merged[layer] * job.costs.merge_s for layer, time_s in enumerate(job.compute.forward_s))
    return replace(job, compute=replace(job.compute, forward_s=forward_s))


def add_passes(builder: PlanBuilder, job: Job, rank: int) -> Passes:
    """Adds begin, forward (layer by layer in topological order) and backward (reversed) of one worker, of which `rank` is the number.

    A GPU carries out one kernel after the other, so the passes are a chain whatever branches the model has.
    """
    begin, pace = builder.compute(rank), job.relative_time(rank)
    last = begin
    forward, backward = [], []
    for layer, duration_s in enumerate(job.compute.forward_s):
        op = builder.compute(rank, duration_s * pace, layer=layer)
        builder.depend(op, last)
        forward.append(op)
        last = op
    for layer in reversed(range(len(job.profile.layers))):
        op = builder.compute(rank, job.compute.backward_s[layer] * pace, layer=layer)
        builder.depend(op, last)
        backward.append(op)
        last = op
    return Passes(begin, tuple(forward), tuple(reversed(backward)))


def add_graph_passes(builder: PlanBuilder, job: Job, rank: int, *, backward: bool = True) -> Passes:
    """Adds begin, forward and (unless told otherwise) backward of one worker, each op behind just what it reads.

    The stream stays serial: it takes the op that became ready first, and of several the first in topological order. So a branch
    whose parameters are there runs while another one waits, as in TensorFlow's and PyTorch's graphs (TicTac, section 2).
    The last layers' backward ops read the loss, which all outputs feed.
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
