"""Random points, by a seed: made-up models, the papers' strategies and their baselines, both fabrics, 10 to 100 Gbit/s; and small
transformers by today's strategies, on hosts of one or two workers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from gradwire.faults import InputFault
from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.strategy_registry import BUILT_IN

TODAYS = ("ddp", "fsdp", "megatron", "zero1", "zero2")
"""Drawn from numbers of their own, so that the other points of a seed stay the same."""

MOST_BYTES = 600e6
"""That a point sends in an iteration, so that it takes seconds and not minutes."""
RATES = ("10gbit", "25gbit", "40gbit", "100gbit")
WORKERS = (2, 4, 8)


def random_points(seed: int, wanted: int, todays_every: int = 0) -> Iterator[Point]:
    """Yields points that compile, each drawn from its own number, so that more of them begin with the same.

    todays_every: every so many-th is by one of TODAYS; 0: none is.
    """
    papers, todays = compiling(f"{seed}", random_document), compiling(f"{seed}/today", random_transformer)
    for number in range(1, wanted + 1):
        yield next(todays if todays_every and number % todays_every == 0 else papers)


def compiling(seed: str, draw: Callable[[random.Random], dict[str, Any]]) -> Iterator[Point]:
    """Yields points of drawn scenarios that compile and send no more than MOST_BYTES."""
    for number in count(1):
        document = draw(random.Random(f"{seed}/{number}"))
        try:
            (point,) = resolve(document, f"random point {seed}/{number}", f"random-{seed}-{number}").points
            plans = compile_point(point.section).plans.values()
        except InputFault:
            continue  # a strategy that does not suit the cluster
        if any(plan.ops.size_bytes[plan.is_remote()].sum() > MOST_BYTES or len(plan.ops) > 60_000 for plan in plans):
            continue
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
    fabric = _fabric(draw)
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
        "strategy": {"name": draw.choice(sorted(BUILT_IN.keys() - set(TODAYS)))},
        "costs": costs,
        "run": {"iterations": 5, "seed": draw.randint(1, 1000)},
    }


def random_transformer(draw: random.Random) -> dict[str, Any]:
    """A scenario of one point, by one of today's strategies."""
    width, blocks, tokens = draw.choice((128, 256, 512)), draw.choice((2, 4)), draw.choice((64, 128))
    workers, per_host = draw.choice(WORKERS), draw.choice((1, 1, 2))
    name = draw.choice(TODAYS)
    costs: dict[str, Any] = {"local_rate": {"value": f"{_log(draw, 20, 400):.1f}GB/s", "source": "random"}}
    if draw.random() < 0.3:
        costs["message_latency"] = {"value": f"{_log(draw, 1, 20):.1f}us", "source": "random"}
    return {
        "title": "a random point",
        "cluster": {"workers": workers, "workers_per_host": per_host},
        "fabric": _fabric(draw),
        "defined": {"models": {"small": _transformer(width, blocks, tokens)}},
        "model": {
            "name": "small",
            "device": "a100",
            "iteration_time": f"{_log(draw, 2_000, 60_000):.1f}us",
            "iteration_time_source": "random",
        },
        "strategy": {"name": name, "options": _megatron(draw, workers) if name == "megatron" else {}},
        "costs": costs,
        "run": {"iterations": 5, "seed": draw.randint(1, 1000)},
    }


def _megatron(draw: random.Random, workers: int) -> dict[str, Any]:
    """Ways to divide a model of two or four blocks and a batch of eight."""
    tensor = draw.choice([each for each in (1, 2, 4) if each <= workers])
    stages = draw.choice([each for each in (1, 2) if tensor * each <= workers])
    return {
        "tensor": tensor,
        "stages": stages,
        "microbatches": draw.choice((1, 2, 4)) if stages > 1 else 1,
        "sequence_parallel": tensor > 1 and draw.random() < 0.5,
        "sharded_optimizer": draw.random() < 0.5,
        "overlap_gradients": draw.random() < 0.5,
    }


def _transformer(width: int, blocks: int, tokens: int) -> dict[str, Any]:
    """A model as `[defined.models]` has it. Products are counted as multiply-adds for a sample of so many tokens."""
    product = f"{tokens * width * width / 1e6:.3f} MMAC"
    words = 16 * width
    layers: list[dict[str, Any]] = [
        {"name": "embedding", "kind": "embedding", "tensors": {"words": [words, width]}, "flops": "1 kFLOP"}
    ]
    for block in range(1, blocks + 1):
        attention, ffn, square = f"block{block}/attention", f"block{block}/ffn", [width, width]
        layers += [
            {
                "name": f"{attention}/qkv",
                "kind": "attention",
                "tensors": {"query": square, "key": square, "value": square},
                "flops": product,
            },
            {"name": f"{attention}/attend", "kind": "attention", "flops": product},
            {"name": f"{attention}/proj", "kind": "attention", "tensors": {"weights": square}, "flops": product},
            {"name": f"{attention}/add", "flops": f"{tokens * width} FLOP"},
            {"name": f"{ffn}/up", "kind": "fc", "tensors": {"weights": [width, 4 * width]}, "flops": product},
            {"name": f"{ffn}/down", "kind": "fc", "tensors": {"weights": [4 * width, width]}, "flops": product},
            {"name": f"{ffn}/add", "flops": f"{tokens * width} FLOP"},
        ]
    layers.append({"name": "output", "kind": "fc", "tensors": {"words": [width, words]}, "flops": product})
    return {"batch": 8, "source": "random", "layers": layers}


def _fabric(draw: random.Random) -> dict[str, Any]:
    fabric: dict[str, Any] = {"rate": draw.choice(RATES)}
    if draw.random() < 0.3:
        fabric |= {"topology": "leaf-spine", "leaves": 2, "spines": 2, "oversubscription": draw.choice((1.0, 2.0))}
    return fabric


def _log(draw: random.Random, least: float, most: float) -> float:
    return float(least * (most / least) ** draw.random())
