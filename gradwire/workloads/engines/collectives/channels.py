"""Several rings at once, as NCCL's channels: each takes its share of the data around, in its own order and over its own connections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwire.datatypes.plan import Combine
from gradwire.workloads.engines.collectives.allreduces import around
from gradwire.workloads.engines.collectives.contract import Collective
from gradwire.workloads.engines.collectives.schedule import Row, Schedule, schedule_of


def channelled_ring(kind: Collective, machines: Sequence[int], channels: int) -> Schedule:
    """An all-reduce, all-gather or reduce-scatter around `channels` rings. Part c * N + i is member i's in channel c.

    machines: the machine of each member, in the order of the ring. The order of a further channel has another member of each machine in
    each place, so that other pairs of members connect the machines.
    """
    count = len(machines)
    rows: list[Row] = []
    number: list[int] = []
    for channel in range(channels):
        order = _order(machines, channel)
        blocks = [[channel * count + order[place - 1]] for place in range(count)]
        own: list[Row] = []
        if kind is not Collective.ALL_GATHER:
            own += around(order, blocks, Combine.ADD, 0)
        if kind is not Collective.REDUCE_SCATTER:
            own += around(order, blocks, Combine.COPY, count - 1 if own else 0)
        rows += own
        number += [channel] * len(own)
    whole = schedule_of(count, count * channels, rows)
    return Schedule(count, count * channels, whole.rows, np.array(number, np.int64))


def _order(machines: Sequence[int], channel: int) -> list[int]:
    """Members in the order of a channel's ring: each one's place is taken by the `channel`-th next of its machine."""
    beside: dict[int, list[int]] = {}
    for member, machine in enumerate(machines):
        beside.setdefault(machine, []).append(member)
    place = {member: at for own in beside.values() for at, member in enumerate(own)}
    return [
        own[(place[member] + channel) % len(own)]
        for member, own in ((member, beside[machine]) for member, machine in enumerate(machines))
    ]
