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

from gradwire.datatypes.plan import Int64, Plan
from gradwire.faults import InputFault
from gradwire.workloads.engines.collective_routes import option_of
from gradwire.workloads.engines.collectives.choice import PIECE_BYTES
from gradwire.workloads.engines.collectives.in_network import Switches
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.options import NcclKeys
from gradwire.workloads.fields import DurationS, SizeBytes
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
    pause: DurationS = 0.0
    """How long all workers compute and send nothing before they meet. On stock hosts, TCP starts anew after it."""


def call_workload(ranks: int, options: CallOptions) -> Workload:
    """The pause, the barrier and the call as a recorded workload: up to three tasks for each rank. Raises InputFault for a
    message among others than two ranks."""
    if options.collective == MESSAGE and ranks != ENDS:
        raise InputFault(f"cluster.workers = {ranks}: a message needs 2")
    stages = [_call_columns(ranks, options)]
    if options.barrier:
        stages.insert(0, _columns(ranks, kind=Kind.BARRIER, group=0, call=0))
    if options.pause:
        stages.insert(0, _columns(ranks, kind=Kind.COMPUTE, duration_ns=round(options.pause * 1e9), stream=0))
    tasks = Tasks(**{name: np.concatenate([stage[name] for stage in stages]).astype(np.int64) for name in stages[0]})
    # Each task waits for its rank's task of the stage before.
    waits = np.repeat(np.arange(len(stages)) > 0, ranks)
    return Workload(
        name=NAME,
        ranks=ranks,
        groups=(tuple(range(ranks)),),
        tasks=tasks,
        dep_start=np.concatenate([[0], np.cumsum(waits)]).astype(np.int64),
        dep_task=np.arange(ranks * (len(stages) - 1)).astype(np.int64),
    )


def _columns(ranks: int, **values: int) -> dict[str, Int64]:
    """A task of each rank, with these values for all of them."""
    known = {"kind": UNKNOWN, "duration_ns": UNKNOWN, "size_bytes": 0, "element_bytes": 1, "group": UNKNOWN}
    known |= {"peer": UNKNOWN, "call": UNKNOWN, "stream": UNKNOWN}
    return {"rank": np.arange(ranks), **{name: np.full(ranks, value) for name, value in (known | values).items()}}


def _call_columns(ranks: int, options: CallOptions) -> dict[str, Int64]:
    sized = {"size_bytes": options.size, "element_bytes": options.element, "call": 1}
    if options.collective == MESSAGE:
        columns = _columns(ranks, kind=Kind.SEND, **sized)
        return columns | {"kind": np.array([Kind.SEND, Kind.RECV]), "peer": np.array([1, 0])}
    rooted = options.collective in ("broadcast", "reduce")
    return _columns(ranks, kind=_kind(options), group=0, peer=0 if rooted else UNKNOWN, **sized)


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
