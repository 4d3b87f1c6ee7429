"""Whether interfaces have IPv6, by parameters of the network namespace that the caller is in."""

from __future__ import annotations

from pathlib import Path

from gradwire.topo.command import write_sysctl

QUIET = {"addr_gen_mode": "1", "accept_ra": "0", "router_solicitations": "0", "disable_ipv6": "0"}
"""With the addresses that they are given and no other, and without asking for routers."""


def silence_ipv6(scope: str) -> None:
    """Disables IPv6, if the kernel has it: neighbour discovery and router solicitation would be unplanned traffic.

    scope: an interface, "all", or "default" for interfaces to come.
    """
    if Path("/proc/sys/net/ipv6/conf", scope).exists():
        write_sysctl(f"net/ipv6/conf/{scope}/disable_ipv6", "1")


def quiet_ipv6(scope: str) -> None:
    """Lets interfaces have IPv6, if the kernel has it, without sending anything but reports of the groups that hosts
    listen to."""
    if Path("/proc/sys/net/ipv6/conf", scope).exists():
        for name, value in QUIET.items():
            write_sysctl(f"net/ipv6/conf/{scope}/{name}", value)
