"""Gives the bursts that leave a host's port their ways in turn (datatypes/sprayed_ways.py). Pure.

A filter in front of the port's queues looks at some bits of the IP identification and writes the source's MAC address,
which changes no checksum. It sees a burst as a whole, before segmentation, so all its frames take one way.
"""

from __future__ import annotations

from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.sprayed_ways import chunk_bits, turns_of, way_mac, ways_of

IDENTIFICATION_AT = 4
"""Where the IPv4 header has it, in bytes."""


def spraying_commands(interface: str, fabric: Fabric) -> list[list[str]]:
    """tc commands, without "tc", for the port of a host of a fabric whose bursts take all ways in turn; none for
    others. The port must have no `clsact` yet."""
    if not fabric.routing.is_by_burst:
        return []
    turns, shift, ways = turns_of(fabric), chunk_bits(fabric), ways_of(fabric)
    mask = f"{turns - 1 << shift:#06x}"
    place = ["filter", "add", "dev", interface, "egress", "protocol", "ip", "prio", "1", "u32"]
    return [
        ["qdisc", "add", "dev", interface, "clsact"],
        *(
            [
                *place,
                *("match", "u16", f"{turn << shift:#06x}", mask, "at", str(IDENTIFICATION_AT)),
                *("action", "pedit", "ex", "munge", "eth", "src", "set", way_mac(turn % ways)),
            ]
            for turn in range(turns)
        ),
    ]
