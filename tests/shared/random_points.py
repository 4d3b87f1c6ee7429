"""Random points, by a seed: made-up models, the papers' strategies and their baselines, both fabrics, 10 to 100 Gbit/s."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from gradwire.faults import InputFault
from gradwire.workloads.compilation import compile_point
from gradwire.workloads.registry.built_in import BUILT_IN
from gradwire.workloads.scenario.loading import Point, resolve

TIMED_BY_HAND = {"ddp", "fsdp", "megatron", "zero1", "zero2"}
"""Not drawn, so that the points of a seed stay the same: tests/end_to_end/strategies/ has these beside times worked out by hand."""

MOST_BYTES = 600e6
"""That a point sends in an iteration, so that it takes seconds and not minutes."""
RATES = ("10gbit", "25gbit", "40gbit", "100gbit")
WORKERS = (2, 4, 8)


def random_points(seed: int, wanted: int) -> Iterator[Point]:
    """Yields points that compile, each drawn from its own number, so that more of them begin with the same."""
    number = found = 0
    while found < wanted:
        number += 1
        document = random_document(random.Random(f"{seed}/{number}"))
        try:
            (point,) = resolve(document, f"random point {seed}/{number}", f"random-{seed}-{number}").points
            plans = compile_point(point.section).plans.values()
        except InputFault:
            continue  # a strategy that does not suit the cluster
        if any(plan.ops.size_bytes[plan.is_remote()].sum() > MOST_BYTES or len(plan.ops) > 60_000 for plan in plans):
            continue
        found += 1
        yield point


def random_document(draw: random.Random) -> dict[str, Any]:
    """A scenario of one point."""
    slow = draw.choice((1.0, 0.3, 0.1))
    layers = [
        {
            "name": f"layer{number}",
            "kind": draw.choice(("conv", "fc", "other")),
            "size": [f"{4 * round(_log(draw, 1e3, 2e7) / 4)}B" for _ in range(draw.choice((1, 1, 2)))],
            "forward": f"{slow * _log(draw, 50, 10_000):.1f}us",
            "backward": f"{slow * _log(draw, 100, 20_000):.1f}us",
        }
        for number in range(draw.randint(2, 12))
    ]
    fabric: dict[str, Any] = {"rate": draw.choice(RATES)}
    if draw.random() < 0.3:
        fabric |= {"topology": "leaf-spine", "leaves": 2, "spines": 2, "oversubscription": draw.choice((1.0, 2.0))}
    costs: dict[str, Any] = {}
    if draw.random() < 0.5:
        costs["aggregation_rate"] = {"value": f"{_log(draw, 1, 20):.3f}GB/s", "source": "random"}
    if draw.random() < 0.3:
        costs["message_latency"] = {"value": f"{_log(draw, 1, 50):.1f}us", "source": "random"}
    return {
        "title": "a random point",
        "cluster": {"workers": draw.choice(WORKERS)},
        "fabric": fabric,
        "model": {"name": "made-up", "layers": layers},
        "strategy": {"name": draw.choice(sorted(BUILT_IN.keys() - TIMED_BY_HAND))},
        "costs": costs,
        "run": {"iterations": 5, "seed": draw.randint(1, 1000)},
    }


def _log(draw: random.Random, least: float, most: float) -> float:
    return float(least * (most / least) ** draw.random())
