"""Delays of links and limits of windows, which an ideal network lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.fluid.paths import Float64, Paths
from gradwire.datatypes.plan import Int64
from gradwire.network.fabric import Fabric
from gradwire.network.path_delays import link_delays_s


@dataclass(frozen=True)
class Delays:
    """The delays that links add to the bytes that pass them, and the bytes that may be under way in spite of
    them."""

    #: Delay of each port as in Paths, in seconds; empty if none has any.
    port_s: tuple[float, ...] = ()
    #: Payload of a connection that may have left without having been acknowledged; infinite if windows do not matter.
    window_bytes: float = float("inf")
    #: Whether what has left a port waits at the next one, as in switches, wherever bytes may wait. An ideal network holds
    #: nothing where delays are alike: what shares a slow port further on leaves its host no faster.
    waits_at_ports: bool = False
    #: Sum of the delays of each flow of Paths, instead of `port_s`, if no flow comes to a port after another delay than
    #: other flows there.
    flow_s: tuple[float, ...] = ()

    @property
    def are_there(self) -> bool:
        """Whether any link adds a delay."""
        return any(self.port_s) or any(self.flow_s)


NO_DELAYS = Delays()


def delays_of(fabric: Fabric, link_s: Sequence[float], window_bytes: float = float("inf")) -> Delays:
    """Delays of links in the order of `Fabric.links`, each in both directions. Links of aggregators are not ports of
    Paths."""
    hosts, trunks = list(link_s[: fabric.hosts]), list(link_s[fabric.hosts : len(fabric.shape_links)])
    return Delays((*hosts, *hosts, *trunks, *trunks), window_bytes)


def own_delays(fabric: Fabric) -> Delays:
    """Permanent delays of a fabric's links."""
    return delays_of(fabric, link_delays_s(fabric, ()))


def travel_ns(paths: Paths, delays: Delays) -> Float64:
    """Nanoseconds that bytes of each flow are under way, without their time on the line: the delays of its route's
    ports, summed.

    Copies of a multicast flow take several routes, of which the longest counts. So it does of a flow that takes several
    in turn: what comes by others waits for what was sent before.
    """
    flows = len(paths.route_start) - 1
    if delays.flow_s:
        return np.array(delays.flow_s) * 1e9
    if not any(delays.port_s):
        return np.zeros(flows)
    late_ns = np.array(delays.port_s) * 1e9
    flow = np.repeat(np.arange(flows), np.diff(paths.route_start))
    summed_ns = np.bincount(flow, late_ns[paths.route_port], flows).astype(np.float64)
    for number in np.flatnonzero(paths.flow_forks):
        route = paths.route_port[paths.route_start[number] : paths.route_start[number + 1]]
        summed_ns[number] = _longest_ns(paths, route, late_ns)
    return summed_ns


def _longest_ns(paths: Paths, ports: Int64, late_ns: Float64) -> float:
    """Delay in nanoseconds of the last byte over the ports of a tree, or of several ways, from the source on."""
    there_ns: dict[int, float] = {}
    for port in ports.tolist():
        here, there = int(paths.port_from[port]), int(paths.port_to[port])
        there_ns[there] = max(there_ns.get(there, 0.0), there_ns.get(here, 0.0) + float(late_ns[port]))
    return max(there_ns.values(), default=0.0)
