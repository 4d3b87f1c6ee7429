"""NetOps' figures, drawn from several scenario files."""

from __future__ import annotations

from collections.abc import Mapping

from reproduction.netops.points import (
    AGGREGATION,
    BANDWIDTH,
    BASELINE,
    BOTH,
    BUTTERFLY,
    INCEPTION,
    MULTICAST,
    NAMES,
    RESNET_200,
    RING,
    RING_MULTICAST,
    VGG,
    WORKERS,
    faster,
    ratios,
    times,
    with_modules,
)
from reproduction.pages.curves import Curves, draws
from reproduction.scoring.evidence import Points
from reproduction.scoring.shapes import Series

SHORT = {
    AGGREGATION: "Aggregation",
    MULTICAST: "Multicast",
    BOTH: "Multicast + aggregation",
    RING: "Ring",
    RING_MULTICAST: "Ring + multicast",
    BUTTERFLY: "Butterfly",
}
GBIT = 1e9


def _drawn(by_strategy: Mapping[str, Series]) -> Mapping[str, Series]:
    return {SHORT[strategy]: series for strategy, series in by_strategy.items() if series}


def _over_bandwidth(model: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        by_strategy = {s: times(points, BANDWIDTH, "rate", model, s) for s in (RING, BOTH, BUTTERFLY)}
        return _drawn({s: [(rate / GBIT, seconds) for rate, seconds in series] for s, series in by_strategy.items()})

    return curves


def _over_workers(model: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        baseline = times(points, WORKERS, "workers", model, BASELINE)
        mechanisms = (RING, BOTH, RING_MULTICAST) if model == INCEPTION else (RING, BOTH)
        return _drawn({s: ratios(baseline, times(points, WORKERS, "workers", model, s)) for s in mechanisms})

    return curves


def _with_modules(kind: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        return _drawn({s: with_modules(points, kind, s) for s in (RING, BOTH, BUTTERFLY, MULTICAST, AGGREGATION)})

    return curves


def _faster(model: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        return _drawn({s: faster(points, model, s) for s in (RING, BOTH, BUTTERFLY)})

    return curves


SPEEDUP = "speed-up over one server"
for number, model in ((3, INCEPTION), (4, RESNET_200), (5, VGG)):
    draws(
        f"netops-fig{number}", f"Fig. {number}: {NAMES[model]}, 32 workers", "Gbit/s", "iteration time (s)", log_x=True
    )(_over_bandwidth(model))
for number, model in ((6, INCEPTION), (7, RESNET_200), (8, VGG)):
    draws(f"netops-fig{number}", f"Fig. {number}: {NAMES[model]}, 25 Gbit/s", "workers", SPEEDUP)(_over_workers(model))
for number, kind in ((9, "network"), (10, "compute")):
    draws(f"netops-fig{number}", f"Fig. {number}: Inception-v3 and {kind}-intensive modules", "modules added", SPEEDUP)(
        _with_modules(kind)
    )
for number, model in ((11, INCEPTION), (12, RESNET_200)):
    draws(f"netops-fig{number}", f"Fig. {number}: {NAMES[model]}, faster convolutions", "times the speed", SPEEDUP)(
        _faster(model)
    )
