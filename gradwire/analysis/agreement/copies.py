"""How far apart the copies of a multicast message arrive, which go on by themselves once a switch has made them."""

from __future__ import annotations

import numpy as np

from gradwire.analysis.agreement.held import quantiles
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.wire import data_of, wire_messages


def copies_apart_s(logged: LoggedOps, warmup: int) -> float:
    """Time from a multicast message's first arrival to its last, in the measured iterations; 0 without multicast.

    95 % of the multicast payload (held.MOST) was no further apart.
    """
    messages = wire_messages(logged)
    is_multicast = logged.plan.ops.group[messages.send] == 1
    messages = messages.where(data_of(logged, messages) & is_multicast & (messages.iteration >= warmup))
    if not len(messages):
        return 0.0
    message = messages.iteration * len(logged.plan.ops) + messages.send
    _, first, number = np.unique(message, return_index=True, return_inverse=True)
    earliest_ns = np.full(len(first), np.iinfo(np.int64).max)
    latest_ns = np.zeros(len(first), dtype=np.int64)
    np.minimum.at(earliest_ns, number, messages.arrived_ns)
    np.maximum.at(latest_ns, number, messages.arrived_ns)
    apart_ns, size = latest_ns - earliest_ns, logged.plan.ops.size_bytes[messages.send[first]]
    _, most_ns = quantiles(apart_ns, size)
    return most_ns / 1e9
