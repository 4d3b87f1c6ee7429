"""Replays a plan on the fluid network until its iterations repeat, with the loops that numba compiles.

Only what asks for a time imports this module: numba alone takes a second to import.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradwire.analysis.fluid.agenda import agenda_for
from gradwire.analysis.fluid.contention import contention_of
from gradwire.analysis.fluid.delays import Delays
from gradwire.analysis.fluid.graph import Float64, graph_of
from gradwire.analysis.fluid.lanes import lanes_of
from gradwire.analysis.fluid.network import network_of
from gradwire.analysis.fluid.paths import Paths
from gradwire.analysis.fluid.progress import Progress, progress_of
from gradwire.analysis.fluid.replay import FULL_LINE, OVERLAPPING, STUCK, Replay, proceed
from gradwire.analysis.fluid.second_compiler import compile_if_never
from gradwire.analysis.fluid.stations import LEAST_LINE_ROOM
from gradwire.datatypes.plan import Plan
from gradwire.faults import InternalFault

LEAST_WINDOW = 2
SAME_SCHEDULE = 1e-7
"""Two iterations are alike if the sum of the differences of their ops' times is less than this share of an
iteration."""


class Lateness(NamedTuple):
    """How late messages and workers are, each empty where none is: an array of one number per op, in nanoseconds."""

    #: From a message's last byte leaving its host to its arrival.
    latency_ns: Float64
    #: The most that comes on top, and the share of it that is drawn, from 0 to 1.
    jitter_ns: Float64
    drawn: Float64
    #: How much longer an op takes in iteration 0 alone.
    longer_first_ns: Float64


class Extent(NamedTuple):
    """How far a replay goes at most, and what it keeps."""

    most_iterations: int
    #: Iterations after which a schedule may repeat.
    longest_period: int
    #: It also ends with two iterations after one another whose times differ by less than this share; 0 for never.
    alike: float
    #: Whether it keeps the times of ops.
    with_ops: bool


class ReplayOutcome(NamedTuple):
    """The outcome of a replay: its progress after `iterations` of them, and after how many the schedule repeats (0: not)."""

    progress: Progress
    iterations: int
    period: int


def replay_plan(
    plan: Plan,
    paths: Paths,
    lateness: Lateness,
    delays: Delays,
    *,
    unsent_bytes: float,
    early_bytes: float,
    extent: Extent,
) -> ReplayOutcome:
    """Replays a plan over these paths as `estimate.estimate` says, with as much room for what overlaps as it turns out
    to need. Raises InternalFault for a plan that gets stuck."""
    graph, policy, lane_ops = graph_of(plan, paths)
    delayed = len(lateness.latency_ns) + len(lateness.jitter_ns) > 0 or delays.are_there
    window, line_room = min(LEAST_WINDOW, extent.most_iterations), LEAST_LINE_ROOM
    while True:
        network = network_of(paths, unsent_bytes, early_bytes, window, delays, line_room)
        replay = Replay(
            graph,
            progress_of(graph, extent.most_iterations, window, delayed=delayed, logged=extent.with_ops),
            lanes_of(policy, lane_ops, window),
            agenda_for(len(policy) + 2 * len(network.flows) + 1),
            network,
            *lateness,
            contention_of(plan, graph.ops["lane"][:-1].astype(np.int64), len(policy) - len(plan.queue_rank), window),
        )
        replayed = _replay_until_alike(replay, extent)
        if replayed == OVERLAPPING:
            window *= 2
        elif replayed == FULL_LINE:
            line_room *= 2
        elif isinstance(replayed, ReplayOutcome):
            return replayed


def _replay_until_alike(replay: Replay, extent: Extent) -> ReplayOutcome | int:
    """Replays until iterations repeat; OVERLAPPING or FULL_LINE if there is not enough room for it."""
    compile_if_never(replay)
    for iteration in range(extent.most_iterations):
        how = proceed(replay, iteration)
        if how in (OVERLAPPING, FULL_LINE):
            return how
        if how == STUCK:
            waiting = int(replay.progress.columns["unended"].max())
            raise InternalFault(
                f"the plan stops in iteration {iteration}: {waiting} of its {len(replay.graph.ops) - 1} ops wait for "
                "something that never happens; report this with the scenario"
            )
        period = _period(replay.progress, iteration, extent.longest_period)
        if period:
            return ReplayOutcome(replay.progress, iteration + 1, period)
        if extent.alike and iteration >= 2 and _nearly_as_long(replay.progress, iteration, extent.alike):
            return ReplayOutcome(replay.progress, iteration + 1, 0)
    return ReplayOutcome(replay.progress, extent.most_iterations, 0)


def _period(progress: Progress, last: int, longest: int) -> int:
    """After how many iterations the schedule repeats, as of iteration `last`; 0 if it does not within `longest`.

    An op depends on its own and on the previous iteration only. So if one iteration has the schedule of an earlier
    one, relative to its end, then all that follow repeat those that followed it.
    """
    ends_ns, begun_ns, prints_ns = (progress.results[name] for name in ("end_ns", "begun_ns", "fingerprint_ns"))
    for period in range(1, min(longest, last) + 1):
        other = last - period
        tolerance_ns = SAME_SCHEDULE * (ends_ns[last] - ends_ns[other])
        begun_differs_ns = (ends_ns[last] - begun_ns[last]) - (ends_ns[other] - begun_ns[other])
        if abs(begun_differs_ns) <= tolerance_ns and abs(prints_ns[last] - prints_ns[other]) <= tolerance_ns:
            return period
    return 0


def _nearly_as_long(progress: Progress, last: int, alike: float) -> bool:
    """Returns whether an iteration takes as long as the one before, except for a share `alike` of that."""
    before_s, last_s = np.diff(progress.results["end_ns"][last - 2 : last + 1])
    return bool(abs(last_s - before_s) < alike * before_s)
