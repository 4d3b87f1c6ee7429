"""DCQCN's fluid model (Zhu et al., SIGCOMM 2015, section 5.1, equations 5 to 9): rates and the queue over time.

    python -m benchmarks.dcqcn_fluid [--rate 40gbit] [--flows 2,4,8] [--pmax 0.01]

It is what `benchmarks/dcqcn.py` holds the emulation against, and shares nothing with it but the parameters. Flows begin
with unlike rates that fill the line (1:3 of two, 1:3:5:7 of four), and the model says from when on all of them stay within
5 % of a fair share. Where it then stays, `fixed_point` says without integrating: the share of marked packets that balances
cuts and increases depends on the rate of a flow, and RED's slope makes a queue of it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.scenario.sections.lossless import KMAX_BYTES, KMIN_BYTES, PMAX
from gradwire.workloads.units import RATE

Floats = npt.NDArray[np.float64]

STEP_S = 1e-6
"""Of the integration: a fiftieth of the shortest time in the equations."""
LEAST_MARKED = 1e-9
"""Below it nothing is marked, and above 1 minus this everything."""
LEAST_SHARE = 1e4
"""Of the line: a flow's least rate is the line's over this."""
FAIR = 0.05
"""How close to its share a flow has to stay."""
SURE = 4.0
"""How many standard deviations that is in the time for which shares are measured."""
MOST_MARKED = 0.5
"""No flow keeps a share of a line if every other packet is marked: the fixed point is below it."""
BISECTIONS = 100
SETTLED_S, ANSWERED_S = 0.1, 0.1
"""Until the model stands still, and until it has answered a cut."""


@dataclass(frozen=True)
class Parameters:
    """Those of the paper's figure 14, which the kernel's patch has too."""

    kmin_bytes: float = KMIN_BYTES
    kmax_bytes: float = KMAX_BYTES
    pmax: float = PMAX
    #: What of alpha a notification replaces.
    gain: float = 1 / 256
    #: Time between two notifications (N), between two decays of alpha (K), and between two steps of increase (T).
    notification_s: float = 50e-6
    decay_s: float = 55e-6
    timer_s: float = 55e-6
    #: Bytes between two steps of increase (B).
    counter_bytes: float = 10e6
    #: Steps of fast recovery (F), and what a step after them adds to the target (R_AI).
    fast_steps: int = 5
    increase_bps: float = 40e6
    #: From a mark to the cut that it makes: what the queue holds comes on top. In the paper 4 us or 85 us.
    delay_s: float = 4e-6
    packet_bytes: float = 1500.0

    def marked(self, queue_bytes: float) -> float:
        """Share of packets that RED marks at this length of the queue (equation 5)."""
        if queue_bytes <= self.kmin_bytes:
            return 0.0
        if queue_bytes > self.kmax_bytes:
            return 1.0
        return self.pmax * (queue_bytes - self.kmin_bytes) / (self.kmax_bytes - self.kmin_bytes)


@dataclass(frozen=True)
class State:
    """Where flows and the queue are at one time."""

    queue_bytes: float
    rates_bps: Floats
    targets_bps: Floats
    alpha: Floats

    def after_one_more_cut(self, flow: int, gain: float) -> State:
        """The same, after a notification that the model does not expect."""
        rates, targets, alpha = self.rates_bps.copy(), self.targets_bps.copy(), self.alpha.copy()
        targets[flow] = rates[flow]
        rates[flow] *= 1 - alpha[flow] / 2
        alpha[flow] += gain * (1 - alpha[flow])
        return State(self.queue_bytes, rates, targets, alpha)


@dataclass(frozen=True)
class Course:
    """What the model says, a row for each step."""

    time_s: Floats
    queue_bytes: Floats
    #: A column for each flow.
    rates_bps: Floats
    last: State

    def converged_s(self, rate_bps: float) -> float:
        """From when on every flow stays within FAIR of its share; infinite if it does not come to that."""
        share_bps = rate_bps / self.rates_bps.shape[1]
        off = np.flatnonzero((np.abs(self.rates_bps - share_bps) > FAIR * share_bps).any(axis=1))
        if not len(off):
            return 0.0
        return float(self.time_s[off[-1] + 1]) if off[-1] + 1 < len(self.time_s) else np.inf


def _per_event(marked: float, packets: Floats) -> Floats:
    """Events of increase per packet: p / ((1 - p)^-n - 1), which is 1 / n without marks."""
    if marked < LEAST_MARKED:
        return 1 / packets
    unmarked = np.exp(packets * np.log1p(-min(marked, 1 - LEAST_MARKED)))
    events: Floats = marked * unmarked / (1 - unmarked)
    return events


def first_state(first_bps: Sequence[float]) -> State:
    """An empty queue, an alpha of 1, and each flow's rate."""
    rates = np.array(first_bps, dtype=np.float64)
    return State(0.0, rates, rates.copy(), np.ones(len(rates)))


