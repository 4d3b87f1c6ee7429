"""Iteration times of all-reduces around a ring, one after the other, for all ranks at once.

In step s of 2 (N - 1), rank i sends part i - s to rank i + 1. The message is ready when the one of the step before has
come and the queue is free; it leaves behind what the rank sent before. Where no message meets another one, rates never
change, and its end is

    T(i, s) = max(T(i, s - 1), ready(i, s) + latency) + bytes / rate

and it arrives when it has passed the links' delays. `ring_loop.follow` follows it through all steps. Where all ranks send
at one rate, without latency and delays, let p = i - s be the part. Then T(p, s) = c(p) + max(T(p, s - 1), T(p + 1, s -
1)): the longest way through a grid, on which a part may wait for the part before it. All c are one of two, the larger
ones first, so that a way takes every step but one for each part at the slowest part that it comes to, and the longest
way is a running maximum of
starting times (`_at_once`): an all-reduce of 16,384 ranks takes a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.analysis.by_class.symmetry import refuse_unlike_ways, ways_of
from gradwire.analysis.fluid.delays import own_delays
from gradwire.analysis.fluid.estimate import LONGEST_PERIOD, MOST_ITERATIONS, Buffered, FluidTimes, SendEnds
from gradwire.analysis.fluid.paths import Float64, SpineOf
from gradwire.datatypes.class_plans import NotByClass, RingCall, RingSequence
from gradwire.datatypes.plan import Int64
from gradwire.network.fabric import Fabric

Rows = npt.NDArray[np.float64]
"""Numbers by ranks, row by row."""
SAME_STATE = 1e-9
"""Two iterations are alike if no rank's times differ by more than this share of an iteration."""
MOST_STEPS = 10_000_000_000
"""Largest number of steps, over all ranks, calls and iterations, that are followed one by one. Each takes 2 to 3 ns, so
this is half a minute."""
LEAST_ITERATIONS = 4
"""Number of iterations that must fit into MOST_STEPS."""
MOST_FOLLOWED = 10
"""Iterations after which stand-ins' times are taken, where as many fit."""


@dataclass(frozen=True)
class RingLines:
    """The rates, latencies and delays with which the ranks of a ring send."""

    #: Rate of each rank's way to the next one, in payload bytes per ns; infinite inside a machine, where its own link
    #: holds the sender instead.
    bytes_per_ns: Float64
    #: Time that a message holds its sender before it leaves, besides the time that its size takes.
    latency_ns: Float64
    #: Time of a byte on a machine's own link, for senders to their own machine, else 0.
    local_ns_per_byte: Float64
    #: Time that the links of each way add until a message has arrived.
    travel_ns: Float64

    @property
    def is_uniform(self) -> bool:
        """Whether all ranks send at one rate, without latency and delays, to other machines."""
        rate = self.bytes_per_ns
        late = self.latency_ns.any() or self.travel_ns.any()
        return bool(np.isfinite(rate[0]) and (rate == rate[0]).all() and not late)


def ring_lines(sequence: RingSequence, fabric: Fabric, spine_of: SpineOf | None) -> RingLines:
    """The ways of a ring's messages. Raises NotByClass where messages of several ranks share a port that binds them, and where
    ranks that differ have too many steps."""
    refuse_unlike_ways(fabric)
    hosts = sequence.host_of_rank
    after = np.roll(hosts, -1)
    machine = hosts // sequence.nics_per_host
    inside = machine == np.roll(machine, -1)
    away = np.flatnonzero(~inside)
    rates, travel_ns = np.full(sequence.ranks, np.inf), np.zeros(sequence.ranks)
    port_s = own_delays(fabric).port_s
    if len(away):
        ways = ways_of(fabric, spine_of, hosts[away], after[away])
        binding = ways.binding()
        if (np.bincount(binding.port) > 1).any():
            raise NotByClass("messages of several ranks share ports between switches, or of machines")
        rates[away] = ways.slowest_bytes_per_ns() * fabric.goodput_share()
        if any(port_s):
            travel_ns[away] = np.bincount(ways.flow, np.array(port_s)[ways.port], ways.flows) * 1e9
        if fabric.flow_rate_bps:
            rates[away] = np.minimum(rates[away], fabric.flow_rate_bps / 8e9 * fabric.goodput_share())
    local_ns = 1e9 / sequence.local_bytes_per_s
    lines = RingLines(
        rates,
        np.where(inside, sequence.local_latency_s, sequence.latency_s) * 1e9,
        np.where(inside, local_ns, 0.0),
        travel_ns,
    )
    if _most_iterations(sequence, lines) < LEAST_ITERATIONS:
        raise NotByClass("its ranks differ in how they send to the next one, and their steps are too many")
    return lines


