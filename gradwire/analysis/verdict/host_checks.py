"""Checks of the kernel parameters of hosts that a scenario sets, and their consequences for other checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradwire.analysis.verdict.checks import Check
from gradwire.datatypes.host_settings import (
    CONGESTION_KEY,
    ECN_KEY,
    HostParameter,
    is_of_resending,
    is_of_tcp,
    same_value,
)
from gradwire.network.fabric import Fabric

MEANING = "A host's kernel was not set as the scenario asks, so another system was measured."
MOST_HOSTS = 3
"""Number of hosts that are named."""


def parameter_checks(fabric: Fabric, parameters_at_end: Sequence[HostParameter]) -> list[Check]:
    """Each parameter that the scenario sets at a host was there at the end of the run; no check where it sets none.

    Its value names the settings of gradwire's own that it replaces.
    """
    asked = {
        (host, key): parameter.value
        for host, parameters in zip(fabric.host_names(), fabric.host_parameters, strict=True)
        for key, parameter in parameters.items()
    }
    if not asked:
        return []
    at_end = {(each.host, each.key): each.at_end for each in parameters_at_end}
    wrong = [each for each, value in asked.items() if not same_value(at_end.get(each, ""), value)]
    told = "".join(f"; {key} of {host} is '{at_end.get((host, key), 'unknown')}'" for host, key in wrong[:1])
    own = "".join(f"; instead of gradwire's own {line}" for line in replaced_settings(parameters_at_end))
    return [
        Check(
            "host parameters",
            f"{len(asked) - len(wrong)} of {len(asked)} as asked for{told}{own}",
            "as the scenario sets them (fabric.host), to the end",
            not wrong,
            MEANING,
        )
    ]


def replaced_settings(found: Sequence[HostParameter]) -> list[str]:
    """Settings of gradwire's own that are replaced, with their values and their hosts."""
    replaced: dict[str, list[str]] = {}
    for each in found:
        if each.is_own:
            replaced.setdefault(f"{each.key} = '{' '.join(each.before.split())}'", []).append(each.host)
    return [f"{setting} at {_named(hosts)}" for setting, hosts in replaced.items()]


def _named(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - MOST_HOSTS} more" if len(hosts) > MOST_HOSTS else ""
    return ", ".join(hosts[:MOST_HOSTS]) + more


def sets_tcp(fabric: Fabric, at_line_rate: Iterable[str]) -> bool:
    """Returns whether the scenario sets what may slow TCP down. at_line_rate: congestion controls that do not."""
    if not set(fabric.congestion_of_hosts) <= set(at_line_rate):
        return True
    return any(is_of_tcp(key) for key in fabric.set_keys - {CONGESTION_KEY})


def resending_keys(fabric: Fabric) -> list[str]:
    """Parameters that the scenario sets and that decide which segments TCP sends again."""
    return sorted(filter(is_of_resending, fabric.set_keys))


def all_ask_for_ecn(fabric: Fabric) -> bool:
    """Returns whether connections of all hosts still ask for ECN where switches mark."""
    asked = [parameters[ECN_KEY].value for parameters in fabric.host_parameters if ECN_KEY in parameters]
    return all(value == "1" for value in asked)