def solve(rate_bps: float, first: State, duration_s: float, parameters: Parameters) -> Course:
    """Integrates the equations from `first` on."""
    p, steps = parameters, round(duration_s / STEP_S)
    packet_bits = 8 * p.packet_bytes
    line = rate_bps / packet_bits
    count, late = len(first.alpha), max(1, round(p.delay_s / STEP_S))
    queue, alpha = first.queue_bytes, first.alpha
    current = np.maximum(first.rates_bps / packet_bits, line / LEAST_SHARE)
    target = np.maximum(first.targets_bps / packet_bits, current)
    queues, rates, marks = np.zeros(steps), np.tile(current, (steps, 1)), np.full(steps, p.marked(queue))
    counter, increase = p.counter_bytes / p.packet_bytes, p.increase_bps / 8 / p.packet_bytes
    for step in range(steps):
        before = max(0, step - late)
        marked, past = marks[before], rates[before]
        unmarked = np.log1p(-min(marked, 1 - LEAST_MARKED))
        notified = -np.expm1(unmarked * p.notification_s * past)
        by_bytes = past * _per_event(marked, np.full(count, counter))
        by_time = past * _per_event(marked, p.timer_s * past)
        gap = target - current
        kept_bytes = np.exp(unmarked * p.fast_steps * counter)
        kept_time = np.exp(unmarked * p.fast_steps * p.timer_s * past)
        alpha_change = p.gain / p.decay_s * (-np.expm1(unmarked * p.decay_s * past) - alpha)
        target_change = -gap / p.notification_s * notified + increase * (by_bytes * kept_bytes + by_time * kept_time)
        current_change = -current * alpha / (2 * p.notification_s) * notified + gap / 2 * (by_bytes + by_time)
        alpha = alpha + STEP_S * alpha_change
        target = np.clip(target + STEP_S * target_change, 0, line)
        current = np.clip(current + STEP_S * current_change, line / LEAST_SHARE, line)
        queue = max(0.0, queue + STEP_S * (float(current.sum()) - line) * p.packet_bytes)
        queues[step], rates[step], marks[step] = queue, current, p.marked(queue)
    last = State(queue, current * packet_bits, target * packet_bits, alpha)
    times_s: Floats = np.arange(steps, dtype=np.float64) * STEP_S
    return Course(times_s, queues, rates * packet_bits, last)


@dataclass(frozen=True)
class FixedPoint:
    """Where the model stays once it is there."""

    #: Share of packets that has to be marked there.
    marked: float
    state: State


