"""TicTac: parameter servers that send each worker its parameters in the order in which its computation can use them.

Source: TicTac, sections 3 to 6; Geryon, section V-D (end-host scheduling beside partition and slicing). Each iteration of a worker:

1. It asks every server for its parameters. A server hands each transfer to the worker's channel when the channel's counter has
   reached the transfer's number (section 5.1): one counter and one active transfer a (server, worker) pair.
2. An op of the model starts when its parameters and the results that it reads are there; branches do not wait for one another.
3. Training: each layer's gradients are pushed as soon as the backward pass yields them; a server adds what arrives and, once every
   worker's contribution to every chunk is in, sends a token to each worker; all tokens together are the global barrier.
   Inference: agents compute forward alone, on parameters that come from outside the job, and push nothing.

Where the papers are silent: tensors are placed whole, round robin over the servers (TensorFlow's default); with several servers each
counts its own transfers of the common order; the time oracle gives a transfer its time alone at line rate, without headers,
and takes every server to be remote; tensors of inference are renewed once an iteration; the replicas of one graph start together in
inference too, which costs a token to and from the first server; requests and tokens are single 64-byte messages.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from gradwire.faults import InputFault
from gradwire.workloads.builder import CONTROL_BYTES, PlanBuilder
from gradwire.workloads.engines.placement import Piece, in_rows, whole_tensors
from gradwire.workloads.engines.worker import Passes, add_graph_passes, add_passes, with_merging
from gradwire.workloads.job import Job
from gradwire.workloads.ordering import OperationGraph, model_graph, tac, tic
from gradwire.workloads.plan import CONTROL_CLASS, Combine, Discipline, Plan, Role
from gradwire.workloads.scenario.schema import DurationS
from gradwire.workloads.strategies.geryon_contenders import PartitionOptions
from gradwire.workloads.strategies.strategy import Options, Strategy

DATA_CLASS = 0
"""End-host scheduling knows one traffic class."""
UPDATE_LANE = 2
"""Stream of a server's updates and barrier, which take no time, beside that of its additions."""

Order = Literal["tic", "tac", "layer", "reverse", "random", "shared-random"]
Enforcement = Literal["sender", "chain", "activation"]
PassBuilder = Callable[[PlanBuilder, Job, int], Passes]


class TictacOptions(Options):
    """order: of the transfers to a worker. 'random' is the baseline: nothing enforced, another order at each worker.

    'layer': tensors as created; 'reverse': from last to first, the worst there is (Geryon, Fig. 4b).
    'shared-random': a random order that is enforced at all workers alike (section 6.3).
    workload: 'training', or 'inference', where agents pull parameters and compute forward only.
    enforcement: where the order is kept (section 5.1). 'sender': by the server's counters, TicTac's own choice. 'chain': by the graph;
    a worker asks for a tensor once the one before has arrived. 'activation': transfers are only begun in order, and each is handed
    over as soon as the server has copied it, which takes longer for a larger one (costs.copy_rate).
    """

    order: Order = "tic"
    workload: Literal["training", "inference"] = "training"
    enforcement: Enforcement = "sender"


class TictacSlicingOptions(PartitionOptions):
    """scheduling_cost_per_slice: what a channel's scheduler takes before it hands a slice over.

    Geryon's Fig. 10 shows up to 800 ms an iteration with slices of at most 256K parameters: 9.52 ms for each of the 84 that VGG-19 has
    on a channel of 8 servers here. More slices need more threads, whose coordination costs more; the paper gives no other time.
    """

    scheduling_cost_per_slice: DurationS = Field(0.0, ge=0)


