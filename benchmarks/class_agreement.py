"""Whether estimates by classes of ranks are those of all ranks: random points, or all points of the shipped scenarios.

    .venv/bin/python benchmarks/class_agreement.py [--points 200] [--seed 1] [--shipped] [--papers] [--least N]

A random point is a strategy that has classes, with options, workers, machines, a network and costs that are drawn for
it; one that has no classes is drawn again. `--shipped` takes the points of all scenarios that come with gradwire, those
of the papers among them, however few workers they have; `--papers` takes those of the papers alone. Prints the largest
difference of any iteration, how many points were compared, and why others have no classes: those are estimated with all
ranks. Ends with status 1 if a difference is more than 1e-9, or if fewer than N points were compared.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.datatypes.class_plans import NotByClass
from gradwire.faults import InputFault
from gradwire.runs.compiling.by_class import classes_of
from gradwire.runs.compiling.ideal_times import fluid_times, rule_of
from gradwire.scenario.loading import load_scenario, scenario_of
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_plans
from gradwire.scenario.scenario_files import scenario_names, scenario_path

SAME = 1e-9
VISION = {"name": "vit-l16", "device": "v100", "blocks": 2}
MIXTURE = {"name": "mixtral-8x7b", "device": "h100", "blocks": 2}
DECODER = {"name": "llama3-8b", "device": "h100", "blocks": 2}
PAPERS = ("geryon-", "gradientflow-", "netops-", "p3-", "tictac-")
"""What the names of the papers' scenarios begin with."""
ONE_BY_ONE = {"concurrent": False, "forward_waits": "all"}


def main() -> None:
    """Compares, and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=200, help="random points that have classes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shipped", action="store_true", help="the points of all shipped scenarios instead")
    parser.add_argument("--papers", action="store_true", help="the points of the papers' scenarios instead")
    parser.add_argument("--least", type=int, default=1, help="points that have to be compared")
    asked = parser.parse_args()
    without: Counter[str] = Counter()
    largest, compared = 0.0, 0
    drawn = not (asked.shipped or asked.papers)
    for name, point in _random(random.Random(asked.seed)) if drawn else _shipped(PAPERS if asked.papers else ""):
        try:
            difference = _difference(point)
        except NotByClass as reason:
            without[str(reason)] += 1
            continue
        except InputFault as fault:
            # Drawn options that do not go together, or a strategy that cannot be compiled as asked.
            without[str(fault).partition(":")[0]] += 1
            continue
        compared += 1
        largest = max(largest, difference)
        if difference > SAME:
            print(f"{name}: {difference:.2g}", flush=True)
        if drawn and compared == asked.points:
            break
    print(
        f"{compared + without.total()} points: {compared} by both, largest difference {largest:.2g}; "
        f"{without.total()} without classes:"
    )
    for why, count in without.most_common():
        print(f"  {count}: {why}")
    sys.exit(largest > SAME or compared < asked.least)


def _difference(point: ResolvedPoint) -> float:
    """The largest difference of any iteration that both have, as a share. Raises NotByClass."""
    found = classes_of(point)
    rule = rule_of(point.unsent_bytes)
    (plan,) = compile_plans(point, replace(point.job, fabric=point.fabric)).values()
    by_class, of_all = found.times(rule), fluid_times(plan, point.fabric, rule)
    both = min(by_class.needed, of_all.needed)
    times_s = of_all.iterations_s[:both]
    return float(np.abs(by_class.iterations_s[:both] / times_s - 1).max())


def _shipped(of: str | tuple[str, ...]) -> Iterator[tuple[str, ResolvedPoint]]:
    for name in scenario_names():
        if not name.startswith(of):
            continue
        for point in load_scenario(scenario_path(Path(name))).points:
            yield name, point.resolved


def _random(draw: random.Random) -> Iterator[tuple[str, ResolvedPoint]]:
    while True:
        content = _content(draw)
        try:
            (point,) = scenario_of(content).points
            yield repr(content), point.resolved
        except InputFault:
            continue


def _content(draw: random.Random) -> dict[str, Any]:
    """A scenario of one point."""
    workers, per_host = draw.choice([4, 8, 16, 32]), draw.choice([1, 1, 2, 4])
    strategy, model, options = _strategy(draw)
    fabric: dict[str, Any] = {"rate": draw.choice(["1gbit", "10gbit", "100gbit"])}
    if draw.random() < 0.4:
        fabric |= {"topology": "leaf-spine", "leaves": 2, "spines": draw.choice([1, 2])}
        fabric |= {"oversubscription": draw.choice([1, 2, 4])}
    if draw.random() < 0.3:
        fabric["delay"] = draw.choice(["5us", "200us"])
    costs: dict[str, Any] = {"local_rate": {"value": "20GB/s", "source": "drawn"}}
    if draw.random() < 0.4:
        costs["message_latency"] = {"value": "20us", "source": "drawn"}
    nics = draw.choice([1, per_host])
    cluster = {"workers": workers, "workers_per_host": per_host, "nics_per_host": nics}
    send_ends = {"send_ends": draw.choice(["departure", "buffered"])}
    return {
        "title": "drawn",
        "cluster": cluster,
        "fabric": fabric,
        "model": model,
        "costs": costs if per_host > 1 else {key: costs[key] for key in costs if key != "local_rate"},
        "strategy": {"name": strategy, "options": options},
        "transport": send_ends,
    }


def _strategy(draw: random.Random) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A strategy, a model and options."""
    kind = draw.choice(["ring", "pairs", "trees", "sharded", "megatron", "megatron", "experts", "context"])
    if kind == "ring":
        name = draw.choice(["ddp", "ring", "layer-allreduce", "lazy-allreduce"])
        return name, VISION, ONE_BY_ONE if name == "ring" else {"overlap": draw.random() < 0.7}
    if kind == "pairs":
        name = draw.choice(["halving-doubling", "butterfly", "butterfly-mixing", "ddp", "fsdp"])
        options: dict[str, Any] = {"algorithm": "halving-doubling"} if name in ("ddp", "fsdp") else {}
        return name, VISION, options | ({"forward_waits": "all"} if name == "butterfly-mixing" else {})
    if kind == "trees":
        segments, concurrent = draw.choice([1, 1, 2]), draw.random() < 0.3
        return "double-tree", VISION, {"segments": segments, "concurrent": concurrent, "overlap": draw.random() < 0.7}
    if kind == "sharded":
        name = draw.choice(["fsdp", "zero1", "zero2"])
        return name, VISION, {"prefetch": draw.choice([0, 1, 3])} if name == "fsdp" else {}
    sharded = draw.random() < 0.5
    options = {
        "tensor": draw.choice([1, 2, 4]),
        "stages": draw.choice([1, 2]),
        "microbatches": 4,
        "replica_batch": 4,
        "sharded_optimizer": sharded,
        "overlap_gradients": sharded,
        "recompute": draw.choice(["none", "full"]),
    }
    if options["tensor"] > 1:
        options["sequence_parallel"] = draw.random() < 0.5
    if kind == "megatron":
        return "megatron", VISION, options
    options["experts" if kind == "experts" else "context"] = draw.choice([2, 4, 8])
    return "megatron", MIXTURE if kind == "experts" else DECODER, options


if __name__ == "__main__":
    main()
