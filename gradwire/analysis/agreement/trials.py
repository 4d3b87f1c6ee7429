"""Effects that an emulated network has and an ideal one lacks, each included in an estimate.

The sizes of the effects come from the point's own log, record and settings: how late agents were, what connections
held, how large bursts are. None is chosen to fit.

One of the effects is that a plan amplifies jitter: delays of messages cost it more time than they last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from gradwire.analysis.agreement.causes import ENOUGH_WITHIN_MARGIN, Cause, Deviation, Trial, rough
from gradwire.analysis.agreement.held_bytes import Float64, HeldBytes
from gradwire.analysis.agreement.phases import with_phases
from gradwire.analysis.agreement.short_windows import ShortWindow, with_windows
from gradwire.analysis.bounds import slowest_bps
from gradwire.analysis.fluid.delays import NO_DELAYS, Delays, own_delays
from gradwire.analysis.fluid.estimate import Buffered, Jitter
from gradwire.analysis.fluid.ideal import IdealRun
from gradwire.analysis.quantities import quantity
from gradwire.datatypes.message_parts import most_parts
from gradwire.datatypes.plan import FULL_SPEED
from gradwire.network.routes import most_trunks_on_way

SEEDS = 3
"""Draws that are averaged. Of halving-doubling on 16 hosts, whose draws differ
most, single ones are within a fifth of their mean."""
LEAST_INCREASE = 1e-3
"""Equal delays that make less than this of an iteration are hidden behind
something else, and nothing is to be divided by them."""
AMPLIFIES = 2.0
"""From this factor on a plan is said to amplify jitter. Whoever waits for the slowest of many loses the longest delay
and not the mean one, which is half of it, so 2 is what a barrier costs. Rings and parameter servers have 0.7 to 1.3, a
butterfly of 8 hosts has 1.7, and halving-doubling has 1.1 on 4 hosts, 1.7 on 8 and 2.7 on 16."""
LEAST_ACK_SHARE = 0.01
"""Below it, ACKs cannot explain what is off by more than MARGIN. With bursts of 64 KiB
they take 0.14 % of a port, and with single frames 2.9 %."""


@dataclass(frozen=True)
class Amplification:
    """The effect of random delays of messages on a plan's iterations."""

    #: The longest delay; they are drawn evenly from 0 to this, anew for every message.
    most_delay_s: float
    #: Mean iteration time without delays, with equal delays of half the longest one, and with random ones.
    undelayed_s: float
    equal_s: float
    random_s: float

    @property
    def increase(self) -> float:
        """Share by which random delays make an iteration longer than without any."""
        return self.random_s / self.undelayed_s - 1

    @property
    def factor(self) -> float | None:
        """The time that random delays add, divided by the time that equal ones of the same mean add; None if the equal
        ones add next to nothing.

        Equal delays add up along the longest chain of messages, and keep all ranks in step. So 1 says that jitter
        costs what one chain of messages loses, 2 what each step loses where all wait for the slowest, and 3 more than
        that: ranks get out of step, and what is early takes ports from what is late.
        """
        added_s = self.equal_s - self.undelayed_s
        return (self.random_s - self.undelayed_s) / added_s if added_s > LEAST_INCREASE * self.undelayed_s else None

    @property
    def is_amplified(self) -> bool:
        """Whether random delays cost far more than equal ones."""
        return self.factor is None or self.factor >= AMPLIFIES


def amplification(
    run: IdealRun, most_delay_s: float, whole_bytes: int = 0, undelayed_s: float | None = None
) -> Amplification:
    """Estimates a run without delays, with equal ones, and with random ones of SEEDS draws.

    whole_bytes: messages with less payload are delayed by as much less. undelayed_s: the first of these, if it is
    known. Raises InternalFault for a plan that gets stuck.
    """
    random_s = [run.time_s(jitter=Jitter(most_delay_s, seed), whole_bytes=whole_bytes) for seed in range(SEEDS)]
    return Amplification(
        most_delay_s=most_delay_s,
        undelayed_s=run.time_s() if undelayed_s is None else undelayed_s,
        equal_s=run.time_s(latency_s=most_delay_s / 2, whole_bytes=whole_bytes),
        random_s=float(np.mean(random_s)),
    )


