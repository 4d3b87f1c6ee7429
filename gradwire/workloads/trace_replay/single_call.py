"""The strategy `single-call`: an iteration is one collective, or one message, as benchmarks of collectives measure it.

A scenario names this file as its strategy. All ranks meet in a barrier (unless `barrier` is off), and then each takes
part in the call; `call_times_s` (runs/ccl_packets.py) reads from a run's log how long the call alone took. The
messages, algorithms and checks are those of the strategy `replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field, ValidationError

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.collective_routes import option_of
from gradwire.workloads.engines.collectives.choice import PIECE_BYTES
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.options import NcclKeys
from gradwire.workloads.fields import SizeBytes
from gradwire.workloads.job import Job
from gradwire.workloads.strategy import Strategy
from gradwire.workloads.trace_replay.compiler import compile_workload
from gradwire.workloads.trace_replay.replay_strategy import ReplayOptions, adds_in_network_by, routes_of
from gradwire.workloads.traces.workload import UNKNOWN, Kind, Tasks, Workload

NAME = "single-call"
MESSAGE = "message"
CallKind = Literal["all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter", "all-to-all", "message"]
ENDS = 2
"""Ops that the compiler makes of each task that communicates: the one that begins it and the one that ends it."""


class CallOptions(NcclKeys):
    """The call, as the strategy `replay` counts sizes and names algorithms (docs/collectives.md)."""

    collective: CallKind = "all-reduce"
    """A collective of all workers, from or to the first where it has a root; or a message from the first worker to the
    second."""
    size: SizeBytes = Field(1 << 20, ge=1)
    """Bytes of the call: what `gradwire.workloads.traces.workload.Kind` says that each kind counts."""
    element: int = Field(4, ge=1, le=16)
    """Bytes of an element, of which every part of a call has a whole number."""
    algorithm: str = "ring"
    """Algorithm of the call."""
    channels: int = Field(1, ge=1, le=64)
    """Rings that a call by "ring" is divided among, as in `replay`."""
    piece: SizeBytes = Field(PIECE_BYTES, ge=1)
    """Bytes that a double tree, or the ring of a broadcast or reduction, passes on at a time, as in `replay`."""
    barrier: bool = True
    """Whether all workers meet before the call."""


def call_workload(ranks: int, options: CallOptions) -> Workload:
    """The barrier and the call as a recorded workload: two tasks for each rank. Raises InputFault for a message among
    others than two ranks."""
    if options.collective == MESSAGE and ranks != ENDS:
        raise InputFault(f"cluster.workers = {ranks}: a message needs 2")
    kind = np.full(ranks, Kind.SEND if options.collective == MESSAGE else _kind(options))
    peer = np.full(ranks, UNKNOWN)
    if options.collective == MESSAGE:
        kind[1] = Kind.RECV
        peer = np.array([1, 0])
    elif options.collective in ("broadcast", "reduce"):
        peer = np.zeros(ranks, np.int64)
    before, call = np.full(ranks, Kind.BARRIER), np.arange(ranks)
    grouped = np.full(ranks, UNKNOWN if options.collective == MESSAGE else 0)
    number = np.zeros(ranks, np.int64)
    columns = {
        "rank": (call, call),
        "kind": (before, kind),
        "duration_ns": (number + UNKNOWN, number + UNKNOWN),
        "size_bytes": (number, number + options.size),
        "element_bytes": (number + 1, number + options.element),
        "group": (number, grouped),
        "peer": (number + UNKNOWN, peer),
        "call": (number, number + 1),
        "stream": (number + UNKNOWN, number + UNKNOWN),
    }
    chosen = (0, 1) if options.barrier else (1,)
    tasks = Tasks(
        **{name: np.concatenate([parts[i] for i in chosen]).astype(np.int64) for name, parts in columns.items()}
    )
    waits = np.concatenate([np.full(ranks, i) for i in range(len(chosen))])
    return Workload(
        name=NAME,
        ranks=ranks,
        groups=(tuple(range(ranks)),),
        tasks=tasks,
        dep_start=np.concatenate([[0], np.cumsum(waits)]).astype(np.int64),
        dep_task=(np.arange(ranks) if options.barrier else np.zeros(0)).astype(np.int64),
    )


def _kind(options: CallOptions) -> Kind:
    return Kind[options.collective.upper().replace("-", "_")]


def replay_options(options: CallOptions) -> ReplayOptions:
    """The options of `replay` by which the call goes as these say. Raises InputFault."""
    named = {}
    if options.collective != MESSAGE:
        named[option_of(Collective[_kind(options).name])] = options.algorithm
    try:
        return ReplayOptions.model_validate(
            {**named, "channels": options.channels, "piece": f"{options.piece}B", "nccl": options.nccl}
        )
    except ValidationError as error:
        raise InputFault(f"strategy.options.algorithm = '{options.algorithm}': {error.errors()[0]['msg']}") from error


def compile_call(job: Job, options: CallOptions) -> Mapping[str, Plan]:
    """The plan of a barrier and the call. Its iterations begin behind the barrier."""
    ranks = job.cluster.workers
    asked = replay_options(options)
    switches = Switches.of(job) if adds_in_network_by(asked) else None
    plan = compile_workload(
        call_workload(ranks, options),
        job.cluster,
        job.costs,
        routes_of(asked, job),
        job.compute_s,
        job.samples,
        switches=switches,
    )
    return {NAME: replace(plan, name=NAME)}


STRATEGY = Strategy(
    name=NAME,
    summary="one collective, or one message, behind a barrier: what benchmarks of collectives measure",
    source="nccl-tests; PyTorch's benchmarks of c10d",
    options=CallOptions,
    compile=compile_call,
    aggregators=lambda options: adds_in_network_by(replay_options(options)),
    needs_servers=False,
)
STRATEGIES = (STRATEGY,)