@dataclass
class _Ranks:
    """The state of the ranks between two calls."""

    #: Times at which the last byte that a rank has sent has left, and at which the last message counts as sent.
    left_ns: Float64
    sent_ns: Float64


def ring_times(sequence: RingSequence, lines: RingLines, send_ends: SendEnds) -> FluidTimes:
    """Iteration times from the cold start until they repeat."""
    unsent_bytes = float(send_ends.unsent_bytes) if isinstance(send_ends, Buffered) else 0.0
    begin_ns: Float64 = np.zeros(sequence.ranks)
    ranks = _Ranks(begin_ns.copy(), begin_ns.copy())
    ends_ns, states = [0.0], list[Float64]()
    for _ in range(_most_iterations(sequence, lines)):
        done_ns = begin_ns
        for call in sequence.calls:
            started_ns = np.maximum(begin_ns + call.ready_ns, done_ns) + call.latency_ns
            done_ns = _all_reduce(call, lines, ranks, started_ns, unsent_bytes)
        begin_ns = np.maximum(begin_ns + sequence.computed_ns, done_ns)
        ends_ns.append(float(begin_ns.max()))
        states.append(np.concatenate([begin_ns, np.maximum(ranks.left_ns, begin_ns)]) - ends_ns[-1])
        if period := _period(states, ends_ns):
            return _times(ends_ns, period)
    return _times(ends_ns, 0)


