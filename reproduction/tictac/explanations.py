"""Why some of TicTac's claims differ, from logs.

Each bound function reads the numbers that the function named after its argument argues from
(reproduction/scoring/explanations.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from reproduction.scoring.evidence import Points
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, printed_fact, printed_number
from reproduction.scoring.shapes import SLACK
from reproduction.tictac.claims import (
    BASELINE,
    efficiency_of,
    gain,
    gains_by_workers,
    halves,
    loads_s,
    models_of,
)
from reproduction.tictac.schedules import straggler_by

_printed = partial(printed_number, "tictac")


@explains("tictac-abstract", "inference-max", "training-max")
@explains("tictac-fig7", "max")
def _largest_gain(points: Points, claim: Claim) -> Explanation:
    gains = gains_by_workers(points, claim)
    model, workload, workers = max(gains, key=gains.__getitem__)
    at: dict[str, str | int] = {"model": model, "workload": workload, "workers": workers}
    assert isinstance(claim.printed, float)
    workload_name = f"{model} with {workers} workers"
    communication_s, computation_s = loads_s(points.point(order="tic", **at))
    efficiency = {order: efficiency_of(points.point(order=order, **at)) for order in ("tic", BASELINE)}
    argument = orders_too_random(workload_name, efficiency, gains[model, workload, workers] / claim.printed)
    seen = (
        f"{workload_name} communicates for {communication_s:.2f} s and computes for {computation_s:.2f} s: E = "
        f"{efficiency['tic']:.2f} in a good order and {efficiency[BASELINE]:.2f} in a random one."
    )
    return Explanation("Random orders are worse here than TensorFlow's", argument, seen)


HIDES_MOST, HIDES_LITTLE = 0.9, 0.6
"""Scheduling efficiencies of an order that hides most of what can be hidden, and of one that hides little of it."""


def orders_too_random(workload_name: str, efficiency: Mapping[str, float], gain_over_printed: float) -> str:
    """The baseline's orders are worse here than TensorFlow's."""
    tic, random = efficiency["tic"], efficiency[BASELINE]
    premise(
        gain_over_printed > 1,
        "a gain above the printed one",
        f"{gain_over_printed:.2f} of it",
    )
    premise(
        tic >= HIDES_MOST and random <= HIDES_LITTLE,
        f"TIC to hide most (E of {HIDES_MOST:g} or more), and a random order little (E of {HIDES_LITTLE:g} or less)",
        f"{workload_name}: E = {tic:.2f} and {random:.2f}",
    )
    iterations, orders = printed_fact("tictac", "counted-iterations"), _printed("tictac-sec22-order", "vgg16")
    return (
        "A good order hides most of the shorter one of communication and computation, and a random one little. The "
        "orders are uniformly random here, another at each worker, and the slowest worker ends the iteration. "
        f"TensorFlow's are less random: in {iterations:g} iterations of VGG-16 the paper counts only {orders:g} "
        "orders (Sec. 2.2). How much less, and envG's bandwidth, it does not say."
    )


@explains("tictac-fig7", "min")
def _smallest_gain(points: Points, claim: Claim) -> Explanation:
    return Explanation(
        "Keeping an order costs nothing here", order_is_free(list(gains_by_workers(points, claim).values()))
    )


def order_is_free(gains: list[float]) -> str:
    """Nothing is slower with an order, as keeping it costs nothing here."""
    slower = sum(value < 1 for value in gains)
    premise(
        min(gains) >= 1 - SLACK,
        f"no point to be slower with TIC by more than {SLACK:.0%}",
        f"{slower} of {len(gains)} are slower, by up to {1 - min(gains):.1%}",
    )
    return (
        f"{slower} of {len(gains)} points are slower with TIC: servers here keep the order at no cost. The paper "
        "blames its slow-down on the overhead of scheduling, for which it gives no number."
    )


@dataclass(frozen=True)
class Load:
    """A model's communication over its computation, and what it gains from an order."""

    model: str
    ratio: float
    gain: float


@explains("tictac-fig9", "larger-nets")
def _larger_nets(points: Points, _: Claim) -> Explanation:
    """In inference with one server, where communication and computation are furthest apart."""
    loads = []
    for model in models_of(points):
        at: dict[str, str | int] = {"model": model, "workload": "inference", "servers": 1}
        point = points.point(order="tic", **at)
        communication_s, computation_s = loads_s(point)
        loads.append(Load(model, communication_s / computation_s, gain(points, "tic", **at)))
    return Explanation(
        "The largest models communicate for so long that no order helps",
        beyond_the_threshold(loads, point.fabric.rate_bps / 1e9),
    )


