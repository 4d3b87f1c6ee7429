"""Measures from a log how many bytes each connection held in the network, and how far apart copies of a multicast
message arrived.

A connection's held bytes are those whose SEND had ended, so that their queue continued, but which had not arrived.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.analysis.logged import LoggedOps, data_of, wire_messages
from gradwire.datatypes.records import Int64

Float64 = npt.NDArray[np.float64]

TYPICAL, MOST = 0.5, 0.95
"""Shares of the payload. The most that was ever held is a moment's."""


@dataclass(frozen=True)
class HeldBytes:
    """Bytes of payload of one connection that had not arrived when a SEND ended: they waited unsent in a socket, in the
    host's port, or in switches."""

    #: Half of the payload was sent with no more than this, and MOST of it with no more than that.
    typical_bytes: int = 0
    most_bytes: int = 0


def held_bytes_of(logged: LoggedOps, warmup: int) -> HeldBytes:
    """Bytes that connections held in the measured iterations; an empty `HeldBytes` if no message with data crossed the
    network."""
    messages = wire_messages(logged)
    messages = messages.where(data_of(logged, messages) & (messages.iteration >= warmup))
    if not len(messages):
        return HeldBytes()
    ended = logged.end[messages.iteration, messages.send]
    size = logged.plan.ops.size_bytes[messages.send]
    # A queue serves one message after another, so they begin in the order of their bytes on the connection.
    order = np.lexsort((ended, messages.sent_ns, messages.connection))
    cuts = np.flatnonzero(np.diff(messages.connection[order])) + 1
    by_connection = [
        _of_connection(ended[rows], messages.header_ns[rows], messages.arrived_ns[rows], size[rows])
        for rows in np.split(order, cuts)
    ]
    return HeldBytes(*quantiles(np.concatenate(by_connection), size[order]))


def quantiles(values: Float64 | Int64, weights: Int64) -> list[int]:
    """The weighted quantiles at TYPICAL and MOST."""
    order = np.argsort(values, kind="stable")
    summed = np.cumsum(weights[order])
    places = np.searchsorted(summed, np.array([TYPICAL, MOST]) * summed[-1])
    return [int(value) for value in values[order[places]]]


def _of_connection(ended: Int64, header: Int64, arrived: Int64, size: Int64) -> Float64:
    """Bytes that a connection held when each SEND ended, for its messages in their order. A message is taken to arrive
    evenly."""
    # TCP delivers in order, so what arrives proves that all before it has; a RECV that waited may have been logged
    # later.
    arrived = np.minimum.accumulate(arrived[::-1])[::-1]
    begun = np.minimum(np.maximum(header, np.concatenate([[0], arrived[:-1]])), arrived)
    handed = np.cumsum(size)
    oldest = np.searchsorted(arrived, ended, side="right")
    # Whose own last byte has arrived when its SEND ends leaves nothing behind.
    waits = oldest <= np.arange(len(ended))
    first = np.where(waits, oldest, 0)
    share = np.clip((ended - begun[first]) / np.maximum(arrived[first] - begun[first], 1), 0.0, 1.0)
    before = handed[first] - size[first]
    left: Float64 = np.where(waits, handed - before - share * size[first], 0.0)
    return left


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
