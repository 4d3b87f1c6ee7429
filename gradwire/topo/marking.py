"""Marks the packets of programs, which do not know of traffic classes, at their host's port. Pure.

The kernel gives packets of a program's sockets the priority of its cgroup (net_prio), which leads them to the band of
their class at the host's own port (topo/tc.py). Before they get there, a filter writes the band's DSCP into them, by
which switches know it.
"""

from __future__ import annotations

from collections.abc import Iterable

from gradwire.datatypes.fabric import MAX_BANDS, dscp_of_band, socket_priority

PROTOCOLS = {"ip": "ip", "ip6": "ipv6"}
"""By tc's words for the headers of IPv4 and of IPv6."""
KINDS = tuple(PROTOCOLS)


def marking_commands(interface: str, bands: Iterable[int]) -> list[list[str]]:
    """tc commands, without "tc", for a port without any `clsact`: they mark packets with the priorities of these
    bands."""
    filters = (_filter(interface, band, kind) for band in bands for kind in KINDS)
    return [["qdisc", "add", "dev", interface, "clsact"], *filters]


def _filter(interface: str, band: int, kind: str) -> list[str]:
    """One for packets of a kind. Filters of one priority are for one protocol, so each kind has separate priorities."""
    order = str(KINDS.index(kind) * MAX_BANDS + band + 1)
    place = ["filter", "add", "dev", interface, "egress", "protocol", PROTOCOLS[kind], "prio", order]
    match = ["basic", "match", "meta(priority", "eq", f"{socket_priority(band)})"]
    return [*place, *match, "action", "pedit", "ex", "munge", *_marks(dscp_of_band(band), kind)]


def _marks(dscp: int, kind: str) -> list[str]:
    """What writes a DSCP. The lowest two bits of its field are those of congestion notification, which stay as they
    are."""
    if kind == "ip6":
        # Bits 4 to 9 of the header, which has no checksum. Tools before iproute2 6.4 have no word for them.
        return ["offset", "0", "u16", "set", f"{dscp << 6:#06x}", "retain", "0x0fc0"]
    return ["ip", "dsfield", "set", f"{dscp << 2:#04x}", "retain", "0xfc", "pipe", "action", "csum", "ip4h"]


def priority_line(interface: str, band: int) -> str:
    """What is written to a cgroup of net_prio (ifpriomap), so that its packets go to a band of a port."""
    return f"{interface} {socket_priority(band)}"
