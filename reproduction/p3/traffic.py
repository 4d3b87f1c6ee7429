"""Evidence for P3's figures of network utilisation (Figs. 8 and 9): how
one machine's link is used, in intervals of 10 ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.packets.capture_files import Bool
from gradwire.analysis.packets.line_use import BIN_S, Float64
from gradwire.datatypes.records import Int64
from reproduction.measuring import FROM_PACKETS, use_of_port
from reproduction.pages.curves import draws
from reproduction.scoring.evidence import Measured, PointEvidence, Points, measures
from reproduction.scoring.reference import Claim
from reproduction.scoring.shapes import VISIBLE, Series

IDLE_SHARE = 0.05
"""Share of the line rate below which a direction counts as idle in an interval."""
FULL_SHARE = 0.8


@dataclass(frozen=True)
class Traffic:
    """Shares of a machine's line rate by interval, over the measured iterations."""

    outbound: Float64
    inbound: Float64
    #: The iteration in which each interval begins.
    iteration: Int64

    @property
    def idle(self) -> Bool:
        """Intervals in which neither direction is busy."""
        quiet: Bool = np.maximum(self.outbound, self.inbound) < IDLE_SHARE
        return quiet

    @property
    def idle_ms(self) -> float:
        """Idle time of an iteration."""
        return float(self.idle.sum()) * BIN_S * 1e3 / len(np.unique(self.iteration))

    @property
    def overlap(self) -> float:
        """Share of the busy intervals in which both directions are busy."""
        both = np.minimum(self.outbound, self.inbound) >= IDLE_SHARE
        return float(both.sum() / (~self.idle).sum())

    @property
    def roughness(self) -> float:
        """Standard deviation of the outbound rate over its mean."""
        return float(self.outbound.std() / self.outbound.mean())

    def by_iteration(self, chosen: Bool) -> list[float]:
        """Share of each iteration's intervals that is chosen."""
        return [float(chosen[self.iteration == number].mean()) for number in np.unique(self.iteration)]


def traffic(point: PointEvidence, host: str = "h1") -> Traffic:
    """A host's traffic, from the packets that were captured at its port."""
    used, record = use_of_port(point, BIN_S, host), point.record()
    ends_s = iteration_ends_ns(point.plan(), point.log(), record.iterations)[record.warmup :] / 1e9
    iteration = np.searchsorted(ends_s, used.edges_s[:-1], side="right")
    return Traffic(used.outbound_bps / used.rate_bps, used.inbound_bps / used.rate_bps, iteration.astype(np.int64))


UTILISED_MODELS = {"resnet50": "p3-fig8a", "vgg19": "p3-fig8c", "sockeye": "p3-fig8d"}
"""The models of Figs. 8 and 9, by their runs."""
LENGTHS = "p3-sockeye-lengths"
"""Sockeye with workers that differ in time."""
IDLE_PART = 0.05
"""Smallest share of an iteration that can be seen to be idle."""


def _machine(points: Points, model: str, strategy: str) -> Traffic:
    return traffic(points.point(run=UTILISED_MODELS[model], model=model, strategy=strategy))


@measures("p3-fig8", "bursty")
def _bursty(points: Points, claim: Claim) -> Measured:
    """In every model the link is both idle and nearly full in a visible part of every iteration."""
    parts, holds = [], True
    for model in UTILISED_MODELS:
        seen = _machine(points, model, str(claim.where["strategy"]))
        idle = seen.by_iteration(seen.idle)
        full = seen.by_iteration(seen.outbound > FULL_SHARE)
        parts.append(f"{model} {np.mean(idle):.0%} idle, {np.mean(full):.0%} full")
        holds &= min(idle) >= IDLE_PART and min(full) >= IDLE_PART
    return Measured(f"share of 10 ms intervals: {'; '.join(parts)}", holds=holds, detail=FROM_PACKETS)


@measures("p3-fig8", "tf-bursty")
def _tensorflow_bursty(points: Points, claim: Claim) -> Measured:
    """The same pattern: idle and nearly full in a visible part of every iteration."""
    seen = traffic(points.point(**claim.where))
    idle, full = seen.by_iteration(seen.idle), seen.by_iteration(seen.outbound > FULL_SHARE)
    mean = float(seen.outbound.mean())
    text = f"{np.mean(idle):.0%} of the intervals idle, {np.mean(full):.0%} full; {mean:.0%} of the outbound bandwidth used"
    holds = min(idle) >= IDLE_PART and min(full) >= IDLE_PART and mean < FULL_SHARE
    return Measured(text, holds=holds, detail=FROM_PACKETS)


