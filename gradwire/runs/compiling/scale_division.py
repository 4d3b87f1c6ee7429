"""Chooses the number by which a run's bytes and rates are divided, for a wanted fidelity or because the virtual clock
carries no more, and states its effect.

Bytes and rates divided by the same number leave every time as it is, and cost less to emulate. What does not shrink is
the grain of the network: bursts of up to fabric.gso, and the headers of messages. So the larger the number, the longer
a burst takes compared with an iteration. What that does to an iteration is not the same for all plans: a ring passes
on what it gets and is delayed by a burst at each step, and a parameter server whose port is busy all the time is not.
So the fluid engine says it, with messages that arrive a burst late, and as early as idle ports let them.

A wanted fidelity is met by a bound that holds for every plan (`division_for`). Where nobody wants a division
(`forced_division`), a bound that is far from what happens would refuse sound runs, so this comes closer:

- A port hands a burst on when its turn begins, and is busy for as long as it takes then. So where no two flows share a
  port, and a message has several bursts, none is late: a ring of 64 MB among 128 hosts at 100 Gbit/s takes 11.30 ms
  divided by 2 and 11.26 ms divided by 4.
- There a message that is shorter than a burst is late by its own time. Then dividing saves the clock nothing: a ring
  of 512 hosts, whose messages were of 8 kB when divided by 16, took 1.83 times its estimate, and 1.92 times are
  stated.
- Bursts that come early make no iteration shorter than its lower bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradwire.analysis.bounds import bounds, slowest_bps
from gradwire.analysis.fluid.estimate import Buffered, SendEnds, estimate
from gradwire.analysis.fluid.paths import SpineOf, paths_of
from gradwire.analysis.verdict.condition_checks import Divided
from gradwire.cache_files import cached
from gradwire.datatypes.plan import CONTROL_CLASS, Plan
from gradwire.inside.point_protocol import built_fabric
from gradwire.network.fabric import (
    CONTROL_BAND,
    ETHERNET_HEADER_BYTES,
    IP_TCP_HEADER_BYTES,
    PREAMBLE_FCS_GAP_BYTES,
    Fabric,
)
from gradwire.runs.compiling.ideal_times import fluid_digest, ideal_times
from gradwire.runs.stored.spines import Spines
from gradwire.vm.code_digest import sources_digest
from gradwire.vm.kernel import cache_folder
from gradwire.workloads.stand_in import scaled_fabric

MESSAGE_BYTES = 24 + 2 * (ETHERNET_HEADER_BYTES + IP_TCP_HEADER_BYTES + PREAMBLE_FCS_GAP_BYTES)
"""Bytes of a message on the line besides its payload: its own header (agents/wire), that of its last segment, which is
not full, and an ACK."""
MOST = 2**20
"""The largest division."""
CODE = ("gradwire.runs.compiling.scale_division",)
"""Modules that decide a division, in addition to those of estimates."""


@dataclass(frozen=True)
class ScaleDivision:
    """The number that bytes and rates are divided by, and the largest effect of that on the iteration time, as a share
    of it."""

    number: int = 1
    error: float = 0.0


UNDIVIDED = ScaleDivision()


def division_for(plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds, fidelity: float) -> ScaleDivision:
    """The largest power of 2 by which all of a point's plans may be divided. Raises InternalFault for a plan that gets
    stuck.

    fidelity: a share of the iteration time. 1 if even that moves it by more, or if messages are no longer than bursts,
    for then a smaller one takes no less time to emulate.
    """

    def found() -> ScaleDivision:
        most = min(_useful(plan, fabric) for plan in plans.values())
        errors: dict[int, float] = {1: 0.0}

        def fits(number: int) -> bool:
            errors[number] = max(division_error(plan, fabric, send_ends, number) for plan in plans.values())
            return errors[number] <= fidelity

        number = _largest(fits, most)
        return ScaleDivision(number, errors[number])

    return kept_division(plans, fabric, send_ends, repr(fidelity), found)


def kept_division(
    plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds, wanted: str, found: Callable[[], ScaleDivision]
) -> ScaleDivision:
    """Division that `found` computes for these plans, from the cache if it was computed before. wanted: what is asked,
    in words, as a part of the cache's key."""
    return cached(_path(plans, fabric, send_ends, wanted), ScaleDivision, found)


def division_error(plan: Plan, fabric: Fabric, send_ends: SendEnds, number: int) -> float:
    """Bound on the effect of dividing a plan's bytes and its fabric's rates by `number`, as a share of the iteration
    time.

    Bursts of the divided network, in its own time: messages arrive one late, as its slowest ports pass it on, or early
    by what idle ports let through at once. On top come the headers of messages, and with `Buffered` that sockets,
    which are not divided, hold more of an iteration.
    """
    divided = scaled_fabric(fabric, number, keep_burst=True)
    burst_s = divided.gso_bytes * 8 / slowest_bps(divided)
    # In bytes of the undivided network, which the plan has.
    early_bytes = divided.grain_s(exact_timers=True) * fabric.rate_bps / 8 * fabric.goodput_share()
    rules = [Buffered(send_ends.unsent_bytes * number)] if isinstance(send_ends, Buffered) else []
    built = built_fabric(fabric, [plan])
    spine_of = Spines(built).spine_of
    exact_s = ideal_times(plan, fabric, send_ends).iteration_s
    moved_s = [
        estimate(plan, built, spine_of, send_ends=send_ends, latency_s=burst_s).iteration_s,
        estimate(plan, built, spine_of, send_ends=send_ends, early_bytes=round(early_bytes)).iteration_s,
        *(estimate(plan, built, spine_of, send_ends=rule).iteration_s for rule in rules),
    ]
    return max(abs(time_s / exact_s - 1) for time_s in moved_s) + header_share(plan, number)


