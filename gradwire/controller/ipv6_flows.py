"""The OpenFlow rules for IPv6: the twins of those for IPv4, so that packets of both take the same ways through the
same bands. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gradwire.controller.rules import ANY_DSCP, MULTICAST_PRIORITY, FlowRule, Match
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.ipv6 import LISTENER_REPORTS, host_ip6


def twins(fabric: Fabric, rules: Iterable[FlowRule]) -> list[FlowRule]:
    """The rules for IPv6 that do what these unicast rules do for IPv4, in their order; none for a fabric without IPv6.

    What hosts' kernels report of their groups is dropped, so that it does not count as a table miss.
    """
    if not fabric.ipv6:
        return []
    address = {fabric.host_ip(host): host_ip6(host) for host in range(fabric.endpoints)}
    found = [
        replace(
            rule,
            match=replace(
                rule.match,
                source_ip=rule.match.source_ip and address[rule.match.source_ip],
                destination_ip=rule.match.destination_ip and address[rule.match.destination_ip],
                version=6,
            ),
        )
        for rule in rules
        if rule.match is not None
    ]
    return [FlowRule(MULTICAST_PRIORITY, Match(None, LISTENER_REPORTS, ANY_DSCP, version=6)), *found]
