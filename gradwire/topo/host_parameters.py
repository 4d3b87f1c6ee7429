"""Parameters of hosts' kernels: writes those that a scenario sets in a host's network namespace, reads them back, and
decides whether interfaces have IPv6."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from gradwire.datatypes.host_settings import AskedParameter, HostParameter, Parameters, same_value
from gradwire.faults import InputFault
from gradwire.topo.command import read_sysctl, write_sysctl

SETTINGS = Path("/proc/sys")
QUIET = {"addr_gen_mode": "1", "accept_ra": "0", "router_solicitations": "0", "disable_ipv6": "0"}
"""Parameters of interfaces that have only the IPv6 addresses that they are given, and ask for no routers."""


def set_parameters(host: str, asked: Parameters, own: Collection[str], root: Path = SETTINGS) -> list[HostParameter]:
    """Writes the parameters that are set for a host, in whose network namespace the caller is, and reads them back.

    own: parameters that gradwire has set there itself, as paths below `root`. Raises InputFault, with the host and the
    key, for a parameter that does not exist there, and for a value that the kernel does not take.
    """
    return [_set(host, key, parameter, path_of(key) in own, root) for key, parameter in asked.items()]


def read_again(parameters: Sequence[HostParameter], host: str) -> list[HostParameter]:
    """Reads the present values of a host's parameters; the caller is in its network namespace. A parameter that no
    longer exists gets ""."""
    return [replace(each, at_end=read_sysctl(path_of(each.key)).strip()) for each in parameters if each.host == host]


def path_of(key: str) -> str:
    """Path of a parameter below /proc/sys."""
    return key.replace(".", "/")


def _set(host: str, key: str, asked: AskedParameter, is_own: bool, root: Path) -> HostParameter:
    path = root / path_of(key)
    named = f"fabric.host.'{asked.pattern}'.sysctl.'{key}'"
    try:
        before = path.read_text().strip()
    except FileNotFoundError as missing:
        raise InputFault(
            f"{named}: host {host} has no such parameter: its kernel does not know it, or has one for all hosts together"
        ) from missing
    except OSError as error:
        raise InputFault(f"{named}: of host {host} cannot be read: {error.strerror}") from error
    try:
        path.write_text(asked.value)
    except OSError as refused:
        raise InputFault(
            f"{named} = '{asked.value}': the kernel of host {host} refuses it ({refused.strerror}); it is '{before}'"
        ) from refused
    now = path.read_text().strip()
    if not same_value(now, asked.value):
        raise InputFault(
            f"{named} = '{asked.value}': the kernel of host {host} makes '{now}' of it; write what it keeps"
        )
    return HostParameter(host, key, before, is_own)


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
