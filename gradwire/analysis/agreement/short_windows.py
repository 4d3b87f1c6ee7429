"""Finds connections whose windows hold less than their paths do, and estimates what that cost. Only links with a delay
can have such connections.

TCP keeps no more under way than its window. A connection whose window is less than the line's rate times its round trip
cannot fill its path, however idle that is. Queues do not count as a part of the round trip here, because they exist
only while a link is busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradwire.analysis.fluid.delays import Delays, delays_of
from gradwire.analysis.fluid.ideal import LARGEST_PLAN_OPS, IdealRun
from gradwire.analysis.fluid.paths import SpineOf, port_rates_bps, ports_between
from gradwire.datatypes.records import PlannedFault, PointRecord, WindowState
from gradwire.network.fabric import Fabric
from gradwire.network.path_delays import link_delays_s
from gradwire.network.wire.flows import ports_of

FILLED_SHARE = 2 / 3
"""Share of a socket's buffer that waits or is under way when its sender writes again (sk_stream_min_wspace of
include/net/sock.h). Two hosts at 25 Gbit/s with a round trip of 4 ms moved 0.70 of a buffer of 4 MiB in each, and 0.66
of one of 16 MiB."""
TELLING_SHARE = 0.1
"""Share of the connections' busy time for which windows must have held them back to have mattered, where there is no
estimate of their effect."""


@dataclass(frozen=True)
class ShortWindow:
    """A connection whose window holds less than its path."""

    state: WindowState
    #: Names of the hosts at its ends, such as "h1 to h2".
    ends: str
    #: Payload that the connection keeps under way.
    window_bytes: float
    #: Payload that the round trip holds at the rate of the slowest port.
    path_bytes: float
    round_trip_s: float
    #: Line rate of the slowest port on the way.
    rate_bps: float

    @property
    def reached_bps(self) -> float:
        """The share of the line's rate that a window in each round trip is."""
        return self.rate_bps * self.window_bytes / self.path_bytes


@dataclass(frozen=True)
class WindowUse:
    """The effect of connections' windows on a run with long links."""

    #: Connections whose windows were read.
    connections: int
    #: Connections that sent data and whose windows hold less than their paths.
    short: tuple[ShortWindow, ...]
    #: Iteration time with these windows over that without, both on an ideal network with these links; None if that was
    #: not estimated.
    slower: float | None = None

    @property
    def held_back(self) -> float:
        """Share of the busy time of sockets with short windows for which the window was the limit, as the kernel counts
        it."""
        busy_us = sum(window.state.busy_us for window in self.short)
        return sum(window.state.limited_us for window in self.short) / busy_us if busy_us else 0.0

    def decided(self, tolerance: float) -> bool:
        """Returns whether windows made iterations longer by more than this share; without an estimate, whether they
        held connections back."""
        if not self.short:
            return False
        if self.slower is None:
            return self.held_back >= TELLING_SHARE
        return self.slower > 1 + tolerance


def kept_bytes(state: WindowState) -> float:
    """Largest number of bytes that a connection keeps under way, given the buffers of its two sockets."""
    sent = FILLED_SHARE * state.buffer_bytes
    return min(sent, state.receive_bytes) if state.receive_bytes else sent


def short_windows(fabric: Fabric, record: PointRecord, spine_of: SpineOf | None) -> tuple[ShortWindow, ...]:
    """The connections whose windows hold less than their paths, of those that sent more than a window.

    Delays that were there at any time count.
    """
    states = [state for agent in record.agents for state in agent.windows]
    if not states:
        return ()
    port_s = delays_of(fabric, link_delays_s(fabric, [happened.fault for happened in record.faults])).port_s
    rates_bps = port_rates_bps(fabric)
    names, short = fabric.endpoint_names(), []
    for state in states:
        ports = ports_of(state.connection)
        there = ports_between(fabric, state.src_host, state.dst_host, spine_of, ports)
        back = ports_between(fabric, state.dst_host, state.src_host, spine_of, ports.back())
        round_trip_s = sum(port_s[port] for port in (*there, *back))
        rate_bps = min((float(rates_bps[port]) for port in there), default=0.0)
        path_bytes = rate_bps / 8 * fabric.goodput_share() * round_trip_s
        window_bytes = kept_bytes(state)
        if window_bytes < min(path_bytes, state.acknowledged_bytes):
            ends = f"{names[state.src_host]} to {names[state.dst_host]}"
            short.append(ShortWindow(state, ends, window_bytes, path_bytes, round_trip_s, rate_bps))
    return tuple(short)


def window_use(run: IdealRun, record: PointRecord) -> WindowUse | None:
    """Effect of windows on a run; None if no link was long, or if the run was made before windows were read."""
    states = [state for agent in record.agents for state in agent.windows]
    if not states:
        return None
    short = short_windows(run.fabric, record, run.spine_of)
    use = WindowUse(len(states), short)
    faults = [happened.fault for happened in record.faults]
    if not short or (faults and not all_along(faults)) or len(run.plan.ops) > LARGEST_PLAN_OPS:
        return use
    far = delays_of(run.fabric, link_delays_s(run.fabric, faults))
    return replace(use, slower=with_windows(run, far, short).time_s() / run.with_delays(far).time_s())


def with_windows(run: IdealRun, far: Delays, short: Sequence[ShortWindow]) -> IdealRun:
    """The run on long links with the smallest of these windows."""
    return run.with_delays(replace(far, window_bytes=min(window.window_bytes for window in short)))


def all_along(faults: Sequence[PlannedFault]) -> bool:
    """Returns whether all faults are delays of links that last from the beginning of the replay to its end; False if
    there are none."""
    return bool(faults) and all(
        fault.kind == "delay" and not fault.at_ns and fault.iteration <= 0 and fault.duration_ns < 0 for fault in faults
    )
