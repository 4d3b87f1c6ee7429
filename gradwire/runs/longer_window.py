"""Chooses a longer warm-up and a longer measurement for a run whose iterations were not steady, by the times that it
measured.

A point's key has a hash of this module, which therefore imports nothing of gradwire.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

MOST_ITERATIONS = 40
"""Largest number of iterations, equal to that of an estimate of a schedule that never repeats
(analysis/fluid/estimate.py): there is nothing to compare later ones with."""
NEAR = 0.01
"""Largest random error of the mean, as a share. `run.warmup = "steady"` allows the same on the ideal network
(analysis/fluid/steady.py)."""
LEAST_GROWTH, MOST_GROWTH = 2, 4
"""Range of the factor by which the next try measures more iterations."""


def longer_window(times_s: Sequence[float], warmup: int, most: int = MOST_ITERATIONS) -> tuple[int, int] | None:
    """Warm-up and measured iterations of the next try; None where there is none, for it would have more than `most`
    iterations.

    All that ran before is warm-up. So many are measured that twice their mean's standard error is NEAR, if they vary
    as the measured ones do, within the limits of growth.

    times_s: of all iterations, of which the first `warmup` were not measured.
    """
    measured = times_s[warmup:]
    spread = statistics.pstdev(measured) / statistics.fmean(measured)
    wanted = math.ceil((2 * spread / NEAR) ** 2)
    iterations = max(LEAST_GROWTH * len(measured), min(wanted, MOST_GROWTH * len(measured)))
    iterations = min(iterations, most - len(times_s))
    return (len(times_s), iterations) if iterations >= len(measured) else None
