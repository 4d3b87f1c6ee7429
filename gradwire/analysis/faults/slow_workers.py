"""When computation ends on workers that a fault slows down: the agents' rule (agents/pace.py), for all ops of a log at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gradwire.analysis.iterations import Float64
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import FaultRecord, Int64


class Slow(NamedTuple):
    """A time in which each nanosecond of work takes `factor` nanoseconds."""

    begin_ns: int
    #: Infinite if it has no end.
    end_ns: float
    factor: float


def slow_times(plan: Plan, faults: Sequence[FaultRecord]) -> dict[int, list[Slow]]:
    """The slow times of each rank that had any."""
    found: dict[int, list[Slow]] = {}
    for record in faults:
        fault = record.fault
        if fault.kind == "slow-worker" and record.begun_ns >= 0:
            end_ns = record.begun_ns + fault.duration_ns if fault.duration_ns >= 0 else np.inf
            found.setdefault(int(plan.workers[fault.worker]), []).append(Slow(record.begun_ns, end_ns, fault.value))
    return found


def slowed_end_ns(begin_ns: Int64, work_ns: Int64, slow: Sequence[Slow]) -> Int64:
    """When work ends that begins at these times, and would take `work_ns` alone; arrays of one shape."""
    edges = sorted({edge for each in slow for edge in (each.begin_ns, each.end_ns) if np.isfinite(edge)})
    now, left = begin_ns.astype(np.float64), work_ns.astype(np.float64)
    for edge in edges:
        factor = _factor(now, slow)
        goes_on = (now < edge) & (now + left * factor > edge)
        left = np.where(goes_on, left - (edge - now) / factor, left)
        now = np.where(goes_on, edge, now)
    return np.rint(now + left * _factor(now, slow)).astype(np.int64)


def _factor(now: Float64, slow: Sequence[Slow]) -> Float64:
    factor = np.ones(now.shape)
    for each in slow:
        factor[(each.begin_ns <= now) & (now < each.end_ns)] *= each.factor
    return factor
