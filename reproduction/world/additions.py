"""How long this machine takes to add, on which rows of Gloo's reductions depend: what programs compute takes the CPU time
that the machine counts for it (`run.cpu_time`)."""

from __future__ import annotations

import statistics
import time

import numpy as np

FITTED_S = 0.16e-3
"""An addition of SEGMENT_BYTES where gloo_rows.CPU_TIME was fitted, by `python -m reproduction.world.additions`."""
SEGMENT_BYTES = 1 << 20
"""Gloo adds so much of a tensor at a time."""
SEGMENTS = 128
"""Of a tensor of the source, which no cache holds."""
LARGEST_SHARE_OFF = 0.25
"""Half as much again (1.5 in place of 1) makes the all-reduce with 1 ms 1 to 4 % longer, and the reduce 7 to 10 %
(gloo_rows.CPU_TIME), so a quarter does 1 to 5 %; where 1.5 was fitted, measurements were up to 14 % off FITTED_S."""


def addition_s() -> float:
    """CPU time of adding a segment of float32 to another, in the median over two tensors; takes some 0.3 s."""
    length = SEGMENT_BYTES // np.dtype(np.float32).itemsize
    sums, added = (np.ones((SEGMENTS, length), np.float32) for _ in range(2))
    times_s = []
    for segment, other in zip(sums, added, strict=True):
        begin_s = time.thread_time()
        np.add(segment, other, out=segment)
        times_s.append(time.thread_time() - begin_s)
    return statistics.median(times_s)


def warning(measured_s: float) -> str:
    """What to say of a machine that takes so long; "" for one like that of the page."""
    if abs(measured_s / FITTED_S - 1) <= LARGEST_SHARE_OFF:
        return ""
    longer = "longer" if measured_s > FITTED_S else "shorter"
    return (
        f"Gloo's all-reduces and reduces come out {longer} than on the page: this machine adds 1 MiB in {measured_s * 1e3:.2f} ms of CPU "
        f"time, and the page's took {FITTED_S * 1e3:.2f} ms. If other programs run here now, end them first; otherwise "
        "`python -m reproduction.world.gloo --cpu-time` runs rows with another factor"
    )


if __name__ == "__main__":
    print(f"1 MiB: {addition_s() * 1e3:.3f} ms")
