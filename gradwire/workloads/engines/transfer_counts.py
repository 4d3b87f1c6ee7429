"""How many ops the messages of collectives are, said before any is made."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gradwire.datatypes.plan import Combine, Int64
from gradwire.workloads.engines.collectives import Schedule
from gradwire.workloads.job import Costs


def transfer_ops(schedule: Schedule, size_bytes: Int64, costs: Costs, workers: int) -> int:
    """How many ops `BucketTransfers` adds for buckets that share a schedule; latencies of no time, which it leaves out, are
    counted with the others.

    size_bytes: by bucket and part. workers: ranks of the schedule from which on are switches.
    """
    rows = len(schedule.rows)
    of_row = np.ones(rows, np.int64)  # its RECV
    if schedule.copies is None:
        of_row += 1
    else:
        first = np.zeros(rows, np.bool_)
        first[np.unique(schedule.copies, return_index=True)[1]] = True
        of_row += (schedule.copies < 0) | first
    at_worker = schedule.dst < workers
    if np.isfinite(costs.aggregation_bytes_per_s):
        of_row += at_worker & (schedule.combine == Combine.ADD)
    hops = schedule.hops
    if hops is not None and (hops.inside_s or hops.between_s):
        of_row += at_worker
    of_part = np.bincount(schedule.part, of_row, minlength=schedule.parts).astype(np.int64)
    gates = schedule.phases - 1 + bool(hops is not None and hops.base_s and rows)
    members = len(np.unique(schedule.rows[:, :2]))
    return int(((size_bytes > 0) @ of_part).sum()) + gates * members * len(size_bytes)


def ops_of_transfers(moved: Iterable[tuple[Schedule, Int64]], costs: Costs, workers: int) -> int:
    """The same for buckets, each with its schedule and the sizes of its parts."""
    alike: dict[int, tuple[Schedule, list[Int64]]] = {}
    for schedule, sizes in moved:
        alike.setdefault(id(schedule), (schedule, []))[1].append(sizes)
    return sum(transfer_ops(schedule, np.stack(sizes), costs, workers) for schedule, sizes in alike.values())