def compile_tictac(job: Job, options: TictacOptions) -> Mapping[str, Plan]:
    """TicTac with whole tensors. Raises InputFault for order 'tac' if the job has no link rate, and for options that contradict."""
    if options.enforcement != "sender" and options.order == "random":
        raise InputFault(
            f"enforcement = '{options.enforcement}': order 'random' is enforced nowhere; leave out one of them"
        )
    if options.enforcement == "activation" and math.isinf(job.costs.copy_bytes_per_s):
        raise InputFault(
            "enforcement = 'activation': without costs.copy_rate every transfer is copied at once, in order"
        )
    pieces = whole_tensors(job.profile, job.cluster.servers)
    label = f"{options.order}, {options.workload}"
    if options.enforcement != "sender":
        label += f", {options.enforcement}"
    orders = transfer_orders(job, options.order, inference=options.workload == "inference")
    plan = compile_ordered(
        job,
        pieces,
        orders,
        f"tictac, {label}",
        inference=options.workload == "inference",
        enforcement=None if options.order == "random" else options.enforcement,
    )
    return {label: plan}


def compile_tictac_slicing(job: Job, options: TictacSlicingOptions) -> Mapping[str, Plan]:
    """Geryon's partition and slicing, with the slices of each (server, worker) pair in forward order."""
    pieces = in_rows(job.profile, job.cluster.servers, options.slice_parameters or None)
    forward = [list(range(len(pieces)))] * job.cluster.workers
    # Geryon's contenders compute in a chain; so does this one, which is compared with them.
    plan = compile_ordered(
        job, pieces, forward, "tictac-slicing", add=add_passes, cost_s=options.scheduling_cost_per_slice
    )
    return {"tictac-slicing": plan}


def transfer_orders(job: Job, order: Order, *, inference: bool = False) -> list[list[int]]:
    """For each worker its tensors, first to last."""
    count, workers = len(job.profile.tensors), job.cluster.workers
    if order == "random":
        return [_shuffled(count, f"{job.seed}/pull/{worker}") for worker in range(workers)]
    if order == "shared-random":
        common = _shuffled(count, f"{job.seed}/pull")
    elif order in ("layer", "reverse"):
        common = list(range(count))[:: 1 if order == "layer" else -1]
    else:
        graph = operation_graph(job, timed=order == "tac", inference=inference)
        common = tac(graph) if order == "tac" else tic(graph)
    return [common] * workers


def _shuffled(count: int, seed: str) -> list[int]:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


def operation_graph(job: Job, *, timed: bool, inference: bool) -> OperationGraph:
    """The reference worker's partition of the model's graph, with the time oracle's times if `timed`, else without transfer times."""
    if timed and job.rate_bps is None:
        raise InputFault("order 'tac' weighs transfers against computation: the job needs a link rate (fabric.rate)")
    latency_s, bits_per_s = job.costs.message_latency_s, job.rate_bps or float("inf")
    bits = [piece.size_bytes * 8 for piece in whole_tensors(job.profile, 1)]
    recv_ns = [round((latency_s + size / bits_per_s) * 1e9) for size in bits]
    return model_graph(job.profile, recv_ns, job.compute.forward_s, () if inference else job.compute.backward_s)


@dataclass
class _Parts:
    """The plan under way. requests: RECV of the (worker, server) pair's request. renewed: of each chunk, its server's op after which
    it may be handed out in the next iteration.
    """

    builder: PlanBuilder
    job: Job
    pieces: Sequence[Piece]
    chunks: list[int]
    workers: list[int]
    servers: list[int]
    passes: list[Passes]
    renewed: list[int]
    requests: dict[tuple[int, int], int] = field(default_factory=dict)
    control: dict[tuple[int, int], int] = field(default_factory=dict)

    def token(self, src: int, dst: int) -> tuple[int, int]:
        """A control message: its SEND and RECV."""
        if (src, dst) not in self.control:
            self.control[src, dst] = self.builder.queue(src)
        return self.builder.message(self.control[src, dst], dst, CONTROL_BYTES, traffic_class=CONTROL_CLASS)

    def data(
        self, queue: int, dst: int, number: int, combine: Combine, order: int, cost_s: float = 0.0
    ) -> tuple[int, int]:
        """The message that carries chunk number `number`: its SEND and RECV."""
        piece = self.pieces[number]
        return self.builder.message(
            queue,
            dst,
            piece.size_bytes,
            chunk=self.chunks[number],
            combine=combine,
            traffic_class=DATA_CLASS,
            order=order,
            layer=piece.layer,
            latency_s=self.job.costs.message_latency_s + cost_s,
        )