@dataclass(frozen=True)
class SeenEffects:
    """Figures of a run from which effects that its estimate lacks are computed."""

    #: Times of the measured iterations.
    iterations_s: tuple[float, ...]
    #: Bytes that its connections held.
    held: HeldBytes
    #: Time between the arrivals of the copies of a multicast message; 0 without multicast.
    copies_apart_s: float
    #: Payload by which a message may arrive early through idle ports (Fabric.grain_s).
    grain_bytes: int
    #: Part of that by which a SEND is early that begins after a pause, as payload (Fabric.burst_bytes).
    forgiven_bytes: int
    #: Bytes that a flow sends at least before the next one at a port has its turn (topo/tc.py).
    turn_bytes: int
    #: Time by which each worker began a typical iteration later than the first.
    apart_s: tuple[float, ...] = ()
    #: Number that bytes and rates were divided by on the virtual clock.
    divided_by: int = 1
    #: Delays of links; the run is estimated without them.
    far: Delays = NO_DELAYS
    #: Connections whose windows hold less than their paths for it.
    short_windows: tuple[ShortWindow, ...] = ()


class _Estimates:
    """Estimates of a run that several trials need, each made once, when it is asked for."""

    def __init__(self, run: IdealRun, ideal_s: float) -> None:
        self._run = run
        self._times_s = {0: ideal_s}
        self._amplifications: dict[tuple[int, float], Amplification] = {}

    @cached_property
    def iterations_s(self) -> Float64:
        """Time of each measured iteration on an ideal network."""
        return self._run.iterations_s()

    def holding(self, held_bytes: int) -> IdealRun:
        """The run on a network that holds so much of each connection; the run itself for 0."""
        return self._run.of(Buffered(held_bytes)) if held_bytes else self._run

    def time_s(self, held_bytes: int) -> float:
        """Mean of the measured iterations on that network."""
        if held_bytes not in self._times_s:
            self._times_s[held_bytes] = self.holding(held_bytes).time_s()
        return self._times_s[held_bytes]

    def amplification(self, held_bytes: int, most_delay_s: float, whole_bytes: int) -> Amplification:
        """Effect of random delays if connections hold so many bytes. whole_bytes: the same for all trials of a
        run."""
        key = held_bytes, most_delay_s
        if key not in self._amplifications:
            holding, undelayed_s = self.holding(held_bytes), self.time_s(held_bytes)
            self._amplifications[key] = amplification(holding, most_delay_s, whole_bytes, undelayed_s)
        return self._amplifications[key]

    def late_s(self, delay_s: float, whole_bytes: int) -> float:
        """Iteration time in seconds if connections hold no bytes and every message is late by `delay_s`."""
        known = self._amplifications.get((0, 2 * delay_s))
        return self._run.time_s(latency_s=delay_s, whole_bytes=whole_bytes) if known is None else known.equal_s


def trials(run: IdealRun, deviation: Deviation, seen: SeenEffects) -> Iterator[Trial]:
    """Yields an estimate with each effect, in the order in which to believe them: exactly known ones first, bounds
    last.

    The bound of a division comes first of all, because it was stated before the run.

    An estimate is made when its trial is asked for. Raises InternalFault for a plan that gets stuck.
    """
    if deviation.late_s:
        late = rough(deviation.late_s, "s")
        yield Trial(
            Cause.AGENTS, deviation.ideal_s, f"They acted {late} late on the critical path of a typical iteration"
        )
    if any(seen.far.port_s):
        is_estimated = seen.far == own_delays(run.fabric)
        yield from _with_long_links(run, seen, is_estimated=is_estimated)
        if not is_estimated:
            return
    estimates = _Estimates(run, deviation.ideal_s)
    yield from _with_long_bursts(run, seen)
    if run.counted is None:
        yield from _without_start(run, deviation, seen, estimates)
        yield from _without_end(deviation, seen, estimates)
    yield from _with_acks(run)
    yield from _with_held_bytes(run, seen, estimates)
    yield from _with_queues_at_ports(run, seen)
    yield from _with_copies(run, deviation, seen)
    yield from _with_late_parts(run, seen)
    yield from _with_jitter(run, deviation, seen, estimates)
    if run.counted is None:
        yield from _with_workers_apart(seen, estimates)
    else:
        yield from _with_phases(run, seen)
    yield from _with_delays_at_ports(run, seen)
    yield from _with_bursts(run, seen)
    yield from _with_turns(run, seen, estimates)


