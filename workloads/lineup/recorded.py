"""Algorithms for the collectives of a recorded job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.lineup.strategies import RECORDED, Contender
from gradwire.workloads.traces.replay.routes import AllReduce, Rooted, Spread
from gradwire.workloads.traces.replay.strategy import NAME, ReplayOptions
from gradwire.workloads.traces.workload import Kind, Workload

ALGORITHMS = {
    Kind.ALL_REDUCE: ("all_reduce", get_args(AllReduce)),
    Kind.ALL_GATHER: ("all_gather", get_args(Spread)),
    Kind.REDUCE_SCATTER: ("reduce_scatter", get_args(Spread)),
    Kind.BROADCAST: ("broadcast", get_args(Rooted)),
}
"""Of each kind of which there are several: the option, and its values."""


def replays(trace: Workload, names: Sequence[str] = ()) -> list[Contender]:
    """The replay as it is by default; with each other algorithm of each kind of collective that the trace has, one at a time; and with
    priorities, by need and as recorded where they are.
    """
    if others := [name for name in names if name != NAME]:
        raise InputFault(f"--strategy {', '.join(others)}: a trace goes by '{NAME}'; its options say how")
    defaults = ReplayOptions()
    present = set(np.unique(trace.tasks.kind).tolist())
    tried: list[dict[str, object]] = [{}]
    for kind, (option, algorithms) in ALGORITHMS.items():
        if int(kind) in present:
            tried += [{option: name} for name in algorithms if name != getattr(defaults, option)]
    if len(np.unique(trace.tasks.call[trace.tasks.call >= 0])) > 1:
        tried.append({"priorities": "needed-first"})
    if len(np.unique(trace.tasks.priority)) > 1:
        tried.append({"priorities": "recorded"})
    return [Contender(NAME, RECORDED, own, told_by=tuple(own)) for own in tried]
