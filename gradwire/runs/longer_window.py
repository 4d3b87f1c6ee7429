"""How long a run warms up, and how much it measures, where its iterations were not steady: decided from what it
measured.

A point's key has a hash of this module, which therefore imports nothing of gradwire.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

MOST_ITERATIONS = 40
"""As many as an estimate of a schedule that never repeats has (analysis/fluid/estimate.py): later ones are compared
with nothing."""
NEAR = 0.01
"""How far the mean may be off by chance, as a share: what `run.warmup = "steady"` asks of the ideal network
(analysis/fluid/steady.py)."""
LEAST_GROWTH, MOST_GROWTH = 2, 4
"""How many times as many iterations the next try measures."""


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