@measures("p3-fig8", "sockeye-no-bidir")
def _one_direction(points: Points, claim: Claim) -> Measured:
    """Not overlapped: in less than half of the busy intervals both directions are
    busy. Dominant: idle for longer than the others."""
    strategy = str(claim.where["strategy"])
    idle = {model: float(_machine(points, model, strategy).idle.mean()) for model in UTILISED_MODELS}
    overlap = _machine(points, "sockeye", strategy).overlap
    text = f"both directions busy in {overlap:.0%} of the busy intervals; idle {', '.join(f'{m} {i:.0%}' for m, i in idle.items())}"
    holds = overlap < 0.5 and max(idle, key=lambda model: idle[model]) == "sockeye"
    return Measured(text, holds=holds, detail=FROM_PACKETS)


@measures("p3-fig9", "less-idle")
def _less_idle(points: Points, _: Claim) -> Measured:
    """Considerably: at most half of the baseline's idle time in an iteration.
    Smoother: a smaller deviation, relative to the mean."""
    parts, holds = [], True
    for model in ("resnet50", "vgg19"):
        old, new = (_machine(points, model, strategy) for strategy in ("kvstore", "p3"))
        parts.append(
            f"{model}: idle {old.idle_ms:.0f} to {new.idle_ms:.0f} ms per iteration, used {old.outbound.mean():.0%} "
            f"to {new.outbound.mean():.0%}, deviation {old.roughness:.2f} to {new.roughness:.2f} of the mean"
        )
        holds &= new.idle_ms <= old.idle_ms / 2 and new.roughness < old.roughness
        holds &= bool(new.outbound.mean() > old.outbound.mean())
    return Measured("; ".join(parts), holds=holds, detail=f"10 ms intervals, {FROM_PACKETS}")


@measures("p3-fig9", "sockeye-bidir")
def _both_directions(points: Points, _: Claim) -> Measured:
    """Nearly always, and visibly more than with the baseline: P3
    'utilizes bidirectional bandwidth more effectively'."""
    overlap = {strategy: _machine(points, "sockeye", strategy).overlap for strategy in ("kvstore", "p3")}
    text = f"both directions busy in {overlap['p3']:.0%} of the busy intervals, baseline {overlap['kvstore']:.0%}"
    holds = overlap["p3"] > max(0.8, overlap["kvstore"] * (1 + VISIBLE))
    return Measured(text, holds=holds, detail=f"10 ms intervals, {FROM_PACKETS}")


def _directions(points: Points, run: str, strategy: str) -> Mapping[str, Series]:
    point = points.point(run=run, strategy=strategy)
    seen, gbit = traffic(point), point.fabric.rate_bps / 1e9
    return {
        name: [(number * BIN_S, float(share) * gbit) for number, share in enumerate(shares)]
        for name, shares in (("outbound", seen.outbound), ("inbound", seen.inbound))
    }


def _draw(scenario: str, title: str, run: str, strategy: str) -> None:
    """Binds one machine's traffic as a figure of a scenario."""
    draws(scenario, title, "time (s)", "Gbit/s", timelines=True)(lambda points: _directions(points, run, strategy))


_draw("p3-fig8", "Fig. 8: ResNet-50, baseline, at 4 Gbit/s", "p3-fig8a", "kvstore")
_draw("p3-fig8", "Fig. 8(b): ResNet-50, TensorFlow, at 4 Gbit/s", "p3-fig8b", "vanilla")
_draw("p3-fig8", "Fig. 8: VGG-19, baseline, at 15 Gbit/s", "p3-fig8c", "kvstore")
_draw("p3-fig8", "Fig. 8: Sockeye, baseline, at 10 Gbit/s", "p3-fig8d", "kvstore")
_draw("p3-fig9", "Fig. 9(a): ResNet-50, P3, at 4 Gbit/s", "p3-fig8a", "p3")
_draw("p3-fig9", "Fig. 9(b): VGG-19, P3, at 15 Gbit/s", "p3-fig8c", "p3")
_draw("p3-fig9", "Fig. 9(c): Sockeye, P3, at 10 Gbit/s", "p3-fig8d", "p3")
