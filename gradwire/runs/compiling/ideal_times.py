"""Iteration times of plans on the ideal network.

They are kept in the cache: the same plan is asked for when a run is planned, when it is judged, and when its report is
written.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from gradwire.analysis.agreement.short_windows import FILLED_SHARE
from gradwire.analysis.fluid.delays import own_delays
from gradwire.analysis.fluid.estimate import Buffered, Departure, FluidTimes, SendEnds, estimate
from gradwire.analysis.request_times import RequestTimes, replayed_request_times
from gradwire.cache_files import cached
from gradwire.datatypes.plan import Plan
from gradwire.inside.point_protocol import built_fabric
from gradwire.network.fabric import Fabric
from gradwire.network.path_delays import enough_buffer_bytes, round_trip_bytes
from gradwire.runs.stored.spines import Spines
from gradwire.vm.code_digest import sources_digest
from gradwire.vm.kernel import cache_folder

DEFAULT = Departure()
CODE = ("gradwire.analysis.fluid.estimate", "gradwire.runs.stored.spines")
"""Modules that decide an estimate, in addition to plan and fabric."""
HELD_S = 1e-3
"""Seconds on the line of the data that TCP keeps of a connection in ports and switches: a socket sends more when less
than a millisecond's data of it is there (sk_pacing_shift = 10 in the kernel, "small queues")."""


class _CachedEstimate(msgspec.Struct, frozen=True):
    """An estimate in the cache."""

    iterations_s: tuple[float, ...]
    iteration_s: float
    period: int


def rule_of(unsent_bytes: int | None) -> SendEnds:
    """Rule for the end of SENDs: when at most `unsent_bytes` of the connection wait unsent; None: when they have left
    the host."""
    return Departure() if unsent_bytes is None else Buffered(unsent_bytes)


def held_rule(unsent_bytes: int | None, fabric: Fabric, buffer_bytes: int, held_s: float = HELD_S) -> Buffered:
    """Rule for the end of SENDs in a run: bytes that its ports and switches hold are beyond the reach of a queue, like
    those that wait unsent.

    buffer_bytes: size of a socket's buffer, which bounds them.
    """
    held_bytes = min(held_s * fabric.rate_bps / 8 * fabric.goodput_share(), buffer_bytes)
    return Buffered((unsent_bytes or 0) + round(held_bytes))


def fluid_times(
    plan: Plan, fabric: Fabric, send_ends: SendEnds = DEFAULT, window_bytes: float = math.inf, alike: float = 0.0
) -> FluidTimes:
    """Estimates a plan on a fabric, whose messages take the spines that the switches' rules choose. Raises
    InternalFault.

    window_bytes: payload that a connection keeps under way; infinite where it fills every way. alike: two iterations
    in a row whose times differ by less than this share end the estimate; 0: only a schedule that repeats does.
    """
    built = built_fabric(fabric, [plan])
    delays = replace(own_delays(built), window_bytes=window_bytes)
    spine_of = Spines(built).spine_of
    return estimate(plan, built, spine_of, send_ends=send_ends, delays=delays, alike=alike)


def request_times(
    plan: Plan, fabric: Fabric, send_ends: SendEnds = DEFAULT, window_bytes: float = math.inf
) -> RequestTimes:
    """Estimates the requests of a plan of requests, in the first iteration after the cold start. Raises InternalFault."""
    built = built_fabric(fabric, [plan])
    delays = replace(own_delays(built), window_bytes=window_bytes)
    times = estimate(
        plan, built, Spines(built).spine_of, send_ends=send_ends, delays=delays, most_iterations=2, with_ops=True
    )
    assert times.op_end_s is not None  # asked for
    return replayed_request_times(plan, times.op_end_s[-1:])


def short_window_bytes(fabric: Fabric, buffer_bytes: int) -> float:
    """Bytes that a connection keeps under way by its sockets' buffers if these may not fill its way; otherwise
    infinite."""
    if buffer_bytes >= enough_buffer_bytes(round_trip_bytes(fabric, ())):
        return math.inf
    return FILLED_SHARE * buffer_bytes


def ideal_times(plan: Plan, fabric: Fabric, send_ends: SendEnds) -> FluidTimes:
    """Estimates as `fluid_times` does, or takes the estimate from the cache."""

    def estimated() -> _CachedEstimate:
        times = fluid_times(plan, fabric, send_ends)
        return _CachedEstimate(tuple(times.iterations_s.tolist()), times.iteration_s, times.period)

    found = cached(_path(plan, fabric, send_ends), _CachedEstimate, estimated)
    return FluidTimes(np.array(found.iterations_s), found.iteration_s, found.period)


@cache
def fluid_digest() -> str:
    """Hash of the code that estimates."""
    return sources_digest(CODE)


def _path(plan: Plan, fabric: Fabric, send_ends: SendEnds) -> Path:
    content = "\0".join([fluid_digest(), plan.digest(), repr(fabric.to_json()), repr(send_ends)])
    return cache_folder() / "estimates" / hashlib.sha256(content.encode()).hexdigest()[:24]
