"""What a scenario says of single hosts, in [fabric.host."NAME"]: parameters of their kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from gradwire.datatypes.host_settings import HostSetting
from gradwire.workloads.fields import InWords, Section

KEY = re.compile(r"net(\.[A-Za-z0-9_-]+){2,}")
"""A parameter of the network: a path below /proc/sys/net, in which no step leads out of it."""
LONGEST_VALUE = 1024
"""Characters: more than any list of algorithms or sizes has, and less than the page that the kernel takes at most."""
MOST_PARAMETERS = 256


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = prefix + str(key).replace("/", ".")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _parameters(value: Any) -> Any:
    """Keys with dots, also where TOML has read them as tables in tables; numbers, and lists of numbers, as text."""
    if not isinstance(value, Mapping):
        return value
    return {key: _text(each) for key, each in _flat(value)}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(each, int | str) for each in value):
        return " ".join(str(each) for each in value)
    return value


Sysctls = Annotated[
    dict[str, Annotated[str, Field(min_length=1, max_length=LONGEST_VALUE)]],
    Field(max_length=MOST_PARAMETERS),
    BeforeValidator(_parameters, json_schema_input_type=dict[str, str | int | bool | list[int]]),
    InWords('parameters with their values, such as {"net.ipv4.tcp_congestion_control" = "bbr"}'),
]


class HostSection(Section):
    """What the hosts are like whose names match the table's: "h1", a pattern such as "h[1-4]", or "all". Where several tables match, the
    later one counts."""

    sysctl: Sysctls
    """Parameters of the kernel in the host's network namespace, which begin with `net.`: they are written before the first byte, after
    gradwire's own, and read back then and at the end."""

    @model_validator(mode="after")
    def _of_the_network(self) -> Self:
        lines = []
        for key, value in self.sysctl.items():
            if not KEY.fullmatch(key):
                lines.append(
                    f"sysctl.'{key}': is not a parameter of a host's network; write one that begins with net., such as "
                    "net.ipv4.tcp_congestion_control"
                )
            if not value.isprintable() and "\t" not in value:
                lines.append(f"sysctl.'{key}': its value must be one line of printable characters")
        if not self.sysctl:
            lines.append("sysctl: says nothing: give a parameter, or leave the table out")
        if lines:
            raise ValueError("\n".join(lines))
        return self

    def setting(self, pattern: str) -> HostSetting:
        """The table as a fabric has it."""
        return HostSetting(pattern, tuple(self.sysctl.items()))
