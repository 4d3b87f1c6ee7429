"""Selects candidates that are worth a run, by their estimates."""

from __future__ import annotations

from collections.abc import Mapping

MARGIN = 0.03
"""Largest difference expected between a run and its estimate, as a share of the estimate.

docs/estimate.md: points of large messages were within 0.3 %, so this is ten times that. Iterations of less than a
millisecond, and plans whose SENDs the sockets end early, were farther away and need a larger one.
"""


def within_reach(estimates_s: Mapping[str, float], margin: float = MARGIN) -> list[str]:
    """The names of those that may be the fastest when they run, the fastest by its estimate first.

    A run takes between (1 - margin) and (1 + margin) times its estimate. So one whose earliest time is later than the
    latest time of the one with the least estimate cannot win. Raises ValueError for a margin that is not from 0 to
    below 1.
    """
    if not 0 <= margin < 1:
        raise ValueError(f"margin = {margin}: must be 0 or more, and less than 1")
    latest_s = min(estimates_s.values(), default=0.0) * (1 + margin)
    near = [name for name, estimate_s in estimates_s.items() if estimate_s * (1 - margin) <= latest_s]
    return sorted(near, key=lambda name: estimates_s[name])