def compile_ordered(
    job: Job,
    pieces: Sequence[Piece],
    orders: Sequence[Sequence[int]],
    name: str,
    *,
    inference: bool = False,
    enforcement: Enforcement | None = "sender",
    add: PassBuilder = add_graph_passes,
    cost_s: float = 0.0,
) -> Plan:
    """Compiles the iteration above for chunks that are placed already.

    orders: for each worker the numbers of the pieces, first to last. enforcement: where that order is kept; None: nowhere, pieces just
    become ready in it. add: adds a worker's passes in training. cost_s: of scheduling a transfer to a worker.
    """
    builder = PlanBuilder(name)
    parts = _parts(builder, job, pieces, _forward_only if inference else add)
    _request(parts)
    for worker, order in enumerate(orders):
        handed_over = _pull(parts, worker, order, enforcement, cost_s)
        if inference:
            builder.depend_columns(parts.renewed, handed_over)
        else:
            _push(parts, worker)
    if inference:
        for op, chunk in zip(parts.renewed, parts.chunks, strict=True):
            builder.produces(op, chunk)
        _start_together(parts)
    else:
        _barrier(parts)
    return builder.build(sum(job.compute.forward_s) if inference else job.compute_s, job.samples)


def _forward_only(builder: PlanBuilder, job: Job, rank: int) -> Passes:
    return add_graph_passes(builder, job, rank, backward=False)


def _parts(builder: PlanBuilder, job: Job, pieces: Sequence[Piece], add: PassBuilder) -> _Parts:
    """Ranks, chunks, and the ops that need no message."""
    cluster = job.cluster
    workers = [builder.rank(Role.WORKER, cluster.worker_host(worker)) for worker in range(cluster.workers)]
    servers = [builder.rank(Role.SERVER, cluster.server_host(server)) for server in range(cluster.servers)]
    for tensor in job.profile.tensors:
        builder.tensor(tensor.name)
    chunks = [builder.chunk(piece.tensor, piece.size_bytes) for piece in pieces]
    merging = with_merging(job, pieces)
    passes = [add(builder, merging, worker) for worker in workers]
    renewed = [builder.compute(servers[piece.server], lane=UPDATE_LANE) for piece in pieces]
    return _Parts(builder, job, pieces, chunks, workers, servers, passes, renewed)


def _request(parts: _Parts) -> None:
    for worker, passes in zip(parts.workers, parts.passes, strict=True):
        for server in parts.servers:
            send, recv = parts.token(worker, server)
            parts.builder.depend(send, passes.begin)
            parts.requests[worker, server] = recv


def _pull(
    parts: _Parts, number: int, order: Sequence[int], enforcement: Enforcement | None, cost_s: float
) -> list[int]:
    """The servers' transfers to worker number `number`, and what waits for them; returns the SEND of each piece."""
    builder, worker, passes = parts.builder, parts.workers[number], parts.passes[number]
    discipline = Discipline.COUNTER if enforcement == "sender" else Discipline.FIFO
    channels = [builder.queue(server, discipline) for server in parts.servers]
    sends, last = [-1] * len(parts.pieces), -1
    for position, which in enumerate(order):
        piece = parts.pieces[which]
        server = parts.servers[piece.server]
        asked = parts.requests[worker, server]
        if enforcement == "chain" and position:
            ask, asked = parts.token(worker, server)
            builder.depend(ask, last)
        send, recv = parts.data(channels[piece.server], worker, which, Combine.COPY, position, cost_s)
        builder.depend(send, _copied(parts, number, which, asked))
        builder.depend(send, parts.renewed[which], lag=1)
        builder.depend(passes.forward[piece.layer], recv)
        builder.consumes(passes.forward[piece.layer], parts.chunks[which])
        sends[which], last = send, recv
    return sends


