"""DCQCN's fluid model (Zhu et al., SIGCOMM 2015, section 5.1, equations 5 to 9): rates and the queue over time.

    python -m benchmarks.dcqcn_fluid [--rate 40gbit] [--flows 2,4,8]

It is what `benchmarks/dcqcn.py` holds the emulation against, and shares nothing with it but the parameters. Flows begin
with unlike rates that fill the line (1:3 of two, 1:3:5:7 of four), and the model says from when on all of them stay within
5 % of a fair share.
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
LEAST_MARKED = 1e-9
"""Below it nothing is marked, and above 1 minus this everything."""
LEAST_SHARE = 1e4
"""Of the line: a flow's least rate is the line's over this."""
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
    if marked < LEAST_MARKED:
        return 1 / packets
    unmarked = np.exp(packets * np.log1p(-min(marked, 1 - LEAST_MARKED)))
    return marked * unmarked / (1 - unmarked)


def solve(rate_bps: float, first_bps: Sequence[float], duration_s: float, parameters: Parameters) -> Course:
    """Integrates the equations, from an empty queue, an alpha of 1, and each flow's rate in `first_bps` on."""
    p, steps = parameters, round(duration_s / STEP_S)
    line = rate_bps / 8 / p.packet_bytes
    count, late = len(first_bps), max(1, round(p.delay_s / STEP_S))
    queue, alpha = 0.0, np.ones(count)
    current = np.array(first_bps, dtype=np.float64) / 8 / p.packet_bytes
    target = current.copy()
    queues, rates, marks = np.zeros(steps), np.tile(current, (steps, 1)), np.zeros(steps)
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
    return Course(np.arange(steps) * STEP_S, queues, rates * p.packet_bytes * 8)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each number of flows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="40gbit", type=RATE.parse)
    parser.add_argument("--flows", default="2,4,8")
    parser.add_argument("--seconds", default=0.1, type=float)
    options = parser.parse_args(arguments)
    print("| flows | fair from, ms | queue then, KB |\n|---|---|---|")
    for count in map(int, options.flows.split(",")):
        unlike = [options.rate * 2 * (place + 0.5) / count**2 for place in range(count)]
        course = solve(options.rate, unlike, options.seconds, Parameters())
        settled = course.time_s > options.seconds / 2
        fair_ms, queue_kb = course.converged_s(options.rate) * 1e3, course.queue_bytes[settled].mean() / 1e3
        print(f"| {count} | {fair_ms:.1f} | {queue_kb:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
