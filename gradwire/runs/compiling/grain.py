"""Chooses how long the bursts are that hosts hand to their ports, where the scenario leaves that open.

Bursts of 64 KiB cost least, and an iteration of a model takes so many of them that it is not longer for one. Where a
whole iteration takes few, one that waits behind another's burst is late by a share of it: P3 of a tensor of 1 MB among
16 workers took 1.078 times its ideal time in bursts of 64 KiB over 30 iterations (1.21 over the first three), 1.009
times in those of 12 KiB, and 1.022 times in single frames, most of which is ACKs: each two frames bring one, which takes
3 % of a port that is busy both ways. So bursts of 12 KiB come first where they are fine enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gradwire.analysis.bounds import slowest_bps
from gradwire.analysis.fluid.estimate import SendEnds
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, MAX_GSO_BYTES, Fabric
from gradwire.network.sprayed_ways import SPRAYED_GSO_BYTES
from gradwire.runs.compiling.ideal_times import ideal_times
from gradwire.runs.compiling.scale_division import ScaleDivision, forced_error, kept_division

FINE_GSO_BYTES = SPRAYED_GSO_BYTES
MOST_EFFECT = 0.05
"""Largest effect of bursts on an iteration, as a share of it, by the fluid engine, where each message is a burst late: more
than ACKs of finer bursts take. In the papers' points that train a model, bursts of 64 KiB have at most 0.002."""
MANY_BURSTS = 100
"""Bursts, one after the other at the slowest line, from which on an iteration is not asked for their effect: the fluid
engine's is then far above what happens. Two rings whose phases interleave, of 324 bursts each, have 0.19 by it and 0.003 in
a run, and finer bursts made it 0.02 (12 KiB) and 0.04 (frames)."""


def with_fitting_bursts(plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds) -> Fabric:
    """Returns the fabric with the largest bursts that are fine enough for all of a point's plans, or with single frames.
    Raises InternalFault for a plan that gets stuck."""
    if fabric.gso_bytes != MAX_GSO_BYTES:
        return fabric
    few = {label: plan for label, plan in plans.items() if _takes_few_bursts(plan, fabric, send_ends)}
    frame_bytes = fabric.mtu_bytes + ETHERNET_HEADER_BYTES
    for gso_bytes in (MAX_GSO_BYTES, max(FINE_GSO_BYTES, frame_bytes)):
        finer = replace(fabric, gso_bytes=gso_bytes)
        if not few or burst_effect(few, finer, send_ends) <= MOST_EFFECT:
            return finer
    return replace(fabric, gso_bytes=frame_bytes)


def _takes_few_bursts(plan: Plan, fabric: Fabric, send_ends: SendEnds) -> bool:
    burst_s = fabric.gso_bytes * 8 / slowest_bps(fabric)
    return bool(plan.is_remote().any()) and ideal_times(plan, fabric, send_ends).iteration_s < MANY_BURSTS * burst_s


def burst_effect(plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds) -> float:
    """Returns the largest effect of the fabric's bursts on an iteration of these plans, as a share of it."""

    def found() -> ScaleDivision:
        return ScaleDivision(1, max(forced_error(plan, fabric, send_ends, 1) for plan in plans.values()))

    return kept_division(plans, fabric, send_ends, "bursts", found).error
