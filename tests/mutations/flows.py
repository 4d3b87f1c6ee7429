"""Faults of flow tables, put into the rules before the controller installs them in the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import gradwire.controller.__main__
from gradwire.controller.rules import (
    MULTICAST_PRIORITY,
    PAIR_PRIORITY,
    FlowRule,
    GroupBucket,
    GroupRule,
    SwitchRules,
)
from gradwire.network.fabric import Fabric
from gradwire.network.group_addresses import IGMP_REPORTS_IP
from tests.mutations.fault import Fault, replace_in

FLOOD, CONTROLLER = 0xFFFFFFFB, 0xFFFFFFFD
"""OFPP_FLOOD and OFPP_CONTROLLER of OpenFlow 1.3."""
FIRST_HOST_IP, SECOND_HOST_IP = "10.0.0.1", "10.0.0.2"
Change = Callable[[FlowRule], FlowRule | None]


def installed(change: Callable[[SwitchRules], SwitchRules]) -> Callable[[], None]:
    """The controller installs other rules."""

    def make(original: Callable[[Fabric], list[SwitchRules]]) -> Callable[[Fabric], list[SwitchRules]]:
        return lambda fabric: [change(switch) for switch in original(fabric)]

    return partial(replace_in, gradwire.controller.__main__, "switch_rules", make)


def flows(change: Change) -> Callable[[], None]:
    """Other flows; None leaves one out."""

    def of(switch: SwitchRules) -> SwitchRules:
        changed = tuple(rule for old in switch.flows if (rule := change(old)) is not None)
        return replace(switch, flows=changed)

    return installed(of)


def groups(change: Callable[[GroupRule, SwitchRules], tuple[GroupBucket, ...]]) -> Callable[[], None]:
    """Other buckets in the first switch with groups of the data band."""

    def of(switch: SwitchRules) -> SwitchRules:
        return replace(switch, groups=tuple(replace(rule, buckets=change(rule, switch)) for rule in switch.groups))

    return installed(of)


def to_host(ip: str, change: Change, band: int | None = None) -> Change:
    """Changes the rules of packets to one host, in one band or all."""

    def wanted(rule: FlowRule) -> FlowRule | None:
        mine = rule.match is not None and rule.match.destination_ip == ip and band in (None, rule.band)
        return change(rule) if mine else rule

    return wanted


def banded(new: Callable[[int], int]) -> Change:
    return lambda rule: rule if rule.band is None else replace(rule, band=new(rule.band))


def out_of(port: int | None) -> Change:
    return lambda rule: replace(rule, output_port=port)


def up_by(ports: dict[int, int]) -> Change:
    """Pairs of hosts on different leaves use another spine."""

    def change(rule: FlowRule) -> FlowRule:
        if rule.priority != PAIR_PRIORITY or rule.output_port is None:
            return rule
        return replace(rule, output_port=ports.get(rule.output_port, rule.output_port))

    return change


def forgotten_after_a_second() -> None:
    def make(original: Callable[[Any, FlowRule], Any]) -> Callable[[Any, FlowRule], Any]:
        def message(datapath: Any, rule: FlowRule) -> Any:
            made = original(datapath, rule)
            made.hard_timeout = 1 if rule.match is not None else 0
            return made

        return message

    replace_in(gradwire.controller.__main__, "flow_message", make)


def twice_the_switch(rule: FlowRule) -> FlowRule:
    return replace(rule, priority=rule.priority + 7) if rule.match is not None else rule


def shadowed(switch: SwitchRules) -> SwitchRules:
    """A leftover rule of a higher priority sends data for the first host to the second."""
    stale = [
        replace(rule, priority=MULTICAST_PRIORITY, output_port=2)
        for rule in switch.flows
        if rule.match is not None and rule.match.destination_ip == FIRST_HOST_IP and rule.band == 1
    ]
    return replace(switch, flows=(*stale, *switch.flows))


def without_buckets(rule: GroupRule, switch: SwitchRules) -> tuple[GroupBucket, ...]:
    return rule.buckets[:-1] if switch.dpid == 1 and len(rule.buckets) > 1 else rule.buckets


def doubled_buckets(rule: GroupRule, switch: SwitchRules) -> tuple[GroupBucket, ...]:
    return (*rule.buckets, rule.buckets[-1]) if switch.dpid == 1 else rule.buckets


def foreign_buckets(rule: GroupRule, switch: SwitchRules) -> tuple[GroupBucket, ...]:
    """A copy to the first switch's first host, which may be the sender or has one already."""
    return (*rule.buckets, GroupBucket(rule.buckets[0].band, 1)) if switch.dpid == 1 else rule.buckets


def strange_bands(rule: GroupRule, _: SwitchRules) -> tuple[GroupBucket, ...]:
    return tuple(replace(bucket, band=0) for bucket in rule.buckets)


FAULTS = [
    Fault("no flow to a host in one class", flows(to_host(FIRST_HOST_IP, lambda _: None, 1))),
    Fault(
        "a host's flows drop", flows(to_host(FIRST_HOST_IP, lambda rule: replace(rule, output_port=None, band=None), 1))
    ),
    Fault("a host's flows lead to another", flows(to_host(FIRST_HOST_IP, out_of(2)))),
    Fault("a leftover flow leads to another host", installed(shadowed)),
    Fault("no table-miss flow", flows(lambda rule: None if rule.match is None else rule)),
    Fault("flows flood", flows(to_host(FIRST_HOST_IP, out_of(FLOOD)))),
    Fault("flows lead to the controller", flows(to_host(FIRST_HOST_IP, out_of(CONTROLLER), 1))),
    Fault("flows set the queue of the next class", flows(banded(lambda band: min(2, band + 1)))),
    Fault("flows set the two classes' queues the other way round", flows(banded(lambda band: (0, 2, 1)[band]))),
    Fault("flows set the data's queue for control", flows(banded(lambda band: max(1, band)))),
    Fault(
        "one host's flows set the wrong queue",
        flows(to_host(FIRST_HOST_IP, banded(lambda band: 3 - band if band else 0))),
    ),
    Fault("flows are forgotten after a second", forgotten_after_a_second),
    Fault("flows have other priorities", flows(twice_the_switch)),
    Fault("all pairs use one spine", flows(up_by({4: 3})), "tree"),
    Fault("pairs use the other spine", flows(up_by({3: 4, 4: 3})), "tree"),
    Fault("a group lacks a member", groups(without_buckets), "tree"),
    Fault("a group has a member twice", groups(doubled_buckets), "tree"),
    Fault("a group has a foreign member", groups(foreign_buckets), "tree"),
    Fault("a group's copies are in the control queue", groups(strange_bands), "tree"),
    Fault(
        "membership reports match nothing",
        flows(lambda rule: None if rule.match and rule.match.destination_ip == IGMP_REPORTS_IP else rule),
        "tree",
    ),
]