def _with_long_links(run: IdealRun, seen: SeenEffects, *, is_estimated: bool) -> Iterator[Trial]:
    """Messages arrive later by their links, and where windows hold less than paths do, connections send a window in
    each round trip.

    is_estimated: whether the run's estimate has these delays, which are then the network's own. Else nothing else is
    tried, for all other effects would have to be estimated with delays that faults made as well.
    """
    farthest_s = max(seen.far.port_s)
    late = f"Links make messages arrive later, the longest by {quantity(farthest_s, 's')}"
    if not is_estimated:
        yield Trial(Cause.DELAYS, run.with_delays(seen.far).time_s(), late)
    if seen.short_windows:
        worst = min(seen.short_windows, key=lambda window: window.window_bytes / window.path_bytes)
        window, path = rough(worst.window_bytes, "bytes"), rough(worst.path_bytes, "bytes")
        effect = (
            f"{late}, and sockets keep no more than {window} of a connection under way (transport.buffer), where "
            f"{path} would fill the line from {worst.ends}, over a round trip of {quantity(worst.round_trip_s, 's')}"
        )
        yield Trial(Cause.WINDOWS, with_windows(run, seen.far, seen.short_windows).time_s(), effect)


def _without_start(run: IdealRun, deviation: Deviation, seen: SeenEffects, estimates: _Estimates) -> Iterator[Trial]:
    """Yields the estimate that would be right if only the cold start were off."""
    if run.window.warmup or len(seen.iterations_s) < 2:
        return
    others_s, ideal_s = float(np.mean(seen.iterations_s[1:])), float(np.mean(estimates.iterations_s[1:]))
    first = quantity(seen.iterations_s[0], "s")
    effect = f"It is measured and took {first}; the others take {others_s / ideal_s:.3f} times their estimate"
    yield Trial(Cause.START, deviation.measured_s - deviation.late_s - (others_s - ideal_s), effect)


def _without_end(deviation: Deviation, seen: SeenEffects, estimates: _Estimates) -> Iterator[Trial]:
    """Yields the estimate that would be right if only the end of the run, when traffic ceases, were off."""
    if len(seen.iterations_s) < 2:
        return
    others_s, ideal_s = float(np.mean(seen.iterations_s[:-1])), float(np.mean(estimates.iterations_s[:-1]))
    last = quantity(seen.iterations_s[-1], "s")
    effect = f"None follows it, so that it took {last}; the others take {others_s / ideal_s:.3f} times their estimate"
    yield Trial(Cause.END, deviation.measured_s - deviation.late_s - (others_s - ideal_s), effect)


def _with_acks(run: IdealRun) -> Iterator[Trial]:
    share = run.fabric.ack_share()
    if share >= LEAST_ACK_SHARE or run.counted is not None:
        slower = run.on(run.fabric.with_rates_times(1 - share))
        burst = quantity(run.fabric.gso_bytes, "bytes")
        effect = f"With bursts of {burst} (fabric.gso), they take {share:.1%} of a port that is busy in both directions"
        yield Trial(Cause.ACKS, slower.time_s(), effect)


