"""Why no check finds some faults, which change times or bytes all the same."""

from __future__ import annotations

from collections.abc import Mapping

COULD_BE_FASTER = (
    "A log shows a message that was too fast, not one that could have been faster. The comparison "
    "[with an ideal network](../../docs/trust/exactness.md#compared-with-an-ideal-network) does, and warns above 2 %"
)
REASONS: Mapping[tuple[str, str], str] = {
    ("plans", "a message is half as large as its chunk"): (
        "Some strategies do send less than a chunk, so the checker permits it. The strategies' tests compare bytes with closed forms"
    ),
    ("plans", "priorities are the other way round"): (
        "It is another plan, and a sound one. Which order a strategy's paper means is for the strategy's own tests"
    ),
    ("tc", "a port delays its packets by 50 us"): COULD_BE_FASTER,
    ("queues", "the average is of many packets"): (
        "tc does not tell what it made of the words for it. Tests of the argument lists do (`tests/unit/topo/test_switch_queues.py`)"
    ),
    ("tc", "a switch's port is half as fast after the probe"): COULD_BE_FASTER,
}
"""By family and name of the fault."""