def header_share(plan: Plan, number: int) -> float:
    """Bytes of headers over bytes of payload, of the messages that cross the divided network."""
    remote = plan.is_remote()
    payload_bytes = int(plan.ops.size_bytes[remote].sum()) / number
    return MESSAGE_BYTES * int(remote.sum()) / payload_bytes if payload_bytes else 0.0


def _useful(plan: Plan, fabric: Fabric) -> int:
    """The largest power of 2 that leaves the mean message longer than a burst; 1 at least."""
    remote = plan.is_remote()
    count = int(remote.sum())
    ratio = int(plan.ops.size_bytes[remote].sum()) // (count * fabric.gso_bytes) if count else 1
    return min(MOST, 1 << max(0, ratio.bit_length() - 1))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest power of 2 up to `most` that fits, where smaller ones do if a larger one does; 1 needs not."""
    low, high = 0, most.bit_length() - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(1 << middle) else (low, middle - 1)
    return 1 << low


def _path(plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds, wanted: str) -> Path:
    code = sources_digest(CODE)
    digests = [plan.digest() for plan in plans.values()]
    content = "\0".join([code, fluid_digest(), *digests, repr(fabric.to_json()), repr(send_ends), wanted])
    return cache_folder() / "divisions" / hashlib.sha256(content.encode()).hexdigest()[:24]


def forced_division(
    plans: Mapping[str, Plan],
    fabric: Fabric,
    send_ends: SendEnds,
    number: int,
    least: int = 1,
    fidelity: float | None = None,
) -> ScaleDivision:
    """The division by `number`, which the virtual clock asks for; by less where that does too much, but by `least`,
    which it needs.

    fidelity: what the point allows. Raises InternalFault for a plan that gets stuck.
    """
    while True:
        found = _division_by(plans, fabric, send_ends, number)
        if number <= least or not Divided(number, found.error, fidelity).is_too_coarse:
            return found
        number //= 2


def _division_by(plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds, number: int) -> ScaleDivision:
    if number == 1:
        return ScaleDivision()

    def found() -> ScaleDivision:
        return ScaleDivision(number, max(forced_error(plan, fabric, send_ends, number) for plan in plans.values()))

    return kept_division(plans, fabric, send_ends, f"by {number}", found)


def forced_error(plan: Plan, fabric: Fabric, send_ends: SendEnds, number: int) -> float:
    """Largest effect of dividing a plan's bytes and its fabric's rates by `number`, as a share of the iteration
    time."""
    divided = scaled_fabric(fabric, number, keep_burst=True)
    built = built_fabric(fabric, [plan])
    spine_of = Spines(built).spine_of
    late_s = _late_bytes(plan, built, spine_of, divided.gso_bytes, number) * 8 / slowest_bps(divided)
    # In bytes of the undivided network, which the plan has.
    early_bytes = divided.grain_s(exact_timers=True) * fabric.rate_bps / 8 * fabric.goodput_share()
    early_s = estimate(plan, built, spine_of, send_ends=send_ends, early_bytes=round(early_bytes)).iteration_s
    moved_s = [max(early_s, bounds(plan, fabric).lower_bound_s)]
    if late_s:
        moved_s.append(estimate(plan, built, spine_of, send_ends=send_ends, latency_s=late_s).iteration_s)
    if isinstance(send_ends, Buffered):
        held = Buffered(send_ends.unsent_bytes * number)
        moved_s.append(estimate(plan, built, spine_of, send_ends=held).iteration_s)
    exact_s = ideal_times(plan, fabric, send_ends).iteration_s
    return max(abs(time_s / exact_s - 1) for time_s in moved_s) + header_share(plan, number)


def _late_bytes(plan: Plan, built: Fabric, spine_of: SpineOf, burst_bytes: int, number: int) -> int:
    """Bytes for which data of the divided network waits: those of another flow's burst if flows share a port; otherwise
    its own if it is shorter than a burst; otherwise 0."""
    paths = paths_of(plan, built, spine_of)
    of_data = paths.flow_band != CONTROL_BAND
    flows_at = np.bincount(paths.route_port[np.repeat(of_data, np.diff(paths.route_start))])
    if flows_at.max(initial=0) > 1:
        return burst_bytes
    data = plan.ops.size_bytes[plan.is_remote() & (plan.ops.traffic_class != CONTROL_CLASS)]
    mean_bytes = int(data.mean()) // number if len(data) else 0
    return mean_bytes if mean_bytes < burst_bytes else 0
