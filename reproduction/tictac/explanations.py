"""Why some of TicTac's claims differ, from logs.

Each bound function reads the numbers that the function named after its argument argues from
(reproduction/scoring/explanations.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from reproduction.scoring.evidence import Points
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, printed_number
from reproduction.scoring.shapes import SLACK
from reproduction.tictac.claims import (
    BASELINE,
    fig13_gains,
    gain,
    gains_by_workers,
    halves,
    loads_s,
    models_of,
)
from reproduction.tictac.schedules import best_step_s, samples, straggler_by, worst_step_s

_printed = partial(printed_number, "tictac")


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
        "with TIC, on average over the slowest draw of each point. Every GPU here takes exactly the time of its profile. "
        "The paper's stragglers have two causes, orders and 'system-level performance variations' (Sec. 6.3); only the "
        "first one is emulated, and TIC removes it whole. An order alone costs a worker at most the shorter of its "
        "communication M and its computation C, of an iteration of M + C: half, where workers share the network fairly, "
        "as they do here."
    )


@dataclass(frozen=True)
class Straggling:
    """A model, the share of an iteration that stragglers cost it without an order, and the share that an order can cost
    at most: the shorter one of communication and computation, of both together. Means over workloads and workers."""

    model: str
    layers: int
    share: float
    most: float


@explains("tictac-fig11", "bigger-more")
def _bigger_models(points: Points, _: Claim) -> Explanation:
    before = straggler_by(points, BASELINE)
    straggling = []
    for model in models_of(points):
        shares, most = [], []
        for (name, workload, workers), share in before.items():
            if name == model:
                loads = loads_s(points.point(order="tic", model=model, workload=workload, workers=workers))
                shares.append(share)
                most.append(min(loads) / sum(loads))
        layers = len(points.model(model=model).layer_names)
        straggling.append(Straggling(model, layers, float(np.mean(shares)), float(np.mean(most))))
    return Explanation("Who straggles most has as much to transfer as to compute", as_much_as_can_be(straggling))


FOLLOWS = 0.8
"""Correlation from which on one quantity is said to follow another."""


def as_much_as_can_be(straggling: list[Straggling]) -> str:
    """What stragglers cost follows what an order can cost at most, whatever the number of layers."""
    by_most = float(np.corrcoef([m.share for m in straggling], [m.most for m in straggling])[0, 1])
    by_layers = float(np.corrcoef([m.share for m in straggling], [m.layers for m in straggling])[0, 1])
    premise(
        by_most >= FOLLOWS and by_layers < FOLLOWS,
        f"the cost of stragglers to follow the most that an order can cost (correlation of {FOLLOWS:g} or more), and "
        "not the number of layers",
        f"correlation {by_most:.2f} and {by_layers:.2f}",
    )
    first, second, *_ = sorted(straggling, key=lambda model: -model.share)
    return (
        f"Stragglers cost {first.model} ({first.layers} layers) {first.share:.1%} and {second.model} ({second.layers} "
        f"layers) {second.share:.1%} of an iteration without order, the most of all. An order costs a worker at most "
        "the shorter one of communication and computation, and what stragglers cost follows that share of an iteration "
        f"(correlation {by_most:.2f}) instead of the number of layers ({by_layers:.2f}). What grows with the number of "
        "ops in TensorFlow, its scheduling of them, is not emulated."
    )


@explains("tictac-fig12", "p95-baseline", "variance")
def _steps_without_order(points: Points, _: Claim) -> Explanation:
    (_free_e, free_s), (_tac_e, tac_s) = samples(points).values()
    upper_s = worst_step_s(points)
    return Explanation(
        "Inception v2's orders are more random in the paper than VGG-16's",
        more_random_than_counted(
            float((free_s <= tac_s.mean() * (1 + SLACK)).mean()),
            best_step_s(samples(points)) / float(np.percentile(free_s, 95)),
            best_step_s(samples(points)) / upper_s,
        ),
    )


HIDES_NOTHING = 0.05
"""How far above the speed of a step that hides nothing a speed may be and still be near it."""


def more_random_than_counted(unharmed: float, slow: float, slowest: float) -> str:
    """The share of steps without order that take TAC's time, the speed that 95 % of them reach, and that of a step that
    hides nothing of the shorter one of communication and computation."""
    printed = _printed("tictac-fig12", "p95-baseline")
    premise(
        unharmed > 0 and slow > printed,
        "steps without order that take TAC's time, and slow ones faster than the printed ones",
        f"{unharmed:.0%} of the steps, and {slow:.3f} of the best speed",
    )
    premise(
        abs(printed / slowest - 1) <= HIDES_NOTHING,
        "the paper's slow steps to hide nearly nothing",
        f"{printed:.3f} of the best speed, where a step that hides nothing has {slowest:.3f}",
    )
    return (
        f"Without order, {unharmed:.0%} of the steps take TAC's time here, because the tensors that are late in them are "
        f"not waited for or there are none. One step in 20 is slower than {slow:.3f} of the best speed. In the paper it "
        f"is {printed:.3f}, nearly as slow as a step that hides nothing ({slowest:.3f}), so more of Inception v2's "
        "tensors are late there than the share that is fitted to VGG-16's count of orders. One share for all models "
        "cannot be right for both."
    )


@explains("tictac-fig13", "tic-close", "order")
def _no_order_helps(points: Points, _: Claim) -> Explanation:
    gains = fig13_gains(points)
    (model, workload), pair = min(gains.items(), key=lambda item: item[1]["tic"])
    communication_s, computation_s = loads_s(points.point(order="tic", model=model, workload=workload))
    times_s = [row.iteration_time_s for row in points.unpooled(order=BASELINE, model=model, workload=workload)]
    others = [value["tic"] for at, value in gains.items() if at != (model, workload)]
    return Explanation(
        "A link that is busy from the first byte to the last",
        busy_link(
            f"{model} in {workload}", communication_s / computation_s, max(times_s) / min(times_s), pair["tic"], others
        ),
    )


def busy_link(what: str, ratio: float, spread: float, gain_of_it: float, other_gains: list[float]) -> str:
    """One model's iterations take the same time whatever the order, since its communication far exceeds its computation;
    all others gain."""
    premise(
        ratio > FAR_EXCEEDS and spread < 1 + SLACK and gain_of_it < 1 + SLACK,
        f"{what} to communicate more than {FAR_EXCEEDS:g} times as long as it computes, and to take the same time in "
        "each draw",
        f"{ratio:.1f} times, draws that differ by {spread - 1:.1%}, gain {gain_of_it - 1:.1%}",
    )
    premise(
        min(other_gains) > 1 + SLACK,
        f"all others to gain more than {SLACK:.0%}",
        f"{min(other_gains) - 1:.1%}",
    )
    return (
        f"{what} communicates {ratio:.1f} times as long as it computes, and gains nothing: the draws differ by "
        f"{spread - 1:.2%}. A worker whose tensors are late pushes its gradients later, but the others push theirs "
        "meanwhile, and the server's link stays busy. Only if all workers were late would it be idle. All other models "
        f"and workloads gain {min(other_gains) - 1:.1%} or more."
    )
