"""Faults of switches' queues that drop and mark, and of congestion control, put into the machine or into what it counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import gradwire.inside.point
import gradwire.topo.network
import gradwire.topo.tc
import gradwire.topo.wiring
from gradwire.agents.connections import SocketOptions
from gradwire.inside.readings import CounterReading
from gradwire.network.fabric import Fabric
from tests.mutations.fault import Fault, replace_in
from tests.mutations.tc import Commands, at, changed, option

SERVER_PORT = "s1-eth4"


def queues(change: Callable[[list[str]], list[str]]) -> Callable[[], None]:
    """Switches' queues are others."""

    def make(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
        return lambda *given, **named: change(original(*given, **named))

    return partial(replace_in, gradwire.topo.tc, "switch_queue", make)


def times(share: float, *names: str) -> Callable[[list[str]], list[str]]:
    """These options of a queue are this share of what they should be."""

    def change(words: list[str]) -> list[str]:
        return [
            str(round(int(word) * share)) if place and words[place - 1] in names else word
            for place, word in enumerate(words)
        ]

    return change


def of_hosts() -> None:
    """Hosts' ports have the queues of switches."""

    def make(original: Callable[..., Commands]) -> Callable[..., Commands]:
        return lambda *given, **named: original(*given, **{**named, "bounded": True})

    replace_in(gradwire.topo.network, "port_commands", make)


def sockets(**changes: Any) -> Callable[[], None]:
    """Agents open sockets with other options."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def opened(fabric: Fabric, options: SocketOptions, *given: Any, **named: Any) -> Any:
            return original(fabric, replace(options, **changes), *given, **named)

        return opened

    return partial(replace_in, gradwire.inside.point, "bench", make)


def counted(**changes: Callable[[int], int]) -> Callable[[], None]:
    """Counters of all bands are read wrongly."""

    def make(
        original: Callable[[CounterReading, CounterReading], Any],
    ) -> Callable[[CounterReading, CounterReading], Any]:
        def since(now: CounterReading, then: CounterReading) -> Any:
            counts = original(now, then)
            bands = tuple(
                replace(band, **{name: new(getattr(band, name)) for name, new in changes.items()})
                for band in counts.bands
            )
            return replace(counts, bands=bands)

        return since

    return partial(replace_in, CounterReading, "since", make)


def no_ecn() -> None:
    """Connections do not ask for marks."""
    replace_in(gradwire.topo.wiring, "ECN_SYSCTLS", lambda _: {})


FAULTS = [
    Fault("buffers are twice as large", queues(times(2, "limit")), "drops"),
    Fault("buffers are half as large", queues(times(0.5, "limit")), "drops"),
    Fault("buffers count packets", queues(lambda _: ["pfifo", "limit", "66"]), "drops"),
    Fault("buffers are deep", queues(lambda _: ["pfifo", "limit", "100000"]), "drops"),
    Fault("one port's buffer is deep", changed(option("limit", "2147483647"), at(SERVER_PORT)), "drops"),
    Fault("buffers drop what waited longest", queues(lambda _: ["pfifo_head_drop", "limit", "66"]), "drops"),
    Fault("hosts have switches' buffers", of_hosts, "drops"),
    Fault("drops are not counted", counted(drops=lambda _: 0), "drops"),
    Fault("drops are counted twice", counted(drops=lambda drops: 2 * drops), "drops"),
    Fault("connections do not ask for marks", no_ecn, "marks"),
    Fault("connections have another congestion control", sockets(congestion="reno"), "marks"),
    Fault("nothing is marked", queues(lambda words: ["bfifo", *words[1:3]]), "marks"),
    Fault("thresholds are twice as high", queues(times(2, "min", "max", "burst")), "marks"),
    Fault("thresholds are half as high", queues(times(0.5, "min", "max")), "marks"),
    Fault("marks begin late", queues(times(2, "max")), "marks"),
    Fault("packets are dropped that should be marked", queues(lambda words: words[:-2]), "marks"),
    Fault("the average is of many packets", queues(times(8, "burst")), "marks"),
    Fault("marks are not counted", counted(marks=lambda _: 0), "marks"),
    Fault("sockets hold less than round trips do", sockets(buffer_bytes=1 << 21), "far"),
    Fault("marks are counted twice", counted(marks=lambda marks: 2 * marks), "marks"),
]
