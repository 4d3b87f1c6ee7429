"""Marks the packets of programs, which do not know of traffic classes, at their host's port. Pure.

The kernel gives packets of a program's sockets the priority of its cgroup (net_prio), which leads them to the band of
their class at the host's own port (topo/tc.py). Before they get there, a filter writes the band's DSCP into them, by
which switches know it.
"""

from __future__ import annotations

from collections.abc import Iterable

from gradwire.datatypes.fabric import dscp_of_band, socket_priority


def marking_commands(interface: str, bands: Iterable[int]) -> list[list[str]]:
    """tc commands, without "tc", for a port without any `clsact`: they mark packets with the priorities of these
    bands."""
    return [["qdisc", "add", "dev", interface, "clsact"], *(_filter(interface, band) for band in bands)]


def _filter(interface: str, band: int) -> list[str]:
    place = ["filter", "add", "dev", interface, "egress", "protocol", "ip", "prio", str(band + 1)]
    match = ["basic", "match", "meta(priority", "eq", f"{socket_priority(band)})"]
    # The lowest two bits are those of congestion notification, which stay as they are.
    mark = ["pedit", "ex", "munge", "ip", "dsfield", "set", f"{dscp_of_band(band) << 2:#04x}", "retain", "0xfc", "pipe"]
    return [*place, *match, "action", *mark, "action", "csum", "ip4h"]


def priority_line(interface: str, band: int) -> str:
    """What is written to a cgroup of net_prio (ifpriomap), so that its packets go to a band of a port."""
    return f"{interface} {socket_priority(band)}"
