"""TicTac: parameter servers that send each worker its parameters in the order in which its computation can use them.

Source: TicTac, sections 3 to 6. The iteration, and how an order is enforced: workloads/engines/ordered_transfers.py.
The orders TIC and TAC: workloads/ordering.py.

Where the paper is silent: tensors are placed whole, round robin over the servers (TensorFlow's default); the time
oracle gives a transfer its time alone at line rate, without headers, and takes every server to be remote.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Literal

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.ordered_transfers import Enforcement, compile_ordered
from gradwire.workloads.engines.placement import whole_tensors
from gradwire.workloads.job import Job
from gradwire.workloads.ordering import OperationGraph, model_graph, tac, tic
from gradwire.workloads.senders import GRPC
from gradwire.workloads.strategy import Options, Strategy

Order = Literal["tic", "tac", "layer", "reverse", "random", "shared-random"]


class TictacOptions(Options):
    """How TicTac orders transfers, and where it enforces that order."""

    order: Order = "tic"
    """Of the transfers to a worker. "random" is the baseline: nothing is enforced, and each worker has another order.
    "layer": tensors as created. "reverse": from last to first, the worst case (Geryon, Fig. 4b). "shared-random": a
    random order that is enforced at all workers alike (section 6.3)."""
    workload: Literal["training", "inference"] = "training"
    """"inference": agents only pull parameters and compute the forward pass."""
    enforcement: Enforcement = "sender"
    """Where the order is kept (section 5.1). "sender", by the server's counters, is TicTac's own choice."""


def compile_tictac(job: Job, options: TictacOptions) -> Mapping[str, Plan]:
    """TicTac with whole tensors. Raises InputFault for order "tac" if the job has no link rate, and for options that
    contradict."""
    if options.enforcement != "sender" and options.order == "random":
        raise InputFault(
            f"enforcement = '{options.enforcement}': order 'random' is enforced nowhere; leave out one of them"
        )
    if options.enforcement == "activation" and math.isinf(job.costs.copy_bytes_per_s):
        raise InputFault(
            "enforcement = 'activation': without costs.copy_rate every transfer is copied at once, in order"
        )
    inference = options.workload == "inference"
    label = f"{options.order}, {options.workload}"
    if options.enforcement != "sender":
        label += f", {options.enforcement}"
    plan = compile_ordered(
        job,
        whole_tensors(job.profile, job.cluster.servers),
        transfer_orders(job, options.order, inference=inference),
        f"tictac, {label}",
        inference=inference,
        enforcement=None if options.order == "random" else options.enforcement,
    )
    return {label: plan}


def transfer_orders(job: Job, order: Order, *, inference: bool = False) -> list[list[int]]:
    """Tensor numbers for each worker, first to last."""
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
    """The reference worker's partition of the model's graph; `timed`: with the time oracle's transfer times, otherwise
    without."""
    if timed and job.rate_bps is None:
        raise InputFault("order 'tac' weighs transfers against computation: the job needs a link rate (fabric.rate)")
    latency_s, bits_per_s = job.costs.message_latency_s, job.rate_bps or float("inf")
    bits = [piece.size_bytes * 8 for piece in whole_tensors(job.profile, 1)]
    recv_ns = [round((latency_s + size / bits_per_s) * 1e9) for size in bits]
    return model_graph(job.profile, recv_ns, job.compute.forward_s, () if inference else job.compute.backward_s)


STRATEGIES = (
    Strategy(
        name="tictac",
        summary="TensorFlow's parameter server with transfers in TIC, TAC, layer or random order",
        source="TicTac, sections 3 to 6",
        options=TictacOptions,
        compile=compile_tictac,
        senders=GRPC,
    ),
)
