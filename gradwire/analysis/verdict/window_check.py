"""The check that links, and not sockets' windows, were the limit, where links have a delay."""

from __future__ import annotations

from gradwire.analysis.congestion.windows import WindowUse
from gradwire.analysis.quantities import quantity
from gradwire.analysis.verdict.checks import Check

WINDOW_TOLERANCE = 0.02
"""By how much windows that hold less than their paths may make an iteration longer: as much as a run may be off an ideal network before a
cause is looked for. Of two hosts at 25 Gbit/s with a round trip of 4 ms, buffers of 4 MiB made iterations 3.87 times as long, 16 MiB 1.06
times, and the default not longer at all."""
MEANING = "Sockets' windows, which are a setting, decided how fast data went, and not the links: set a larger transport.buffer."


def window_check(use: WindowUse, asked: bool) -> Check:
    """Connections' windows hold what their paths do, or it does not matter to iterations that they do not.

    asked: whether the scenario chose the buffer. It may then be what is to be measured, so the check only tells.
    """
    return Check(
        "windows",
        _short_told(use, asked)
        if use.short
        else f"{use.connections} connections' windows hold what their round trips do",
        f"iterations at most {1 + WINDOW_TOLERANCE:g} times as long for windows, or transport.buffer chosen by the scenario",
        asked or not use.decided(WINDOW_TOLERANCE),
        MEANING,
    )


def _short_told(use: WindowUse, asked: bool) -> str:
    worst = min(use.short, key=lambda each: each.window_bytes / each.path_bytes)
    window, path = quantity(round(worst.window_bytes), "bytes"), quantity(round(worst.path_bytes), "bytes")
    cost = "" if use.slower is None else f", and an iteration takes {use.slower:.3f} times as long for it by estimate"
    chosen = "; transport.buffer was chosen by the scenario" if asked else ""
    return (
        f"{len(use.short)} of {use.connections} connections' windows hold less than their round trips, such as {window} of {path} "
        f"({worst.ends}, {quantity(worst.round_trip_s, 's')}); sockets were the limit for {use.held_back:.0%} of the time that these "
        f"were busy{cost}{chosen}"
    )
