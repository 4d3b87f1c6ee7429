"""The loop that follows one all-reduce around a ring through all its steps, compiled by numba."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradwire.analysis.fluid.compiled import compiled
from gradwire.analysis.fluid.graph import Float64
from gradwire.datatypes.plan import Int64

Rows = npt.NDArray[np.float64]
"""Numbers by ranks, row by row."""

STARTED, LEFT, SENT, DONE, ARRIVALS = 0, 1, 2, 3, 4
"""Rows of what `follow` knows of ranks; arrivals have two, one for the step before and one for this one."""


@compiled
def follow(part_bytes: Float64, senders: Rows, unsent_bytes: float, state: Rows, watched: Int64, log: Rows) -> None:
    """Follows a call through all steps, and changes when ranks have sent and are done.

    senders: by rank, the time of a byte on the line, latency, the time of a byte on a machine's own link, and what links
    add. log: gets, by step, when the message of the first of two ranks has left, and when that for the second arrives; it
    has no steps where nothing is wanted.
    """
    ns_per_byte, latency_ns, local_ns_per_byte, travel_ns = senders[0], senders[1], senders[2], senders[3]
    started_ns, left_ns, sent_ns, done_ns = state[STARTED], state[LEFT], state[SENT], state[DONE]
    ranks = len(part_bytes)
    for step in range(2 * (ranks - 1)):
        before, now = state[ARRIVALS + step % 2], state[ARRIVALS + (step + 1) % 2]
        part = -step % ranks
        for rank in range(ranks):
            size = part_bytes[part]
            part = part + 1 if part + 1 < ranks else 0
            after = rank + 1 if rank + 1 < ranks else 0
            if size == 0.0:
                now[after] = 0.0
                continue
            ready_ns = started_ns[rank] if step == 0 else max(before[rank], started_ns[rank])
            ready_ns = max(ready_ns, sent_ns[rank])
            # Ops take whole nanoseconds.
            joins_ns = ready_ns + np.rint(latency_ns[rank] + size * local_ns_per_byte[rank])
            took_ns = size * ns_per_byte[rank]
            left_ns[rank] = max(joins_ns, left_ns[rank]) + took_ns if took_ns > 0.0 else joins_ns
            sent_ns[rank] = max(joins_ns, left_ns[rank] - unsent_bytes * ns_per_byte[rank])
            done_ns[rank] = max(done_ns[rank], sent_ns[rank])
            now[after] = left_ns[rank] + travel_ns[rank]
            done_ns[after] = max(done_ns[after], now[after])
        if log.shape[1] > 0:
            log[0, step], log[1, step] = left_ns[watched[0]], now[watched[1]]