def _with_held_bytes(run: IdealRun, seen: SeenEffects, estimates: _Estimates) -> Iterator[Trial]:
    """Yields estimates in which queues continue while bytes of a connection have not arrived: the most that was seen,
    and the number that half of the payload met."""
    sizes = {seen.held.most_bytes: "up to", seen.held.typical_bytes: "typically"}
    for size_bytes, often in sizes.items():
        if not size_bytes:
            continue
        with_held_s = estimates.time_s(size_bytes)
        held = f"{often} {rough(size_bytes, 'bytes')} per connection"
        if isinstance(run.send_ends, Buffered):
            unsent = quantity(run.send_ends.unsent_bytes, "bytes")
            effect = (
                f"Senders moved on while {held} were still in flight: {unsent} may wait unsent (transport.unsent), "
                "and what TCP has under way comes on top"
            )
            yield Trial(Cause.SOCKETS, with_held_s, effect)
        else:
            effect = (
                f"Messages that had left their hosts waited there: senders moved on while {held} were still in flight"
            )
            yield Trial(Cause.SWITCHES, with_held_s, effect)


def _with_queues_at_ports(run: IdealRun, seen: SeenEffects) -> Iterator[Trial]:
    """Yields estimates for links with delays in which a message that has left its host waits at each slow port, by an
    amount that follows from the traffic instead of being equal for all connections. So a host is done with a message as
    soon as its own port is, and where flows of slow ports meet those of fast ones, neither keeps a port from the other.

    Messages may in addition wait for a turn of others, which a fluid does not: for up to one turn at the slowest line,
    at one port of their way or at each. Messages shorter than a turn wait as long, or shorter in proportion.
    """
    if not seen.held.most_bytes or not any(seen.far.port_s):
        return
    queued = run.with_queues_at_ports()
    held = rough(seen.held.typical_bytes or seen.held.most_bytes, "bytes")
    effect = (
        f"Messages that had left their hosts waited at ports of switches, where typically {held} per connection were "
        "seen in flight"
    )
    yield Trial(Cause.SWITCHES, queued.time_s(), effect)
    turn_bytes = max(seen.turn_bytes, run.fabric.gso_bytes)
    turn_s = turn_bytes * 8 / (run.fabric.goodput_share() * slowest_bps(run.fabric))
    for ports in (1, 2 + most_trunks_on_way(run.fabric)):
        late_s = ports * turn_s
        where = f" at each of {ports} ports" if ports > 1 else " at one port"
        late = f"up to {rough(late_s, 's')} late, behind {quantity(turn_bytes, 'bytes')} of others{where}"
        for whole_bytes, shorter in ((0, ""), (turn_bytes, ", and shorter ones by as much less")):
            times_s = [queued.time_s(jitter=Jitter(late_s, seed), whole_bytes=whole_bytes) for seed in range(SEEDS)]
            yield Trial(Cause.BURSTS, float(np.mean(times_s)), f"{effect}, and messages arrived {late}{shorter}")


def _with_copies(run: IdealRun, deviation: Deviation, seen: SeenEffects) -> Iterator[Trial]:
    """Yields an estimate in which each copy of a multicast message proceeds at its own rate, while an ideal network
    carries all at the slowest one's. Early receivers' next messages may then keep ports from the late copies."""
    if seen.copies_apart_s:
        apart = rough(seen.copies_apart_s, "s")
        if run.plan.speed_permille == FULL_SPEED:  # else a plan has sets of messages that another one's would not be in
            effect = (
                f"Copies of a multicast message passed their ports each at its own rate, and arrived up to {apart} apart, "
                "where those of an ideal network arrive together"
            )
            yield Trial(Cause.SWITCHES, run.with_separate_copies().time_s(), effect)
        effect = (
            f"Copies of a multicast message waited for nothing but their own ports, and arrived up to {apart} apart, "
            "where those of an ideal network arrive together"
        )
        yield Trial(Cause.SWITCHES, deviation.ideal_s - seen.copies_apart_s, effect, is_bound=True)