FAR_EXCEEDS = 2.0
"""Communication over computation from which on the one far exceeds the other."""


def beyond_the_threshold(loads: list[Load], rate_gbps: float) -> str:
    """The largest models, which come last in `loads`, communicate for so long that an order hides little of it."""
    shown = ", ".join(f"{load.model} {load.gain - 1:.0%} at {load.ratio:.1f}" for load in loads)
    best = max(load.gain for load in loads) - 1
    _, larger = halves([load.model for load in loads])
    beyond = [load for load in loads if load.model in larger and load.ratio > FAR_EXCEEDS]
    premise(
        beyond and all(load.gain - 1 < best / 2 for load in beyond),
        f"larger models whose communication is over {FAR_EXCEEDS:g} times their computation, with less than half of "
        "the best gain",
        shown,
    )
    return (
        f"Gain at communication over computation, inference with one server: {shown}. The largest models are beyond "
        "the threshold of Sec. 6.1, where communication far exceeds computation and no order helps. Where that is "
        f"depends on envG's bandwidth, which is not printed ({rate_gbps:g} Gbit/s assumed)."
    )


@explains("tictac-abstract", "straggler-max")
@explains("tictac-fig11", "straggler-reduction", "straggler-baseline")
def _stragglers(points: Points, _: Claim) -> Explanation:
    before, after = (list(straggler_by(points, order).values()) for order in (BASELINE, "tic"))
    return Explanation(
        "Every GPU takes exactly the time of its profile",
        equal_machines(float(np.mean(before)), max(before), float(np.mean(after))),
    )


def equal_machines(mean_before: float, largest_before: float, mean_after: float) -> str:
    """Shares of an iteration that workers wait for the slowest one, without an order and with one."""
    premise(
        mean_after < mean_before / 10,
        "TIC to remove nearly all of the waiting, as orders are its only cause here",
        f"{mean_before:.1%} without order and {mean_after:.2%} with TIC",
    )
    premise(
        largest_before <= 0.5,
        "workers to wait for at most half of an iteration, which is all that orders can cost",
        f"{largest_before:.1%}",
    )
    return (
        f"Workers wait for the slowest for {mean_before:.1%} of an iteration without order and for {mean_after:.2%} "
        "with TIC, on average. Every GPU here takes exactly the time of its profile. The paper's stragglers have two "
        "causes, orders and 'system-level performance variations' (Sec. 6.3); only the first one is emulated, and "
        "TIC removes it whole. An order alone costs a worker at most the shorter of its communication M and its "
        "computation C, of an iteration of M + C: half, where workers share the network fairly, as they do here."
    )


@dataclass(frozen=True)
class Straggling:
    """A model, the share of an iteration that stragglers cost it without
    an order, and the share of its largest tensor."""

    model: str
    layers: int
    share: float
    largest_tensor: float


@explains("tictac-fig11", "bigger-more")
def _bigger_models(points: Points, _: Claim) -> Explanation:
    before = straggler_by(points, BASELINE)
    straggling = []
    for model in models_of(points):
        facts = points.model(model=model)
        share = float(np.mean([value for at, value in before.items() if at[0] == model]))
        largest = max(facts.tensor_parameters) / facts.parameters
        straggling.append(Straggling(model, len(facts.layer_names), share, largest))
    return Explanation("In models of few layers, one tensor holds most of the bytes", few_large_tensors(straggling))


def few_large_tensors(straggling: list[Straggling]) -> str:
    """The two models that stragglers cost most are among those with few layers, and one tensor holds most of each."""
    first, second, *_ = sorted(straggling, key=lambda model: -model.share)
    few, _ = halves(sorted(straggling, key=lambda model: model.layers))
    premise(
        all(model in few and model.largest_tensor > 0.5 for model in (first, second)),
        "the models that straggle most to have few layers, and one tensor with most of the bytes",
        "; ".join(f"{m.model}: {m.layers} layers, the largest tensor {m.largest_tensor:.0%}" for m in (first, second)),
    )
    return (
        f"Stragglers cost {first.model} ({first.layers} layers) {first.share:.1%} and {second.model} ({second.layers} "
        f"layers) {second.share:.1%} of an iteration without order, the most of all. In models of few layers one "
        "tensor holds most of the bytes, and whether it comes early or late at a worker decides when that worker can "
        "continue; many small tensors average out. What grows with the number of ops in TensorFlow, its scheduling of "
        "them, is not emulated."
    )
