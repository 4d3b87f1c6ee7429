"""The lanes that ready ops queue for: the ranks' serial streams and their send queues. A lane serves one op at a time.

Its waiting ops are a binary heap, so the two keys of an entry are its whole policy: a stream serves COMPUTEs in the
order in which they became ready and REDUCEs by their order in the plan; a queue serves by its Discipline.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradwire.analysis.fluid.compiled import compiled, inlined
from gradwire.analysis.fluid.graph import STREAM, Float64, Records
from gradwire.datatypes.plan import Discipline, Int64

NOTHING = -1
_COUNTER = int(Discipline.COUNTER)

LANE = np.dtype(
    [
        ("policy", "i8"),  # STREAM or a Discipline
        ("ops", "i8"),  # how many it serves in an iteration
        ("first_order", "i8"),  # where its orders begin in Graph.orders
        ("first_entry", "i8"),  # where its heap begins
        ("waiting", "i8"),  # length of its heap
        ("serving", "i8"),  # the instance that it serves, or NOTHING
        ("position", "i8"),  # of a COUNTER queue: how many SENDs of
        ("lap", "i8"),  # which iteration it has served
        ("is_to_serve", "i8"),  # whether it is in to_serve
    ]
)
ENTRY = np.dtype(
    [
        ("primary", "f8"),  # what decides first
        ("secondary", "f8"),  # what decides among equals
        ("instance", "i8"),  # the op and its iteration (see Progress)
    ]
)


class Lanes(NamedTuple):
    """All lanes of a plan."""

    #: LANEs.
    lanes: Records
    #: ENTRYs of all heaps, lane by lane.
    entries: Records
    #: Lanes that may have an op to serve: streams from the first element on, queues from the last one down.
    to_serve: Int64
    #: Number of streams and of queues among them.
    counts: Int64


def lanes_of(policy: Int64, ops: Int64, iterations: int) -> Lanes:
    """Free lanes with these policies and numbers of ops, with room for the ops of so many iterations."""
    lanes = np.zeros(len(policy), LANE)
    lanes["policy"], lanes["ops"], lanes["serving"] = policy, ops, NOTHING
    lanes["first_order"] = np.cumsum(ops) - ops
    lanes["first_entry"] = lanes["first_order"] * iterations
    entries = np.empty(int(ops.sum()) * iterations, ENTRY)
    return Lanes(lanes, entries, np.zeros(len(policy), np.int64), np.zeros(2, np.int64))


@inlined
def have_served(lanes: Lanes, lane: int) -> None:
    """Notes that a lane may have an op to serve."""
    if lanes.lanes[lane].is_to_serve:
        return
    lanes.lanes[lane].is_to_serve = 1
    if lanes.lanes[lane].policy == STREAM:
        lanes.to_serve[lanes.counts[0]] = lane
        lanes.counts[0] += 1
    else:
        lanes.counts[1] += 1
        lanes.to_serve[len(lanes.to_serve) - lanes.counts[1]] = lane


@compiled
def next_to_serve(lanes: Lanes) -> int:
    """Takes out a lane that may have an op to serve, streams first; NOTHING if there is none."""
    if lanes.counts[0] > 0:
        lanes.counts[0] -= 1
        lane = lanes.to_serve[lanes.counts[0]]
    elif lanes.counts[1] > 0:
        lane = lanes.to_serve[len(lanes.to_serve) - lanes.counts[1]]
        lanes.counts[1] -= 1
    else:
        return NOTHING
    lanes.lanes[lane].is_to_serve = 0
    return int(lane)


@compiled
def take_next(lanes: Lanes, orders: Float64, lane: int) -> int:
    """The instance that a lane serves from now on; NOTHING if it is serving, nothing waits, or a COUNTER queue waits
    for another SEND."""
    record = lanes.lanes[lane]
    if record.serving != NOTHING or record.waiting == 0:
        return NOTHING
    if record.policy == _COUNTER:
        first = lanes.entries[record.first_entry]
        if first.primary != record.lap or first.secondary != orders[record.first_order + record.position]:
            return NOTHING
        record.position += 1
        if record.position == record.ops:
            record.position = 0
            record.lap += 1
    record.serving = _pop(lanes, lane)
    return int(record.serving)


@compiled
def _is_before(lanes: Lanes, one: int, other: int) -> bool:
    a, b = lanes.entries[one], lanes.entries[other]
    if a.primary != b.primary:
        return bool(a.primary < b.primary)
    if a.secondary != b.secondary:
        return bool(a.secondary < b.secondary)
    return bool(a.instance < b.instance)


@compiled
def _swap(lanes: Lanes, one: int, other: int) -> None:
    a, b = lanes.entries[one], lanes.entries[other]
    a.primary, b.primary = b.primary, a.primary
    a.secondary, b.secondary = b.secondary, a.secondary
    a.instance, b.instance = b.instance, a.instance


@compiled
def push(lanes: Lanes, lane: int, primary: float, secondary: float, instance: int) -> None:
    """Adds a ready op to a lane."""
    record = lanes.lanes[lane]
    base, position = record.first_entry, record.waiting
    record.waiting += 1
    entry = lanes.entries[base + position]
    entry.primary, entry.secondary, entry.instance = primary, secondary, instance
    while position > 0 and _is_before(lanes, base + position, base + (position - 1) // 2):
        _swap(lanes, base + position, base + (position - 1) // 2)
        position = (position - 1) // 2


@compiled
def _pop(lanes: Lanes, lane: int) -> int:
    record = lanes.lanes[lane]
    base, position = record.first_entry, 0
    instance = lanes.entries[base].instance
    record.waiting -= 1
    size = record.waiting
    _swap(lanes, base, base + size)
    while 2 * position + 1 < size:
        below = 2 * position + 1
        if below + 1 < size and _is_before(lanes, base + below + 1, base + below):
            below += 1
        if not _is_before(lanes, base + below, base + position):
            break
        _swap(lanes, base + below, base + position)
        position = below
    return int(instance)