def _with_late_parts(run: IdealRun, seen: SeenEffects) -> Iterator[Trial]:
    """Yields an estimate for messages that are divided over several connections. Their parts do not end together,
    because those of the next message take turns with the last of them, unless queues serve first come, first served."""
    parts = most_parts(run.plan)
    if parts == 1 or not run.fabric.fair_queues:
        return
    turn_s = max(seen.turn_bytes, run.fabric.gso_bytes) * 8 / (run.fabric.goodput_share() * slowest_bps(run.fabric))
    late_s = (parts - 1) * turn_s
    effect = (
        f"Messages are divided into up to {parts} parts (transport.connections), and a part that ends last takes turns with those of the "
        f"next message, so that messages arrive up to {rough(late_s, 's')} late"
    )
    with_late_s = run.time_s(latency_s=late_s)
    yield Trial(Cause.BURSTS, with_late_s, effect)
    yield Trial(Cause.BURSTS, with_late_s, effect, is_bound=True)


def _with_jitter(run: IdealRun, deviation: Deviation, seen: SeenEffects, estimates: _Estimates) -> Iterator[Trial]:
    """Yields estimates in which messages are late at random by up to a turn of another flow, on a network that holds as
    many bytes as this one held.

    Between two flows that share a port evenly, a message is late by a turn at most, and by its own size if it is
    shorter. That may happen at one port of its way, or at each.
    """
    largest_bytes = int(run.plan.ops.size_bytes[run.plan.is_remote()].max(initial=0))
    turn_bytes = min(max(seen.turn_bytes, run.fabric.gso_bytes), largest_bytes)
    if not turn_bytes:
        return
    turn_s = turn_bytes * 8 / (run.fabric.goodput_share() * run.fabric.rate_bps)
    sizes = dict.fromkeys((seen.held.most_bytes, seen.held.typical_bytes))
    for held_bytes, ports in product(sizes, (1, 2 + most_trunks_on_way(run.fabric))):
        held = estimates.amplification(held_bytes, ports * turn_s, turn_bytes)
        if deviation.share(held.random_s - held.undelayed_s) < ENOUGH_WITHIN_MARGIN:
            continue  # What is held may explain it; that messages are late as well does not.
        where = f" at each of {ports} ports" if ports > 1 else ""
        late = f"up to {rough(ports * turn_s, 's')} late, behind {quantity(turn_bytes, 'bytes')} of others{where}"
        if not held.is_amplified:
            yield Trial(Cause.BURSTS, held.random_s, f"Messages arrive {late}")
        elif deviation.is_explained(held.random_s):
            alone = estimates.amplification(0, ports * turn_s, turn_bytes)
            yield Trial(Cause.SKEW, held.random_s, _skew_in_words(late, alone, held, held_bytes))


def _with_workers_apart(seen: SeenEffects, estimates: _Estimates) -> Iterator[Trial]:
    """Yields estimates in which workers once begin as far apart as in the run, and may get back in step."""
    apart_s = max(seen.apart_s, default=0.0)
    for held_bytes in dict.fromkeys((seen.held.most_bytes, seen.held.typical_bytes)) if apart_s else ():
        effect = f"Workers began a typical iteration up to {rough(apart_s, 's')} apart"
        if held_bytes:
            held = rough(held_bytes, "bytes")
            effect += (
                f", and they do not get back in step while senders move on with up to {held} per connection still in "
                "flight, as they did"
            )
        yield Trial(Cause.SKEW, estimates.holding(held_bytes).time_apart_s(seen.apart_s), effect)


def _with_phases(run: IdealRun, seen: SeenEffects) -> Iterator[Trial]:
    turn_bytes = max(seen.turn_bytes, run.fabric.gso_bytes)
    turn_s = turn_bytes * 8 / (run.fabric.goodput_share() * slowest_bps(run.fabric))
    held_sizes = tuple(dict.fromkeys((0, seen.held.typical_bytes, seen.held.most_bytes)))
    yield from with_phases(run, seen.apart_s, held_sizes, turn_bytes, turn_s)


