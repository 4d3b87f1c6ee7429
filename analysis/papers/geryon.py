"""Evidence for Geryon's claims that are more than a point's own metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from analysis.papers.curves import draws
from analysis.papers.evidence import Measured, ModelFacts, Points, StoredPoint, measures
from analysis.papers.lookup import speedup
from analysis.papers.reference import Claim, Where
from analysis.papers.shapes import (
    Series,
    all_close,
    decreasing,
    increasing,
    interior_maximum,
    interior_minimum,
    near_linear,
    peak_x,
)
from analysis.papers.timelines import begin_ns, computed, per_bin, received, sent
from analysis.points import PointResult
from workloads.plan import Combine, OpKind

MODELS = ("alexnet", "vgg19", "resnet50", "yolo-v1")
SKEWED = ("alexnet", "vgg19", "yolo-v1")
"""All but ResNet-50, as the paper has it."""
FC = "fc"
VAST_MAJORITY = 0.8
BIN_NS = 5_000_000


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
    found = [speedup(points, {**claim.where, "model": model, "workers": 8}, claim.baseline) for model in MODELS]
    best = max(range(len(MODELS)), key=lambda index: found[index].value)
    return Measured(found[best].value, found[best].ci95, detail=f"maximum over the four models, at {MODELS[best]}")


@measures("geryon-fig2", "poor-pull-overlap")
def _pull_overlap(points: Points, _: Claim) -> Measured:
    idle, after = [], []
    for point in points.stored():
        plan, log = point.plan(), point.log()
        worker = int(plan.workers[0])
        begin, pulls = begin_ns(plan, log, worker, 1), received(plan, log, worker, 1, Combine.COPY)
        busy = computed(plan, log, worker, 1)
        pulled = int(pulls.end_ns.max())
        during = busy.within_ns(begin, pulled)
        idle.append(1 - during / (pulled - begin))
        after.append(1 - during / int(busy.amount.sum()))
    text = f"GPU idle for {np.mean(idle):.0%} of the pull (mean of {len(idle)} orders); {np.mean(after):.0%} of computation after it"
    return Measured(text, holds=float(np.mean(idle)) > 0.5 and float(np.mean(after)) > 0.5, detail="from the op logs")


@draws(
    "geryon-fig2",
    "Fig. 2: the worker's link and GPU, one random order",
    "time (s)",
    "Gbit/s; GPU: share x 10",
    steps=True,
)
def _worker_timeline(points: Points) -> Mapping[str, Series]:
    point = points.point(seed=1)
    plan, log = point.plan(), point.log()
    worker, count = int(plan.workers[0]), point.record().iterations
    begin = begin_ns(plan, log, worker, 1)
    edges = np.arange(begin, int(log.end_ns.max()) + BIN_NS, BIN_NS)
    seconds = ((edges[:-1] - begin) / 1e9).tolist()
    inbound, outbound, busy = (
        np.sum([per_bin(view(plan, log, worker, iteration), edges) for iteration in range(1, count)], axis=0) / BIN_NS
        for view in (received, sent, computed)
    )
    return {
        "inbound (pull)": list(zip(seconds, (inbound * 8).tolist(), strict=True)),
        "outbound (push)": list(zip(seconds, (outbound * 8).tolist(), strict=True)),
        "GPU busy": list(zip(seconds, (busy * 10).tolist(), strict=True)),
    }


UNIT_S = 0.1
"""One unit of Fig. 3's toy, as its scenario has it."""


@measures("geryon-fig3", "saves-3-units")
def _toy_saving(points: Points, _: Claim) -> Measured:
    best, worst = (points.row(order=order).iteration_time_s for order in ("layer", "reverse"))
    return Measured((best - worst) / UNIT_S, detail=f"{best / UNIT_S:.2f} against {worst / UNIT_S:.2f} units")


