"""DCQCN's fluid model (Zhu et al., SIGCOMM 2015, section 5.1, equations 5 to 9): rates and the queue over time.

    python -m benchmarks.dcqcn_fluid [--rate 40gbit] [--flows 2,4,8]

It is what `benchmarks/dcqcn.py` holds the emulation against, and shares nothing with it but the parameters. Flows begin at
the line's rate, one after the other, and the model says when the last of them has its fair share.
"""

from __future__ import annotations

import argparse
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
FAIR = 0.05
"""How close to its share a flow has to stay."""


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
class Course:
    """What the model says, a row for each step."""

    time_s: Floats
    queue_bytes: Floats
    #: A column for each flow.
    rates_bps: Floats

    def converged_s(self, rate_bps: float) -> float:
        """From when on every flow stays within FAIR of its share; infinite if it does not come to that."""
        share_bps = rate_bps / self.rates_bps.shape[1]
        off = np.flatnonzero((np.abs(self.rates_bps - share_bps) > FAIR * share_bps).any(axis=1))
        if not len(off):
            return 0.0
        return float(self.time_s[off[-1] + 1]) if off[-1] + 1 < len(self.time_s) else np.inf


def _per_event(marked: float, packets: Floats) -> Floats:
    """Events of increase per packet: p / ((1 - p)^-n - 1), which is 1 / n without marks."""
    if marked < 1e-9:
        return 1 / packets
    return marked / np.expm1(-packets * np.log1p(-min(marked, 1 - 1e-9)))


def solve(rate_bps: float, starts_s: Sequence[float], duration_s: float, parameters: Parameters) -> Course:
    """Integrates the equations. starts_s: when each flow begins, at the line's rate and with an alpha of 1."""
    p, steps = parameters, round(duration_s / STEP_S)
    line = rate_bps / 8 / p.packet_bytes
    count, late = len(starts_s), max(1, round(p.delay_s / STEP_S))
    begun = np.array(starts_s)
    queue, alpha = 0.0, np.ones(count)
    current, target = np.full(count, line), np.full(count, line)
    queues, rates, marks = np.zeros(steps), np.zeros((steps, count)), np.zeros(steps)
    counter, increase = p.counter_bytes / p.packet_bytes, p.increase_bps / 8 / p.packet_bytes
    for step in range(steps):
        active = begun <= step * STEP_S
        before = max(0, step - late)
        marked, past = marks[before], np.where(rates[before] > 0, rates[before], line)
        unmarked = np.log1p(-min(marked, 1 - 1e-9))
        notified = -np.expm1(unmarked * p.notification_s * past)
        by_bytes = past * _per_event(marked, np.full(count, counter))
        by_time = past * _per_event(marked, p.timer_s * past)
        gap = target - current
        kept_bytes = np.exp(unmarked * p.fast_steps * counter)
        kept_time = np.exp(unmarked * p.fast_steps * p.timer_s * past)
        alpha_change = p.gain / p.decay_s * (-np.expm1(unmarked * p.decay_s * past) - alpha)
        target_change = -gap / p.notification_s * notified + increase * (by_bytes * kept_bytes + by_time * kept_time)
        current_change = -current * alpha / (2 * p.notification_s) * notified + gap / 2 * (by_bytes + by_time)
        alpha = np.where(active, alpha + STEP_S * alpha_change, alpha)
        target = np.where(active, np.clip(target + STEP_S * target_change, 0, line), target)
        current = np.where(active, np.clip(current + STEP_S * current_change, line / 1e4, line), current)
        sent = np.where(active, current, 0.0)
        queue = max(0.0, queue + STEP_S * (float(sent.sum()) - line) * p.packet_bytes)
        queues[step], rates[step], marks[step] = queue, sent, p.marked(queue)
    return Course(np.arange(steps) * STEP_S, queues, rates * p.packet_bytes * 8)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each number of flows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="40gbit", type=RATE.parse)
    parser.add_argument("--flows", default="2,4,8")
    parser.add_argument("--seconds", default=0.3, type=float)
    options = parser.parse_args(arguments)
    print("| flows | fair from, ms | queue then, KB | least and most of a share |\n|---|---|---|---|")
    for count in map(int, options.flows.split(",")):
        course = solve(options.rate, [0.0] + [1e-3] * (count - 1), options.seconds, Parameters())
        settled = course.time_s > options.seconds * 0.8
        shares = course.rates_bps[settled] * count / options.rate
        queue_kb = course.queue_bytes[settled].mean() / 1e3
        print(
            f"| {count} | {course.converged_s(options.rate) * 1e3:.1f} | {queue_kb:.1f} | {shares.min():.3f} {shares.max():.3f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
