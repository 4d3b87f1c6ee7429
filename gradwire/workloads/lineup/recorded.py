"""Algorithms for the collectives of a recorded job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.choice import ALGORITHMS, AUTO
from gradwire.workloads.engines.collectives.contract import Collective
from gradwire.workloads.engines.collectives.routes import ONLY, option_of
from gradwire.workloads.lineup.strategies import RECORDED, Contender
from gradwire.workloads.traces.replay.strategy import NAME, ReplayOptions
from gradwire.workloads.traces.workload import Kind, Workload


def replays(trace: Workload, names: Sequence[str] = ()) -> list[Contender]:
    """The replay as it is by default; with each other algorithm of each kind of collective that the trace has, one at a time; and with
    priorities, by need and as recorded where they are.
    """
    if others := [name for name in names if name != NAME]:
        raise InputFault(f"--strategy {', '.join(others)}: a trace goes by '{NAME}'; its options say how")
    defaults = ReplayOptions()
    present = set(np.unique(trace.tasks.kind).tolist())
    tried: list[dict[str, object]] = [{}]
    for kind in Collective:
        option = option_of(kind)
        if kind not in ONLY and int(Kind[kind.name]) in present:
            options: list[dict[str, object]] = [{option: name} for name in (*ALGORITHMS[kind], AUTO)]
            tried += [own for own in options if own not in tried and own[option] != getattr(defaults, option)]
    if len(np.unique(trace.tasks.call[trace.tasks.call >= 0])) > 1:
        tried.append({"priorities": "needed-first"})
    if len(np.unique(trace.tasks.priority)) > 1:
        tried.append({"priorities": "recorded"})
    return [Contender(NAME, RECORDED, own, told_by=tuple(own)) for own in tried]