@measures("geryon-fig3", "first-layer-blocks")
def _first_layer_blocks(points: Points, _: Claim) -> Measured:
    waits = []
    for order in ("layer", "reverse"):
        point = points.point(order=order)
        plan, log = point.plan(), point.log()
        worker = int(plan.workers[0])
        busy = computed(plan, log, worker, 1)
        waits.append((int(busy.start_ns.min()) - begin_ns(plan, log, worker, 1)) / 1e9 / UNIT_S)
    expected = [1.0, 4.0]
    text = f"layer 1 starts after {waits[0]:.2f} units if its parameters come first, {waits[1]:.2f} if last"
    return Measured(
        text, holds=bool(np.allclose(waits, expected, rtol=0.05)), detail="from the op logs; 1 and 4 expected"
    )


def _shares(model: ModelFacts, of_layer: Sequence[float], kind: str) -> float:
    """Share of a quantity that layers of a kind hold."""
    return sum(v for v, k in zip(of_layer, model.layer_kinds, strict=True) if k == kind) / sum(of_layer)


@measures("geryon-fig4a", "conv-compute-heavy")
def _conv_and_fc(points: Points, _: Claim) -> Measured:
    model = points.model(device="k40")
    compute, transfer = _shares(model, model.forward_s, "conv"), _shares(model, model.layer_parameters(), FC)
    text = f"convolutions {compute:.1%} of the forward time, fully connected layers {transfer:.1%} of the bytes"
    return Measured(text, holds=min(compute, transfer) >= VAST_MAJORITY, detail="from the profile; both at least 80 %")


@draws(
    "geryon-fig4a",
    "Fig. 4a: forward time and transfer time at 10 Gbit/s by layer",
    "layer with parameters",
    "ms",
    bars=True,
)
def _layer_times(points: Points) -> Mapping[str, Series]:
    model = points.model(device="k40")
    parameters = model.layer_parameters()
    layers = [index for index, count in enumerate(parameters) if count]
    return {
        "computation": [(n + 1, model.forward_s[layer] * 1e3) for n, layer in enumerate(layers)],
        "communication": [(n + 1, parameters[layer] * 32 / 10e9 * 1e3) for n, layer in enumerate(layers)],
    }


def _potential(points: Points, device: str) -> Series:
    """Gain of the best order over the worst, by Gbit/s."""
    best, worst = (points.series("rate", device=device, order=order) for order in ("layer", "reverse"))
    return [(x / 1e9, w.iteration_time_s / b.iteration_time_s) for (x, b), (_, w) in zip(best, worst, strict=True)]


@measures("geryon-fig4b", "unscheduled-needs-100g")
def _rate_to_catch_up(points: Points, _: Claim) -> Measured:
    """Between two measured rates, iteration time is a straight line over 1 / rate, as transfers then take their share of it."""
    target_s = points.row(device="k40", order="layer", rate="8gbit").iteration_time_s
    worst = [(x / 1e9, row.iteration_time_s) for x, row in points.series("rate", device="k40", order="reverse")]
    for (slow, slow_s), (fast, fast_s) in pairwise(worst):
        if fast_s <= target_s:
            inverse = 1 / slow + (1 / fast - 1 / slow) * (slow_s - target_s) / (slow_s - fast_s)
            return Measured(1 / inverse, detail=f"between {slow:g} and {fast:g} Gbit/s, straight over 1 / rate")
    return Measured(worst[-1][0], detail="not even at the highest rate that was measured")


@measures("geryon-fig4b", "interior-peak")
def _gain_peaks(points: Points, _: Claim) -> Measured:
    gains = _potential(points, "k40")
    ends = max(gains[0][1], gains[-1][1]) - 1
    peak = max(y for _, y in gains) - 1
    text = (
        f"peak {peak:.0%} at {peak_x(gains):g} Gbit/s; {gains[0][1] - 1:.0%} at 1, {gains[-1][1] - 1:.0%} at 200 Gbit/s"
    )
    return Measured(text, holds=interior_maximum(gains) and ends < peak / 2)


