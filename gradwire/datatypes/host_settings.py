"""Setup of hosts' kernels: parameters in a host's network namespace that users set, and its TCP as gradwire tunes it,
or as Linux comes. Imports only the standard library.

What stock hosts have are Linux's defaults: Documentation/networking/ip-sysctl.rst of the kernel, tcp_init() of
net/ipv4/tcp.c for the largest buffers, on machines with more than 1 GiB of memory for sockets, and tcp_sk_init() of
net/ipv4/tcp_ipv4.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gradwire.datatypes.name_patterns import NumberedNames

ALL = "all"
"""Names all hosts, as in other keys of scenarios."""
CONGESTION_KEY = "net.ipv4.tcp_congestion_control"
ECN_KEY = "net.ipv4.tcp_ecn"
OF_TCP = ("net.ipv4.tcp_", "net.core.")
"""Prefixes of parameters that decide how fast TCP sends. No ideal network knows them."""
RESENDING = (
    "early_retrans",
    "recovery",
    "reordering",
    "max_reordering",
    "frto",
    "retrans_collapse",
    "rto_min_us",
    "dsack",
    "sack",
)
"""Suffixes of parameters of TCP that decide when it retransmits, also where nothing is lost."""
STOCK_SEND_BYTES = 4194304
"""The largest send buffer to which Linux grows a socket's (the third value of net.ipv4.tcp_wmem)."""
STOCK_RECEIVE_BYTES = 6291456
"""The largest receive buffer to which Linux grows a socket's (the third value of net.ipv4.tcp_rmem)."""
WRITTEN_SHARE = 2 / 3
"""Share of a send buffer that is in flight when its sender writes again (sk_stream_min_wspace of
include/net/sock.h)."""
HALF = 2
"""Before Linux 6.6, half of a receive buffer was for the kernel's own structures (net.ipv4.tcp_adv_win_scale = 1).
Since then a socket measures what they take, which is next to nothing of large packets (dfa2f0483360, "tcp: get rid of
sysctl_tcp_adv_win_scale")."""


@dataclass(frozen=True)
class HostSetting:
    """Parameters of the hosts whose names match a pattern."""

    #: A host's name, a pattern as of a shell's file names ("h[1-4]"), or "all".
    pattern: str
    #: Keys such as "net.ipv4.tcp_ecn", with their values.
    sysctls: tuple[tuple[str, str], ...]

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> HostSetting:
        """A setting of these fields, whose pairs JSON has as lists."""
        return HostSetting(fields["pattern"], tuple((key, value) for key, value in fields["sysctls"]))


@dataclass(frozen=True)
class AskedParameter:
    """The value that a user wants a host's parameter to have."""

    value: str
    #: Pattern of the setting that the value is from, which is the last one for this key.
    pattern: str


@dataclass(frozen=True)
class HostParameter:
    """A parameter of a host's kernel that the scenario sets, as the machine found it."""

    host: str
    key: str
    #: Its value before the scenario set it.
    before: str
    #: Whether gradwire itself had set that value.
    is_own: bool
    #: Its value at the end of the run.
    at_end: str = ""


Parameters = Mapping[str, AskedParameter]
"""The parameters that settings ask for at one host, by key."""


def parameters_of_hosts(names: NumberedNames, hosts: int, settings: Sequence[HostSetting]) -> tuple[Parameters, ...]:
    """Returns the parameters that settings ask for at each host; a later setting overrides an earlier one.

    names: of all hosts, by which the settings' patterns find them. hosts: how many there are.
    """
    found: list[dict[str, AskedParameter]] = [{} for _ in range(hosts)]
    for setting in settings:
        asked = {key: AskedParameter(value, setting.pattern) for key, value in setting.sysctls}
        for host in hosts_meant(names, hosts, setting):
            found[host].update(asked)
    return tuple(found)


def hosts_meant(names: NumberedNames, hosts: int, setting: HostSetting) -> Sequence[int]:
    """Returns the numbers of the hosts that a setting is for, found by their names."""
    return range(hosts) if setting.pattern == ALL else names.matching(setting.pattern)


def is_of_tcp(key: str) -> bool:
    """Returns whether a parameter decides how fast TCP sends."""
    return key.startswith(OF_TCP)


def is_of_resending(key: str) -> bool:
    """Returns whether a parameter decides when TCP retransmits."""
    return key.startswith("net.ipv4.tcp_") and key.endswith(RESENDING)


def same_value(one: str, other: str) -> bool:
    """Returns whether two values are equal, whatever white space separates their numbers: the kernel writes tabs."""
    return one.split() == other.split()


class RdmaDevice(StrEnum):
    """The software RDMA device of a host."""

    NONE = "none"
    #: RoCEv2: InfiniBand's transport in UDP.
    RXE = "rxe"
    #: iWARP, over TCP.
    SIW = "siw"


class HostTcp(StrEnum):
    """The setup of TCP at all hosts."""

    #: For standing in for RDMA: large buffers from the start, no restart after a pause, no timer that takes a
    #: held-back class for lost.
    TUNED = "tuned"
    #: As Linux 6.6 and later come.
    STOCK = "stock"
    #: As Linux before 6.6 comes, whose receive windows are half of their buffers.
    STOCK_BEFORE_6_6 = "stock-before-6.6"

    @property
    def is_stock(self) -> bool:
        """Returns whether TCP is as Linux comes, with the defaults of some version."""
        return self is not HostTcp.TUNED

    @property
    def window_bytes(self) -> int:
        """Returns the most bytes that a connection of stock hosts has in flight, by the buffers of its two sockets.
        With a round trip of 20 ms at 2 Gbit/s, two hosts with 64 MB each way reached 134 MB/s, which are 2.7 MB in each
        round trip."""
        return min(round(WRITTEN_SHARE * STOCK_SEND_BYTES), self.receive_bytes)

    @property
    def receive_bytes(self) -> int:
        """The largest receive window of stock hosts.

        The virtual clock's kernel is 6.12, where tcp_adv_win_scale has no effect. There, half of the largest buffer
        gives the same window: a socket starts with half of its first buffer as a window in both, and large packets
        leave nearly all of a grown one for it.
        """
        return STOCK_RECEIVE_BYTES // HALF if self is HostTcp.STOCK_BEFORE_6_6 else STOCK_RECEIVE_BYTES
