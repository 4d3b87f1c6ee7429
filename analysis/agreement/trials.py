"""The effects that an ideal network does not have and an emulated one has, each included in an estimate.

They are sizes that the point's own log, record and settings give: how late agents were, what its connections held, how large its bursts
are. None is chosen to fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gradwire.analysis.agreement.causes import Cause, Deviation, Trial
from gradwire.analysis.agreement.ideal import IdealRun
from gradwire.analysis.agreement.skew import Amplification, amplification
from gradwire.analysis.fluid.estimate import Buffered
from gradwire.analysis.report.quantities import quantity

LEAST_ACK_SHARE = 0.01
"""Below it, ACKs cannot explain what is off by more than MARGIN. With bursts of 64 KiB they take 0.14 % of a port, with single frames 2.9 %."""


@dataclass(frozen=True)
class Seen:
    """What a run shows of effects that its estimate lacks."""

    #: Times of the measured iterations.
    iterations_s: tuple[float, ...]
    #: See analysis/agreement/held.py.
    held_bytes: int
    #: What a flow sends before the next one at a port has its turn, at least (topo/tc.py).
    turn_bytes: int


def trials(run: IdealRun, deviation: Deviation, seen: Seen) -> Iterator[Trial]:
    """Each effect in an estimate of its own, the simplest first; later ones are costly, and made only when they are asked for."""
    if deviation.late_s:
        late = quantity(deviation.late_s, "s")
        yield Trial(Cause.AGENTS, deviation.ideal_s, f"agents acted {late} late on the critical path")
    yield from _without_start(run, deviation, seen)
    yield from _with_acks(run)
    yield from _with_bursts(run)
    yield from _with_held_bytes(run, seen)
    yield from _with_jitter(run, deviation, seen)


def _without_start(run: IdealRun, deviation: Deviation, seen: Seen) -> Iterator[Trial]:
    """What the estimate would have to be if nothing but the cold start were off."""
    if run.warmup or len(seen.iterations_s) < 2:
        return
    others_s, ideal_s = float(np.mean(seen.iterations_s[1:])), float(np.mean(run.iterations_s()[1:]))
    first = quantity(seen.iterations_s[0], "s")
    effect = f"the first iteration is measured and took {first}; the others take {others_s / ideal_s:.3f} times their estimate"
    yield Trial(Cause.START, deviation.measured_s - (others_s - ideal_s), effect)


def _with_acks(run: IdealRun) -> Iterator[Trial]:
    share = run.fabric.ack_share()
    if share >= LEAST_ACK_SHARE:
        slower = run.on(replace(run.fabric, rate_bps=run.fabric.rate_bps * (1 - share)))
        burst = quantity(run.fabric.gso_bytes, "bytes")
        yield Trial(Cause.ACKS, slower.time_s(), f"with bursts of {burst}, ACKs take {share:.1%} of a port that is busy in both directions")


def _with_bursts(run: IdealRun) -> Iterator[Trial]:
    size = run.fabric.gso_bytes
    effect = f"ports send bursts of up to {quantity(size, 'bytes')} as a whole, so that the last one of a message arrives when it should begin to leave"
    yield Trial(Cause.BURSTS, run.time_s(early_bytes=size), effect)


def _with_held_bytes(run: IdealRun, seen: Seen) -> Iterator[Trial]:
    if not seen.held_bytes:
        return
    with_held_s = run.of(Buffered(seen.held_bytes)).time_s()
    held = quantity(seen.held_bytes, "bytes")
    if isinstance(run.send_ends, Buffered):
        unsent = quantity(run.send_ends.unsent_bytes, "bytes")
        effect = (
            f"queues went on with up to {held} of a connection not arrived: {unsent} may wait unsent (transport.unsent), and what TCP has "
            "under way comes on top"
        )
        yield Trial(Cause.SOCKETS, with_held_s, effect)
    else:
        effect = f"messages that had left their host waited in switches, and their queues went on with up to {held} of a connection not arrived"
        yield Trial(Cause.SWITCHES, with_held_s, effect)


def _with_jitter(run: IdealRun, deviation: Deviation, seen: Seen) -> Iterator[Trial]:
    """Messages arrive late at random, by up to a turn of another flow or up to a burst, on a network that holds what this one held."""
    holding = run.of(Buffered(seen.held_bytes)) if seen.held_bytes else run
    largest = int(run.plan.ops.size_bytes[run.plan.is_remote()].max(initial=0))
    sizes = (min(max(seen.turn_bytes, run.fabric.gso_bytes), largest), min(run.fabric.gso_bytes, largest))
    for size in dict.fromkeys(filter(None, sizes)):
        delay_s = size * 8 / (run.fabric.goodput_share() * run.fabric.rate_bps)
        held = amplification(holding, delay_s)
        late = f"up to {quantity(delay_s, 's')} late, behind {quantity(size, 'bytes')} of others"
        if not held.is_amplified:
            yield Trial(Cause.BURSTS, held.random_s, f"messages arrive {late}")
        elif deviation.is_explained(held.random_s):
            alone = amplification(run, delay_s, deviation.ideal_s)
            yield Trial(Cause.SKEW, held.random_s, _skew_in_words(late, alone, held, seen))


def _skew_in_words(late: str, alone: Amplification, held: Amplification, seen: Seen) -> str:
    times = f", {alone.factor:.1f} times what equal delays of the same mean do" if alone.factor else ""
    waiting = quantity(seen.held_bytes, "bytes")
    return (
        f"this plan amplifies jitter: messages that arrive {late}, make an iteration {alone.increase:.1%} longer on an ideal network{times}, "
        f"and {held.increase:.1%} longer where queues go on with up to {waiting} of a connection not arrived, as they did here"
    )