@measures("geryon-fig4b", "v100-wider")
def _v100(points: Points, _: Claim) -> Measured:
    slow, fast = _potential(points, "k40"), _potential(points, "v100")
    above = [sum(y >= 1.1 for _, y in gains) for gains in (slow, fast)]
    text = f"peak at {peak_x(slow):g} Gbit/s with K40, {peak_x(fast):g} with V100; gain over 10 % at {above[0]} and {above[1]} rates"
    return Measured(text, holds=peak_x(fast) > peak_x(slow) and above[1] >= above[0])


@draws(
    "geryon-fig4b", "Fig. 4b: potential speed-up", "bandwidth (Gbit/s)", "throughput, best order over worst", log_x=True
)
def _potential_curves(points: Points) -> Mapping[str, Series]:
    return {device: _potential(points, device) for device in ("k40", "v100")}


def _urgent_s(point: StoredPoint) -> float:
    """From its first byte handed over to its last byte received: the urgent parameter, chunk 0."""
    plan, log = point.plan(), point.log()
    now = (log.iteration == 1) & (plan.ops.chunk[log.op] == 0)
    pulled = now & (plan.ops.combine[log.op] == Combine.COPY)
    op = int(log.op[pulled][0])
    handed = now & (log.op == plan.ops.message[op])
    return float(log.end_ns[pulled][0] - log.start_ns[handed][0]) / 1e9


def _urgent_ratios(points: Points) -> Series:
    """Completion of the urgent parameter, end host over network, by number of servers."""
    counts = (2, 4, 8)
    times = [[_urgent_s(points.point(strategy=name, servers=n)) for n in counts] for name in ("tictac", "geryon")]
    return [(n, end_host / network) for n, end_host, network in zip(counts, *times, strict=True)]


@measures("geryon-fig5", "urgent-2ps")
def _urgent_2(points: Points, _: Claim) -> Measured:
    return Measured(_urgent_ratios(points)[0][1], detail="time of the urgent transfer in the op logs")


@measures("geryon-fig5", "grows-with-ps")
def _urgent_grows(points: Points, _: Claim) -> Measured:
    ratios = _urgent_ratios(points)
    text = ", ".join(f"{y:.2f} with {x:g} servers" for x, y in ratios)
    return Measured(text, holds=increasing(ratios) and all_close(ratios, [(n, n) for n, _ in ratios], 0.1))


@measures("geryon-fig6", "alexnet-fc-share", "vgg-19-fc-share", "yolo-fc-share", "resnet50-fc-share")
def _fc_share(points: Points, claim: Claim) -> Measured:
    model = points.model(**claim.where)
    return Measured(_shares(model, model.layer_parameters(), FC), detail="counted from the profile")


@measures("geryon-fig6", "skew")
def _last_layers(points: Points, _: Claim) -> Measured:
    shares = {}
    for name in SKEWED:
        counts = [count for count in points.model(model=name).layer_parameters() if count]
        shares[name] = sum(counts[-3:]) / sum(counts)
    text = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return Measured(
        f"in the last three layers: {text}", holds=min(shares.values()) > 0.5, detail="counted from the profile"
    )


def _thresholds(row: PointResult) -> tuple[float, ...]:
    return tuple(float(part) for part in row.parameters["thresholds"].strip("[]").split(","))


def _by_threshold(points: Points) -> Series:
    rows = [(_thresholds(row), row.iteration_time_s) for row in points.rows(run="geryon-threshold")]
    return sorted((thresholds[0], time_s) for thresholds, time_s in rows if len(thresholds) == 1)


def _one_class_s(points: Points) -> float:
    return points.row(run="geryon-table2", model="resnet50", strategy="partition-slicing").iteration_time_s


@measures("geryon-sec3c-threshold", "interior-min")
def _best_threshold(points: Points, _: Claim) -> Measured:
    times, one_class_s = _by_threshold(points), _one_class_s(points)
    ends_s = (times[0][1], times[-1][1])
    best, best_s = min(times, key=lambda pair: pair[1])
    text = f"least at {best:g}: {best_s:.4f} s; {ends_s[0]:.4f} and {ends_s[1]:.4f} s in one class, {one_class_s:.4f} s without Geryon"
    same = all(abs(end - one_class_s) <= 0.01 * one_class_s for end in ends_s)
    return Measured(text, holds=interior_minimum(times) and same)


