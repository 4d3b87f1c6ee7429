"""Evidence for Geryon's evaluation: headline numbers, partition and slicing, growth, TicTac (Sec. V)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradwire.datatypes.plan import Combine
from reproduction.geryon.points import MODELS, SKEWED, SLICES, scheduling_ms
from reproduction.measuring import begin_ns, received_spans
from reproduction.pages.curves import draws
from reproduction.scoring.evidence import Measured, Points, measures, speedup
from reproduction.scoring.reference import Claim, Where
from reproduction.scoring.shapes import SLACK, VISIBLE, Series, decreasing, increasing, near_linear

IN_FULL = 0.8
"""Share of the added time from which on it shows "in full"."""


def _efficiencies(points: Points, strategy: str, models: Sequence[str]) -> list[float]:
    return [points.row(model=model, strategy=strategy, workers=8).scaling_efficiency for model in models]


@measures("geryon-abstract", "max-efficiency-10g", "vanilla-most-models", "partslice-around")
def _headline_efficiency(points: Points, claim: Claim) -> Measured:
    strategy = str(claim.where["strategy"])
    if claim.id == "max-efficiency-10g":
        return Measured(max(_efficiencies(points, strategy, MODELS)), detail="maximum over the four models")
    values = _efficiencies(points, strategy, SKEWED)
    if claim.id == "vanilla-most-models":
        return Measured(max(values), detail="maximum over all models but ResNet-50")
    return Measured(float(np.mean(values)), detail="mean over all models but ResNet-50")


@measures("geryon-abstract", "max-speedup-vs-vanilla", "max-speedup-vs-partslice")
@measures("geryon-table3", "max-gain-over-slicing")
def _headline_speedup(points: Points, claim: Claim) -> Measured:
    speedups = [speedup(points, {**claim.where, "model": model, "workers": 8}, claim.baseline) for model in MODELS]
    best = max(range(len(MODELS)), key=lambda index: speedups[index].value)
    return Measured(
        speedups[best].value, speedups[best].ci95, detail=f"maximum over the four models, at {MODELS[best]}"
    )


def _by_slice(points: Points) -> Series:
    """Throughput over the slicing threshold; 0 stands for no slices and is left out."""
    rows = points.rows(run="geryon-fig7", strategy="partition-slicing")
    sizes = [float(row.parameters["options"].rpartition("=")[2]) for row in rows]
    return sorted((size, row.throughput_per_s) for size, row in zip(sizes, rows, strict=True) if size)


@measures("geryon-fig7", "slicing")
def _slicing_gain(points: Points, _: Claim) -> Measured:
    base = points.row(strategy="partition-slicing", options="slice_parameters=0").throughput_per_s
    size, best = max(_by_slice(points), key=lambda pair: pair[1])
    return Measured(best / base, detail=f"at {size / 1024:g}K parameters")


@measures("geryon-fig7", "threshold-shape")
def _slicing_shape(points: Points, _: Claim) -> Measured:
    """The smallest slices lose visibly to the best; the threshold that the
    paper chooses is as good as the best, up to a tie."""
    series = _by_slice(points)
    best = max(y for _, y in series)
    text = ", ".join(f"{x / 1024:g}K: {y:.1f}" for x, y in series)
    holds = series[0][1] < (1 - VISIBLE) * best and dict(series)[SLICES[0]] >= (1 - SLACK) * best
    return Measured(f"images/s by threshold: {text}", holds=holds)


def _growth(points: Points, model: str) -> Series:
    """Throughput of Geryon by workers; one worker is a GPU alone."""
    facts = points.model(model=model)
    alone = facts.batch / (sum(facts.forward_s) + sum(facts.backward_s))
    rows = points.series("workers", model=model, strategy="geryon")
    return [(1, alone), *((n, row.throughput_per_s) for n, row in rows)]


@measures("geryon-fig8", "near-linear")
def _near_linear(points: Points, _: Claim) -> Measured:
    growth = {model: _growth(points, model) for model in MODELS}
    text = ", ".join(f"{model} {series[-1][1] / series[0][1]:.2f}x" for model, series in growth.items())
    return Measured(f"8 workers over 1: {text}", holds=all(near_linear(series) for series in growth.values()))


@measures("geryon-fig8", "resnet50-also")
def _resnet_gains(points: Points, _: Claim) -> Measured:
    where: Where = {"model": "resnet50", "strategy": "geryon", "workers": 8}
    gain = speedup(points, where, {"strategy": "vanilla"}).value
    efficiency = points.row(model="resnet50", strategy="vanilla", workers=8).scaling_efficiency
    assert isinstance(gain, float)
    return Measured(
        f"{gain:.3f}x over vanilla, which scales to {efficiency:.1%}", holds=gain > 1.02 and efficiency > 0.8
    )


@measures("geryon-table4", "slices-1024K", "slices-512K", "slices-256K")
def _slices(points: Points, claim: Claim) -> Measured:
    return Measured(float(len(points.plan(**claim.where).chunk_bytes)), detail="chunks of the compiled plan")


def _table4(points: Points, strategy: str) -> Series:
    """Throughput over the slicing threshold."""
    rows = points.rows(run="geryon-table4", strategy=strategy)
    of_size = {size: row for row in rows for size in SLICES if f"slice_parameters={size}" in row.parameters["options"]}
    return sorted((size, row.throughput_per_s) for size, row in of_size.items())


@measures("geryon-table4", "gap-grows")
def _gap_grows(points: Points, _: Claim) -> Measured:
    geryon, tictac = _table4(points, "geryon"), _table4(points, "tictac-slicing")
    gaps = [(size, ours / theirs) for (size, ours), (_, theirs) in zip(geryon, tictac, strict=True)]
    text = ", ".join(f"{size / 1024:g}K: {gap:.3f}x" for size, gap in reversed(gaps))
    both_fall = increasing(geryon) and increasing(tictac)
    ahead = all(gap > 1 for _, gap in gaps)
    fall = "both fall" if both_fall else "not both fall"
    return Measured(
        f"Geryon over TicTac {text}; {fall} with smaller slices", holds=ahead and decreasing(gaps) and both_fall
    )


@measures("geryon-table4", "bigger-nets")
def _bigger_nets(points: Points, _: Claim) -> Measured:
    """A gain, and a larger one with more hosts, and with more hosts and switches."""
    gaps: dict[tuple[str, int], float] = {}
    for row in points.rows(run="geryon-larger", strategy="geryon"):
        where = {key: row.parameters[key] for key in ("run", "fabric", "workers")}
        other = points.row(strategy="tictac-slicing", **where)
        shape = "leaf-spine" if "leaf-spine" in where["fabric"] else "one switch"
        gaps[shape, int(where["workers"])] = row.throughput_per_s / other.throughput_per_s
    text = ", ".join(f"{workers} hosts, {shape}: {gap:.3f}x" for (shape, workers), gap in gaps.items())
    by_hosts = [(hosts, gaps["one switch", hosts]) for hosts in (4, 16)]
    by_both = [(4, gaps["one switch", 4]), (16, gaps["leaf-spine", 16])]
    return Measured(text, holds=increasing(by_hosts) and increasing(by_both) and by_both[-1][1] > 1)


@measures("geryon-fig10", "pull-time")
def _pull_time(points: Points, _: Claim) -> Measured:
    point = points.point(run="geryon-fig10", scheduling_cost_per_slice="0ms")
    plan, log = point.plan(), point.log()
    spans = [
        int(received_spans(plan, log, worker, 1, Combine.COPY).end_ns.max()) - begin_ns(plan, log, worker, 1)
        for worker in plan.workers.tolist()
    ]
    return Measured(float(np.mean(spans)) / 1e6, detail="from the op logs, mean over workers")


@measures("geryon-fig10", "iteration-increase-256k")
def _increase(points: Points, _: Claim) -> Measured:
    series = _by_scheduling_time(points)
    return Measured(
        (series[-1][1] - series[0][1]) * 1e3, detail=f"with {series[-1][0]:.0f} ms of scheduling against none"
    )


def _by_scheduling_time(points: Points) -> Series:
    """Iteration time over the scheduling time of a channel's slices, in ms."""
    rows = points.rows(run="geryon-fig10")
    costs = [row.parameters["scheduling_cost_per_slice"] for row in rows]
    plans = [points.plan(run="geryon-fig10", scheduling_cost_per_slice=cost) for cost in costs]
    return sorted((scheduling_ms(plan), row.iteration_time_s) for plan, row in zip(plans, rows, strict=True))


@measures("geryon-fig10", "hidden-below-400ms")
def _hidden(points: Points, _: Claim) -> Measured:
    """Hidden: below 5 % of an iteration at 400 ms. In full: from 600 to
    800 ms at least 80 % of the added time shows."""
    series = _by_scheduling_time(points)
    base_s = series[0][1]
    below = max(time_s for ms, time_s in series if ms <= 420) - base_s
    (ms, time_s), (last_ms, last_s) = series[-2:]
    slope = (last_s - time_s) * 1e3 / (last_ms - ms)
    text = f"+{below * 1e3:.0f} ms up to 400 ms of scheduling; beyond, {slope:.2f} ms per added ms"
    return Measured(text, holds=below < 0.05 * base_s and slope >= IN_FULL)


@draws(
    "geryon-fig10",
    "Iteration time over TicTac's scheduling time",
    "scheduling time of an iteration (ms)",
    "iteration time (s)",
)
def _scheduling_curve(points: Points) -> Mapping[str, Series]:
    return {"tictac-slicing, 256K": _by_scheduling_time(points)}