def _most_iterations(sequence: RingSequence, lines: RingLines) -> int:
    """Number of iterations that fit into MOST_STEPS."""
    steps = len(sequence.calls) * 2 * sequence.ranks * (sequence.ranks - 1)
    return MOST_ITERATIONS if lines.is_uniform else min(MOST_ITERATIONS, MOST_STEPS // max(1, steps))


def _period(states: list[Float64], ends_ns: list[float]) -> int:
    """After how many iterations the last state repeats; 0 if it does not."""
    last = len(states) - 1
    for period in range(1, min(LONGEST_PERIOD, last) + 1):
        tolerance_ns = SAME_STATE * (ends_ns[-1] - ends_ns[-1 - period])
        if np.abs(states[last] - states[last - period]).max() <= tolerance_ns:
            return period
    return 0


def _times(ends_ns: list[float], period: int) -> FluidTimes:
    ends_s = np.array(ends_ns) / 1e9
    averaged = period or max(1, (len(ends_s) - 1) // 2)
    return FluidTimes(np.diff(ends_s), float(ends_s[-1] - ends_s[-1 - averaged]) / averaged, period)


def border_times(
    sequence: RingSequence, lines: RingLines, send_ends: SendEnds, sender: int, receiver: int
) -> tuple[Float64, Float64, Float64]:
    """Times in seconds at which each message of `sender` begins to leave and each for `receiver` arrives, by iteration,
    call and step, and at which each iteration begins. There are two iterations, with the one before them in front, as
    far from the cold start as MOST_STEPS permits."""
    unsent_bytes = float(send_ends.unsent_bytes) if isinstance(send_ends, Buffered) else 0.0
    steps = 2 * (sequence.ranks - 1)
    fit = MOST_STEPS // max(1, len(sequence.calls) * sequence.ranks * steps)
    begin_ns: Float64 = np.zeros(sequence.ranks)
    ranks = _Ranks(begin_ns.copy(), begin_ns.copy())
    kept: list[tuple[Float64, Float64, float]] = []
    for _ in range(max(LEAST_ITERATIONS, min(MOST_FOLLOWED, fit))):
        done_ns, left, arrived = begin_ns, [], []
        for call in sequence.calls:
            started_ns = np.maximum(begin_ns + call.ready_ns, done_ns) + call.latency_ns
            log = np.zeros((2, steps))
            done_ns = _all_reduce(call, lines, ranks, started_ns, unsent_bytes, _Watched(sender, receiver, log))
            size = call.part_bytes[(sender - np.arange(steps)) % sequence.ranks]
            waits_ns = np.rint(lines.latency_ns[sender] + size * lines.local_ns_per_byte[sender])
            left.append(log[0] - size / lines.bytes_per_ns[sender] - waits_ns)
            arrived.append(log[1])
        kept = [*kept[-1:], (np.stack(left), np.stack(arrived), float(begin_ns.min()))]
        begin_ns = np.maximum(begin_ns + sequence.computed_ns, done_ns)
    starts, arrivals, begins = (np.array(column) / 1e9 for column in zip(*kept, strict=True))
    return starts, arrivals, begins


@dataclass(frozen=True)
class _Watched:
    """Two ranks of which each step is noted: when the message of the one has left, and when that for the other has arrived."""

    sender: int
    receiver: int
    log: Rows


_NOBODY = _Watched(0, 0, np.zeros((2, 0)))


def _all_reduce(
    call: RingCall,
    lines: RingLines,
    ranks: _Ranks,
    started_ns: Float64,
    unsent_bytes: float,
    watched: _Watched = _NOBODY,
) -> Float64:
    """Times at which a call is over at each rank, in nanoseconds. Updates `ranks`."""
    if lines.is_uniform and watched is _NOBODY:
        return _at_once(call.part_bytes, lines.bytes_per_ns[0], ranks, started_ns, unsent_bytes)
    from gradwire.analysis.by_class import ring_loop  # noqa: PLC0415 (numba: a second to import, which most commands do not need)

    # Times are counted from the call's start, so that few of their digits are lost.
    zero_ns = float(started_ns.min())
    state = np.zeros((6, len(started_ns)))
    state[ring_loop.STARTED], state[ring_loop.LEFT], state[ring_loop.SENT], state[ring_loop.DONE] = (
        times_ns - zero_ns for times_ns in (started_ns, ranks.left_ns, ranks.sent_ns, started_ns)
    )
    senders = np.stack([1.0 / lines.bytes_per_ns, lines.latency_ns, lines.local_ns_per_byte, lines.travel_ns])
    who = np.array([watched.sender, watched.receiver])
    ring_loop.follow(call.part_bytes.astype(np.float64), senders, unsent_bytes, state, who, watched.log)
    watched.log[:] += zero_ns
    ranks.left_ns, ranks.sent_ns = state[ring_loop.LEFT] + zero_ns, state[ring_loop.SENT] + zero_ns
    done_ns: Float64 = state[ring_loop.DONE] + zero_ns
    return done_ns


def _at_once(
    part_bytes: Int64, bytes_per_ns: float, ranks: _Ranks, started_ns: Float64, unsent_bytes: float
) -> Float64:
    """Times at which a call is over at each rank, in nanoseconds, if all ranks send at one rate and without latency.
    Updates `ranks`."""
    count, steps = len(part_bytes), 2 * (len(part_bytes) - 1)
    if not part_bytes[0]:
        return started_ns
    zero_ns = float(started_ns.min())
    # Part p starts at rank p, behind what that rank has not sent yet.
    begins_ns = np.maximum(started_ns, ranks.left_ns) - zero_ns
    larger = int((part_bytes == part_bytes[0]).sum())
    large_ns, small_ns = part_bytes[0] / bytes_per_ns, part_bytes[-1] / bytes_per_ns
    less_ns = large_ns - small_ns
    part = np.arange(count)
    # Of the ways from part p over to part q, each small part that they pass costs less; beyond the last part is the
    # first, once around.
    passed = np.maximum(0, part + 1 - larger)
    here_ns, beyond_ns = begins_ns - less_ns * passed, begins_ns - less_ns * (passed + count - larger)
    to_end_ns = np.maximum.accumulate(here_ns[::-1])[::-1]
    around_ns = np.concatenate([[-np.inf], np.maximum.accumulate(beyond_ns)[:-1]])
    # A way to a small part may begin at it or behind it as well, and go around. That needs a step for each part on the
    # way, and so there is none from the last part to the second.
    to_small_ns = np.full(count, beyond_ns.max())
    to_small_ns[1:2] = beyond_ns[:-1].max(initial=-np.inf)
    before = np.maximum(0, part - larger)
    through_large_ns = np.where(part < larger, np.maximum(to_end_ns, around_ns), to_small_ns) + less_ns * before
    last_ns = through_large_ns + steps * large_ns + zero_ns
    if small_ns > 0:
        small_only_ns = np.where(part >= larger, np.maximum.accumulate(begins_ns[::-1])[::-1], -np.inf)
        last_ns = np.maximum(last_ns, small_only_ns + steps * small_ns + zero_ns)
    else:
        # Parts without bytes are not sent: what comes last is the next part that has some, as many steps earlier.
        last_ns = np.where(part < larger, last_ns, last_ns[0] - (count - part) * large_ns)
    # In its last step, rank i gets part i + 2 and sends part i + 3, as many ranks around.
    arrived_ns, left_ns = np.roll(last_ns, -2), np.roll(last_ns, -3)
    sent_ns = np.maximum(arrived_ns, left_ns - unsent_bytes / bytes_per_ns)
    ranks.left_ns, ranks.sent_ns = left_ns, sent_ns
    done_ns: Float64 = np.maximum(started_ns, sent_ns)
    return done_ns