def _copied(parts: _Parts, number: int, which: int, asked: int) -> int:
    """After the request `asked`: the op that copies piece `which` for worker number `number`, in a thread of its own; copies take time
    only where the job says so.
    """
    rate, piece = parts.job.costs.copy_bytes_per_s, parts.pieces[which]
    if math.isinf(rate):
        return asked
    thread = UPDATE_LANE + 1 + number * len(parts.pieces) + which
    copied = parts.builder.compute(parts.servers[piece.server], piece.size_bytes / rate, lane=thread)
    parts.builder.depend(copied, asked)
    return copied


def _push(parts: _Parts, number: int) -> None:
    """Worker number `number` pushes its gradients as the backward pass yields them; servers add them up."""
    builder, worker, passes = parts.builder, parts.workers[number], parts.passes[number]
    channels = [builder.queue(worker) for _ in parts.servers]
    rate = parts.job.costs.aggregation_bytes_per_s
    for which, piece in enumerate(parts.pieces):
        server = parts.servers[piece.server]
        order = len(parts.job.profile.layers) - piece.layer
        send, recv = parts.data(channels[piece.server], server, which, Combine.ADD, order)
        builder.produces(passes.backward[piece.layer], parts.chunks[which])
        builder.depend(send, passes.backward[piece.layer])
        added = builder.reduce(server, piece.size_bytes, rate, chunk=parts.chunks[which])
        builder.depend(added, recv)
        builder.depend(parts.renewed[which], added)


def _barrier(parts: _Parts) -> None:
    """Every server tells every worker that all its chunks are up to date; all of them end the iteration."""
    tokens: dict[int, list[int]] = {worker: [] for worker in parts.workers}
    for number, server in enumerate(parts.servers):
        finished = parts.builder.compute(server, lane=UPDATE_LANE)
        own = [op for op, piece in zip(parts.renewed, parts.pieces, strict=True) if piece.server == number]
        parts.builder.depend(finished, *own, *(parts.requests[worker, server] for worker in parts.workers))
        for worker in parts.workers:
            send, recv = parts.token(server, worker)
            parts.builder.depend(send, finished)
            tokens[worker].append(recv)
    for worker, passes in zip(parts.workers, parts.passes, strict=True):
        _end(parts, worker, passes, [*tokens[worker], *passes.backward])


def _start_together(parts: _Parts) -> None:
    """Inference: the first server learns from every worker that it is done, and then tells them all."""
    coordinator = parts.servers[0]
    finished = parts.builder.compute(coordinator, lane=UPDATE_LANE)
    for worker, passes in zip(parts.workers, parts.passes, strict=True):
        send, recv = parts.token(worker, coordinator)
        parts.builder.depend(send, *passes.forward)
        parts.builder.depend(finished, recv)
    for worker, passes in zip(parts.workers, parts.passes, strict=True):
        send, recv = parts.token(coordinator, worker)
        parts.builder.depend(send, finished)
        _end(parts, worker, passes, [recv])


def _end(parts: _Parts, worker: int, passes: Passes, after: Sequence[int]) -> None:
    end = parts.builder.compute(worker)
    parts.builder.depend(end, *after)
    parts.builder.depend(passes.begin, end, lag=1)
    parts.builder.iteration(worker, passes.begin, end)


STRATEGIES = (
    Strategy(
        "tictac",
        "TensorFlow's parameter server with transfers in TIC, TAC, layer or random order",
        "TicTac, sections 3 to 6",
        TictacOptions,
        compile_tictac,
        classes=lambda _: 1,
    ),
    Strategy(
        "tictac-slicing",
        "partition and slicing, with the order of slices enforced at the servers alone",
        "Geryon, section V-D; TicTac, section 5.1",
        TictacSlicingOptions,
        compile_tictac_slicing,
        classes=lambda _: 1,
    ),
)
