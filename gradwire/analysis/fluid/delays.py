"""Links that are long: how much later messages arrive, and how much windows let through, which an ideal network knows
nothing of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.fluid.paths import Float64, Paths
from gradwire.datatypes.delays import link_delays_s
from gradwire.datatypes.fabric import Fabric


@dataclass(frozen=True)
class Delays:
    """What links add to the time of what passes them, and what may be under way for it."""

    #: Of each port as in Paths, in seconds; empty if none has any.
    port_s: tuple[float, ...] = ()
    #: Payload of a connection that may have left without having been acknowledged; infinite if windows do not matter.
    window_bytes: float = float("inf")


NO_DELAYS = Delays()


def delays_of(fabric: Fabric, link_s: Sequence[float], window_bytes: float = float("inf")) -> Delays:
    """Delays of links in the order of `Fabric.links`, each in both directions. Links of aggregators are not ports of
    Paths."""
    hosts, trunks = list(link_s[: fabric.hosts]), list(link_s[fabric.hosts : len(fabric.shape_links)])
    return Delays((*hosts, *hosts, *trunks, *trunks), window_bytes)


def own_delays(fabric: Fabric) -> Delays:
    """What a fabric's links add for good."""
    return delays_of(fabric, link_delays_s(fabric, ()))


def travel_ns(paths: Paths, delays: Delays) -> Float64:
    """How long what a flow sends is under way, without its time on the line: the delays of its route's ports, summed.

    Copies of a multicast flow take several routes, of which the slowest port of each kind counts.
    """
    flows = len(paths.route_start) - 1
    if not any(delays.port_s):
        return np.zeros(flows)
    late_ns = np.array(delays.port_s)[paths.route_port] * 1e9
    flow = np.repeat(np.arange(flows), np.diff(paths.route_start))
    summed_ns = np.bincount(flow, late_ns, flows).astype(np.float64)
    if not paths.flow_is_multicast.any():
        return summed_ns
    ports = len(paths.port_bytes_per_ns)
    trunks = (ports - 2 * paths.hosts) // 2
    kind = np.searchsorted([paths.hosts, 2 * paths.hosts, 2 * paths.hosts + trunks], paths.route_port, side="right")
    slowest_ns = np.zeros((flows, 4))
    np.maximum.at(slowest_ns, (flow, kind), late_ns)
    return np.where(paths.flow_is_multicast, slowest_ns.sum(axis=1), summed_ns)
