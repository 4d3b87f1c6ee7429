"""What iterations took before, during and after faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradwire.analysis.iterations import Float64
from gradwire.datatypes.records import FaultRecord, Int64


def fault_lines(faults: Sequence[FaultRecord], edges_ns: Int64) -> Iterator[str]:
    """A line for each fault that happened. edges_ns: when iterations begin, and at last when the last one ends."""
    times_s = np.diff(edges_ns) / 1e9
    for record in faults:
        if record.begun_ns < 0:
            continue
        ended_ns = edges_ns[-1] if record.ended_ns < 0 else record.ended_ns
        before, after = edges_ns[1:] <= record.begun_ns, edges_ns[:-1] >= ended_ns
        parts = [
            f"{_span(times_s[chosen])} {when}"
            for chosen, when in (
                (before, "before"),
                (~before & ~after, f"during ({_numbers(~before & ~after)})"),
                (after, "after"),
            )
            if chosen.any()
        ]
        fault = record.fault
        yield (
            f"fault.{fault.name}: {fault.what} from {record.begun_ns / 1e9:.6f} s to {ended_ns / 1e9:.6f} s; iterations took "
            f"{', '.join(parts)}"
        )


def _span(times_s: Float64) -> str:
    low, high = f"{times_s.min():.4f}", f"{times_s.max():.4f}"
    return f"{low} s" if low == high else f"{low} to {high} s"


def _numbers(chosen: np.typing.NDArray[np.bool_]) -> str:
    numbers = np.flatnonzero(chosen)
    return f"iteration {numbers[0]}" if len(numbers) == 1 else f"iterations {numbers[0]} to {numbers[-1]}"
