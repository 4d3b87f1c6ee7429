"""By how much a run's bytes and rates are divided because the virtual clock carries no more, and what that does.

A wanted fidelity is met by a bound that holds for every plan (compiling/fidelity.py). Here nobody wants a division, and a bound that is far
from what happens would refuse sound runs, so this comes closer:

- A port hands a burst on when its turn begins, and is busy for as long as it takes then. So where no two flows share a port, and a message
  has several bursts, none is late: a ring of 64 MB among 128 hosts at 100 Gbit/s takes 11.30 ms divided by 2 and 11.26 ms divided by 4.
- There a message that is shorter than a burst is late by its own time. Then dividing saves the clock nothing: a ring of 512 hosts,
  whose messages were of 8 kB when divided by 16, took 1.83 times its estimate, and 1.92 times are stated.
- Bursts that come early make no iteration shorter than its lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradwire.analysis.bounds import bounds, slowest_bps
from gradwire.analysis.fluid.estimate import Buffered, SendEnds, estimate
from gradwire.analysis.fluid.paths import SpineOf, paths_of
from gradwire.analysis.verdict.condition_checks import Divided
from gradwire.datatypes.fabric import CONTROL_BAND, Fabric
from gradwire.datatypes.plan import CONTROL_CLASS, Plan
from gradwire.runs.compiling.fidelity import Division, header_share, kept_division
from gradwire.runs.compiling.ideal_times import ideal_times
from gradwire.runs.protocol import built_fabric
from gradwire.runs.stored.spines import Spines
from gradwire.workloads.stand_in import scaled_fabric


def forced_division(
    plans: Mapping[str, Plan],
    fabric: Fabric,
    send_ends: SendEnds,
    number: int,
    least: int = 1,
    fidelity: float | None = None,
) -> Division:
    """The division by `number`, which the virtual clock asks for; by less where that does too much, but by `least`, which it needs.

    fidelity: what the point allows. Raises InternalFault for a plan that gets stuck.
    """
    while True:
        found = _division_by(plans, fabric, send_ends, number)
        if number <= least or not Divided(number, found.error, fidelity).is_too_coarse:
            return found
        number //= 2


def _division_by(plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds, number: int) -> Division:
    if number == 1:
        return Division()

    def found() -> Division:
        return Division(number, max(forced_error(plan, fabric, send_ends, number) for plan in plans.values()))

    return kept_division(plans, fabric, send_ends, f"by {number}", found)


def forced_error(plan: Plan, fabric: Fabric, send_ends: SendEnds, number: int) -> float:
    """What dividing a plan's bytes and its fabric's rates by `number` does to its iteration time, as a share of it, at the most."""
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
    """What data of the divided network waits for: a burst of another flow; itself, where it is shorter than one; nothing elsewhere."""
    paths = paths_of(plan, built, spine_of)
    of_data = paths.flow_band != CONTROL_BAND
    flows_at = np.bincount(paths.route_port[np.repeat(of_data, np.diff(paths.route_start))])
    if flows_at.max(initial=0) > 1:
        return burst_bytes
    data = plan.ops.size_bytes[plan.is_remote() & (plan.ops.traffic_class != CONTROL_CLASS)]
    mean_bytes = int(data.mean()) // number if len(data) else 0
    return mean_bytes if mean_bytes < burst_bytes else 0
