"""What users set of hosts: parameters of the kernel in a host's network namespace. Imports only the standard
library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

ALL = "all"
"""Names all hosts, as in other keys of scenarios."""
CONGESTION_KEY = "net.ipv4.tcp_congestion_control"
ECN_KEY = "net.ipv4.tcp_ecn"
OF_TCP = ("net.ipv4.tcp_", "net.core.")
"""What parameters begin with that decide how fast TCP sends. No ideal network knows them."""
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
"""What parameters of TCP end with that decide what it sends again, also where nothing is lost."""


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

    def takes(self, names: Iterable[str]) -> bool:
        """Whether a host with these names is meant."""
        return self.pattern == ALL or any(self.pattern == name or fnmatchcase(name, self.pattern) for name in names)


@dataclass(frozen=True)
class AskedParameter:
    """The value that a user wants a host's parameter to have."""

    value: str
    #: Of the setting that counts, which is the last one.
    pattern: str


@dataclass(frozen=True)
class HostParameter:
    """A parameter of a host's kernel that the scenario sets, as the machine found it."""

    host: str
    key: str
    #: What it was before.
    before: str
    #: Whether that was a setting of gradwire's own.
    is_own: bool
    #: What it was when all was over.
    at_end: str = ""


Parameters = Mapping[str, AskedParameter]
"""What is asked of one host, by key."""


def parameters_of_hosts(names: Sequence[Sequence[str]], settings: Sequence[HostSetting]) -> tuple[Parameters, ...]:
    """What is asked of each host. names: everything that each is called."""
    return tuple(_parameters_of(each, settings) for each in names)


def _parameters_of(names: Sequence[str], settings: Sequence[HostSetting]) -> Parameters:
    return {
        key: AskedParameter(value, setting.pattern)
        for setting in settings
        if setting.takes(names)
        for key, value in setting.sysctls
    }


def is_of_tcp(key: str) -> bool:
    """Whether a parameter decides how fast TCP sends."""
    return key.startswith(OF_TCP)


def is_of_resending(key: str) -> bool:
    """Whether a parameter decides what TCP sends again."""
    return key.startswith("net.ipv4.tcp_") and key.endswith(RESENDING)


def same_value(one: str, other: str) -> bool:
    """Whether two values are equal, however their numbers are set apart: the kernel writes tabs."""
    return one.split() == other.split()
