"""How long queues were, as statistics over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradwire.analysis.iterations import Float64
from gradwire.datatypes.records import QueueLengths


@dataclass(frozen=True)
class QueueUse:
    """The queue of a switch's port over some time, all of its bands together. Bytes are those of frames, as tc counts them."""

    port: str
    mean_bytes: float
    #: 99 % of the readings were not above it.
    p99_bytes: float
    most_bytes: int
    readings: int


def queue_uses(queues: QueueLengths, spans_s: Float64 | None = None) -> list[QueueUse]:
    """The queues of all ports, the longest mean first.

    spans_s: rows of a begin and an end; readings outside of all of them do not count, and without it those before the replay. Empty if no
    reading is left.
    """
    kept = queues.time_ns >= 0 if spans_s is None else _inside(queues.time_ns / 1e9, spans_s)
    rows = queues.waiting_bytes[kept]
    if not len(rows):
        return []
    uses = [
        QueueUse(port, float(column.mean()), float(np.percentile(column, 99)), int(column.max()), len(column))
        for port, column in zip(queues.ports, rows.T, strict=True)
    ]
    return sorted(uses, key=lambda use: -use.mean_bytes)


def _inside(times_s: Float64, spans_s: Float64) -> np.typing.NDArray[np.bool_]:
    inside = np.zeros(len(times_s), dtype=np.bool_)
    for begin_s, end_s in spans_s:
        inside |= (times_s >= begin_s) & (times_s <= end_s)
    return inside