@measures("geryon-sec3c-threshold", "two-priorities-enough")
def _two_priorities(points: Points, _: Claim) -> Measured:
    """Two priorities are enough if four gain less than 1 % of an iteration on them."""
    two_s = min(time_s for _, time_s in _by_threshold(points))
    four_s = min(r.iteration_time_s for r in points.rows(run="geryon-threshold") if len(_thresholds(r)) == 3)
    return Measured(f"2 priorities {two_s:.4f} s, 4 priorities {four_s:.4f} s", holds=four_s >= two_s * 0.99)


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
    series = _by_slice(points)
    text = ", ".join(f"{x / 1024:g}K: {y:.1f}" for x, y in series)
    return Measured(f"images/s by threshold: {text}", holds=interior_maximum(series))


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


SLICES = (1048576, 524288, 262144)


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
    gaps: dict[tuple[str, int], float] = {}
    for row in points.rows(run="geryon-larger", strategy="geryon"):
        where = {key: row.parameters[key] for key in ("run", "fabric", "workers")}
        other = points.row(strategy="tictac-slicing", **where)
        shape = "leaf-spine" if "leaf-spine" in where["fabric"] else "one switch"
        gaps[shape, int(where["workers"])] = row.throughput_per_s / other.throughput_per_s
    text = ", ".join(f"{workers} hosts, {shape}: {gap:.3f}x" for (shape, workers), gap in gaps.items())
    smallest, largest = gaps["one switch", 4], gaps["leaf-spine", 16]
    return Measured(text, holds=largest > smallest and gaps["one switch", 16] >= smallest)


@measures("geryon-fig10", "pull-time")
def _pull_time(points: Points, _: Claim) -> Measured:
    point = points.point(run="geryon-fig10", scheduling_cost_per_slice="0ms")
    plan, log = point.plan(), point.log()
    spans = [
        int(received(plan, log, worker, 1, Combine.COPY).end_ns.max()) - begin_ns(plan, log, worker, 1)
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
    series = []
    for row in points.rows(run="geryon-fig10"):
        cost_ms = float(row.parameters["scheduling_cost_per_slice"].removesuffix("ms"))
        plan = points.plan(run="geryon-fig10", scheduling_cost_per_slice=row.parameters["scheduling_cost_per_slice"])
        pulls = (plan.ops.kind == OpKind.SEND) & (plan.ops.chunk >= 0) & (plan.ops.duration_ns > 0)
        lanes = np.unique(plan.ops.lane[pulls])
        slices = int(pulls.sum()) / len(lanes) if len(lanes) else 0
        series.append((cost_ms * slices, row.iteration_time_s))
    return sorted(series)


@measures("geryon-fig10", "hidden-below-400ms")
def _hidden(points: Points, _: Claim) -> Measured:
    """Hidden: below 5 % of an iteration at 400 ms. In full: from 600 to 800 ms at least 80 % of the added time shows."""
    series = _by_scheduling_time(points)
    base_s = series[0][1]
    below = max(time_s for ms, time_s in series if ms <= 420) - base_s
    (ms, time_s), (last_ms, last_s) = series[-2:]
    slope = (last_s - time_s) * 1e3 / (last_ms - ms)
    text = f"+{below * 1e3:.0f} ms up to 400 ms of scheduling; beyond, {slope:.2f} ms an added ms"
    return Measured(text, holds=below < 0.05 * base_s and slope >= VAST_MAJORITY)


@draws(
    "geryon-fig10",
    "Iteration time over TicTac's scheduling time",
    "scheduling time of an iteration (ms)",
    "iteration time (s)",
)
def _scheduling_curve(points: Points) -> Mapping[str, Series]:
    return {"tictac-slicing, 256K": _by_scheduling_time(points)}