def _skew_in_words(late: str, alone: Amplification, held: Amplification, held_bytes: int) -> str:
    times = f", {alone.factor:.1f} times what equal delays of the same mean do" if alone.factor else ""
    words = (
        f"This plan amplifies jitter: messages that arrive {late}, make an iteration {alone.increase:.1%} longer on "
        f"an ideal network{times}"
    )
    if not held_bytes:
        return words
    waiting = rough(held_bytes, "bytes")
    return (
        f"{words}, and {held.increase:.1%} longer while senders move on with up to {waiting} per connection still in "
        "flight, as they did"
    )


def _with_delays_at_ports(run: IdealRun, seen: SeenEffects) -> Iterator[Trial]:
    """Copies of a multicast are at all ports of their tree at once on an ideal network, and other flows are not, where
    links differ. By how much an iteration is shorter is not known, but no more than by all delays."""
    if len(set(seen.far.port_s)) > 1 and run.plan.multicasts():
        farthest = quantity(max(seen.far.port_s), "s")
        effect = (
            f"Links delay what passes them by up to {farthest} each, so that copies of a multicast meet other flows at "
            "another time than on an ideal network, where they pass all links at once"
        )
        yield Trial(Cause.DELAYS, run.with_delays(NO_DELAYS).time_s(), effect, is_bound=True)


def _with_long_bursts(run: IdealRun, seen: SeenEffects) -> Iterator[Trial]:
    """Yields a bound on how late messages are if bytes were divided and bursts not (runs/compiling/scale_division.py)."""
    if seen.divided_by > 1:
        late_s = run.fabric.gso_bytes * 8 / slowest_bps(run.fabric)
        gso = quantity(run.fabric.gso_bytes, "bytes")
        effect = (
            f"Bytes and rates were divided by {seen.divided_by}, and bursts of up to {gso} (fabric.gso) were not, so "
            f"that messages arrive up to {rough(late_s, 's')} late"
        )
        yield Trial(Cause.BURSTS, run.time_s(latency_s=late_s), effect, is_bound=True)


def _with_bursts(run: IdealRun, seen: SeenEffects) -> Iterator[Trial]:
    """Yields a bound on how early messages are: idle ports let a burst go at once that takes some time on a line.

    What their shapers forgive is time that a SEND does not take either. Before one with a software latency ports are
    idle for that long.
    """
    gso = quantity(run.fabric.gso_bytes, "bytes")
    early_s, forgiven_s = (
        size_bytes * 8 / (run.fabric.goodput_share() * run.fabric.rate_bps)
        for size_bytes in (seen.grain_bytes, seen.forgiven_bytes)
    )
    effect = (
        f"Idle ports let bursts of up to {gso} (fabric.gso) go at once, so that messages arrive up to "
        f"{rough(early_s, 's')} early"
    )
    hurried = run.with_shorter_latencies(forgiven_s)
    if hurried is not run:
        effect += f", and those that are sent after a software latency leave up to {rough(forgiven_s, 's')} early"
    yield Trial(Cause.BURSTS, hurried.time_s(early_bytes=seen.grain_bytes), effect, is_bound=True)


def _with_turns(run: IdealRun, seen: SeenEffects, estimates: _Estimates) -> Iterator[Trial]:
    """Yields a bound on how late messages are that wait for others once, at the slowest line: all by a turn."""
    turn_bytes = max(seen.turn_bytes, run.fabric.gso_bytes)
    late_s = turn_bytes * 8 / (run.fabric.goodput_share() * slowest_bps(run.fabric))
    effect = (
        f"Messages arrive up to {rough(late_s, 's')} late, behind {quantity(turn_bytes, 'bytes')} of others at one port, "
        "and shorter ones by as much less"
    )
    yield Trial(Cause.BURSTS, estimates.late_s(late_s, turn_bytes), effect, is_bound=True)