def fixed_point(rate_bps: float, flows: int, parameters: Parameters) -> FixedPoint:
    """Where the right sides of the equations are 0 with equal rates.

    A flow's alpha and target follow from the share p of marked packets, which is that at which targets rise as much as cuts
    lower them. To first order, p^3 = R_AI / (tau' C^2) (N / B + N^2 / (T C))^2, with tau' for `decay_s` and C in packets.
    The queue is Kmin + p / Pmax (Kmax - Kmin), or Kmax if that is more.
    """
    p = parameters
    share, counter = rate_bps / flows / 8 / p.packet_bytes, p.counter_bytes / p.packet_bytes
    least, most = LEAST_MARKED, MOST_MARKED
    for _ in range(BISECTIONS):
        marked = math.sqrt(least * most)
        unmarked = math.log1p(-marked)
        alpha, notified = (-math.expm1(unmarked * time_s * share) for time_s in (p.decay_s, p.notification_s))
        by_bytes, by_time = (share * _per_event(marked, np.array([each]))[0] for each in (counter, p.timer_s * share))
        gap = share * alpha * notified / p.notification_s / (by_bytes + by_time)
        slow = by_bytes * math.exp(unmarked * p.fast_steps * counter)
        slow += by_time * math.exp(unmarked * p.fast_steps * p.timer_s * share)
        falls = gap * notified / p.notification_s - p.increase_bps / 8 / p.packet_bytes * slow
        least, most = (least, marked) if falls > 0 else (marked, most)
    queue_bytes = min(p.kmax_bytes, p.kmin_bytes + marked / p.pmax * (p.kmax_bytes - p.kmin_bytes))
    rates, gap_bps = np.full(flows, rate_bps / flows), gap * 8 * p.packet_bytes
    return FixedPoint(marked, State(queue_bytes, rates, rates + gap_bps, np.full(flows, alpha)))


@dataclass(frozen=True)
class Noise:
    """What chance adds to the model: marks come one by one, and each cut takes something from a flow's share.

    Cuts of a flow are taken to be independent of each other, so what its share is off by in a long time is the sum of many
    equal and independent losses, each shared out among the others (Campbell's theorem).
    """

    flows: int
    #: Of one flow: the mean time between two, which is the period of its sawtooth.
    cut_period_s: float
    #: What one more cut costs a flow, as a time in which it sends nothing.
    lost_s: float
    #: Until nine tenths of it are lost.
    lasts_s: float

    def deviation(self, window_s: float) -> float:
        """Standard deviation of a flow's share, over a fair one, in a time that is long next to `lasts_s`."""
        return self.lost_s * math.sqrt((1 - 1 / self.flows) / (self.cut_period_s * window_s))

    def window_s(self, off: float = FAIR, sure: float = SURE) -> float:
        """Time after which a share is off by `off` only where it is off by `sure` standard deviations."""
        return (sure * self.deviation(1.0) / off) ** 2


def noise(rate_bps: float, flows: int, parameters: Parameters) -> Noise:
    """From the model's answer to one cut too many, at its fixed point."""
    p, share_bps = parameters, rate_bps / flows
    fixed = solve(rate_bps, first_state([share_bps] * flows), SETTLED_S, p).last
    answer = solve(rate_bps, fixed.after_one_more_cut(0, p.gain), ANSWERED_S, p)
    # What is left to the others does not matter: the line is full, or all of them lose.
    behind = 1 - answer.rates_bps[:, 0] / answer.rates_bps.mean(axis=1)
    lost = np.cumsum(behind) * STEP_S / (1 - 1 / flows)
    packets = p.notification_s * share_bps / 8 / p.packet_bytes
    notified = -math.expm1(packets * math.log1p(-p.marked(fixed.queue_bytes)))
    lasts = int(np.argmax(lost > 0.9 * lost[-1])) * STEP_S
    return Noise(flows, p.notification_s / notified, float(lost[-1]), lasts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each number of flows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="40gbit", type=RATE.parse)
    parser.add_argument("--flows", default="2,4,8")
    parser.add_argument("--seconds", default=0.1, type=float)
    parser.add_argument("--pmax", default=PMAX, type=float)
    options = parser.parse_args(arguments)
    parameters = Parameters(pmax=options.pmax)
    print("| flows | fair from, ms | queue then, KB | fixed point, KB | of packets marked |\n|---|---|---|---|---|")
    for count in map(int, options.flows.split(",")):
        unlike = [options.rate * 2 * (place + 0.5) / count**2 for place in range(count)]
        course = solve(options.rate, first_state(unlike), options.seconds, parameters)
        settled, fixed = course.time_s > options.seconds / 2, fixed_point(options.rate, count, parameters)
        fair_ms, queue_kb = course.converged_s(options.rate) * 1e3, course.queue_bytes[settled].mean() / 1e3
        fixed_kb = fixed.state.queue_bytes / 1e3
        print(f"| {count} | {fair_ms:.1f} | {queue_kb:.1f} | {fixed_kb:.1f} | {fixed.marked:.2%} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
