"""DCQCN's published algorithm packet by packet, without a network: how fair its shares are in a time that is not endless.

    python -m benchmarks.dcqcn_steps [--rate 39.15gbit] [--flows 2] [--seconds 1.03] [--from 0.03] [--seeds 4] [--spaced]

The fluid model (benchmarks/dcqcn_fluid.py) has no chance in it, and so perfect shares. Here each packet is marked by chance, and
flows begin at the line's rate, as in the emulation. `--spaced` has marks as Linux's RED makes them: equally likely numbers of
packets pass between two of them. Prints a row for each seed: shares over a fair one, the line's use and the queue; and then the
standard deviation of a share over all seeds, next to that of the model with chance (`noise`).
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.dcqcn_fluid import Parameters, noise
from gradwire.workloads.units import RATE

STEP_S = 0.5e-6
PACKET_BYTES = 4148.0
"""Payload at an MTU of 4200."""
HYPER_FACTOR = 5
"""R_HAI over R_AI, as in the kernel's patch."""


@dataclass
class Flow:
    """A reaction point."""

    rate: float
    target: float
    waiting_bytes: float
    alpha: float = 1.0
    cut_s: float = -1.0
    decayed_s: float = 0.0
    stepped_s: float = 0.0
    counted_bytes: float = 0.0
    by_time: int = 0
    by_bytes: int = 0
    has_cut: bool = False
    is_notified: bool = False
    sent_bytes: float = 0.0

    def pass_time(self, now_s: float, line: float, p: Parameters) -> None:
        """Does what timers and the counter ask for, and cuts the rate if a notification is due."""
        while self.has_cut and now_s - self.decayed_s >= p.decay_s:
            self.alpha *= 1 - p.gain
            self.decayed_s += p.decay_s
        while self.has_cut and now_s - self.stepped_s >= p.timer_s:
            self.by_time += 1
            self.stepped_s += p.timer_s
            self._step(line, p)
        while self.has_cut and self.counted_bytes >= p.counter_bytes:
            self.by_bytes += 1
            self.counted_bytes -= p.counter_bytes
            self._step(line, p)
        if self.is_notified and now_s - self.cut_s >= p.notification_s:
            self.target, self.rate = self.rate, self.rate * (1 - self.alpha / 2)
            self.alpha += p.gain * (1 - self.alpha)
            self.cut_s = self.decayed_s = self.stepped_s = now_s
            self.by_time = self.by_bytes = 0
            self.counted_bytes = 0.0
            self.has_cut, self.is_notified = True, False

    def _step(self, line: float, p: Parameters) -> None:
        most, least = max(self.by_time, self.by_bytes), min(self.by_time, self.by_bytes)
        if least > p.fast_steps:
            self.target += HYPER_FACTOR * p.increase_bps / 8 * (least - p.fast_steps)
        elif most > p.fast_steps:
            self.target += p.increase_bps / 8
        self.target = min(self.target, line)
        self.rate = (self.rate + self.target) / 2


@dataclass
class Marker:
    """RED, by chance or spaced."""

    parameters: Parameters
    chance: random.Random
    spaced: bool
    passed: int = -1
    drawn: float = 0.0

    def marks(self, queue_bytes: float) -> bool:
        """Whether a packet is marked that makes the queue so long."""
        share = self.parameters.marked(queue_bytes)
        if not self.spaced or share in (0.0, 1.0):
            self.passed = -1
            return share == 1.0 or (share > 0 and self.chance.random() < share)
        self.passed += 1
        if self.passed and share / 2 * self.passed < self.drawn:
            return False
        is_first = self.passed == 0
        self.passed, self.drawn = 0, self.chance.random()
        return not is_first


@dataclass
class Outcome:
    """What each flow sent after `from_s`, and the queue each millisecond."""

    sent_bytes: list[float] = field(default_factory=list)
    queue_bytes: list[float] = field(default_factory=list)


def simulate(line: float, flows: int, seconds: float, from_s: float, marker: Marker) -> Outcome:
    """Runs the algorithm. line: in bytes per second."""
    p, chance = marker.parameters, marker.chance
    points = [Flow(line, line, chance.random() * PACKET_BYTES) for _ in range(flows)]
    queue_bytes, echoes, outcome, before = 0.0, deque[tuple[float, Flow]](), Outcome(), [0.0] * flows
    for number in range(round(seconds / STEP_S)):
        now_s = number * STEP_S
        if number == round(from_s / STEP_S):
            before = [point.sent_bytes for point in points]
        # Whoever is always last in a step would always find the longer queue.
        first = chance.randrange(flows)
        for point in (*points[first:], *points[:first]):
            point.waiting_bytes += point.rate * STEP_S
            while point.waiting_bytes >= PACKET_BYTES:
                point.waiting_bytes -= PACKET_BYTES
                point.sent_bytes += PACKET_BYTES
                point.counted_bytes += PACKET_BYTES
                queue_bytes += PACKET_BYTES
                if marker.marks(queue_bytes):
                    echoes.append((now_s + queue_bytes / line, point))
        queue_bytes = max(0.0, queue_bytes - line * STEP_S)
        while echoes and echoes[0][0] <= now_s:
            echoes.popleft()[1].is_notified = True
        for point in points:
            point.pass_time(now_s, line, p)
        if now_s >= from_s and number % round(1e-3 / STEP_S) == 0:
            outcome.queue_bytes.append(queue_bytes)
    outcome.sent_bytes = [point.sent_bytes - was for point, was in zip(points, before, strict=True)]
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="39.15gbit", type=RATE.parse, help="of payload")
    parser.add_argument("--flows", default=2, type=int)
    parser.add_argument("--seconds", default=1.03, type=float)
    parser.add_argument("--from", default=0.03, type=float, dest="from_s")
    parser.add_argument("--seeds", default=4, type=int)
    parser.add_argument("--spaced", action="store_true")
    options = parser.parse_args(arguments)
    line = options.rate / 8
    off: list[float] = []
    for seed in range(options.seeds):
        marker = Marker(Parameters(packet_bytes=PACKET_BYTES), random.Random(seed), options.spaced)
        found = simulate(line, options.flows, options.seconds, options.from_s, marker)
        total = sum(found.sent_bytes)
        fair = [each * options.flows / total for each in found.sent_bytes]
        off.extend((share - 1) ** 2 for share in fair)
        shares = " ".join(f"{share:.3f}" for share in fair)
        used = total / line / (options.seconds - options.from_s)
        queue_kb = sum(found.queue_bytes) / len(found.queue_bytes) / 1e3
        print(f"seed {seed}: shares {shares}; {used:.1%} of the line; queue {queue_kb:.1f} KB", flush=True)
    deviation = math.sqrt(sum(off) / len(off))
    modelled = noise(options.rate, options.flows, Parameters(packet_bytes=PACKET_BYTES)).deviation(
        options.seconds - options.from_s
    )
    print(f"standard deviation of a share: {deviation:.4f}; by the model with chance {modelled:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
