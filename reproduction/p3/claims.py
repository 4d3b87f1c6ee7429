"""Evidence for P3's claims that a look at one point's metric does not decide."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gradwire.datatypes.plan import Combine, OpKind, Plan, Role
from reproduction.pages.curves import draws
from reproduction.scoring.evidence import Measured, ModelFacts, PointEvidence, Points, measures
from reproduction.scoring.reference import Claim, printed_number
from reproduction.scoring.shapes import VISIBLE, Series, dominates, interior_maximum, knee_x, peak_x, unimodal

FIG_7 = {
    "resnet50": "p3-fig7a",
    "inception-v3-mxnet": "p3-fig7b",
    "vgg19": "p3-fig7c",
    "sockeye": "p3-fig7d",
}
SMALL_LAYERS = ("resnet50", "inception-v3-mxnet")
LARGE_LAYERS = ("vgg19", "sockeye")
SLICED_MODELS = ("resnet50", "vgg19")
CONSIDERABLE = 0.05
"""A gain that a reader of Fig. 7 can see between two curves."""


def gains_over_bandwidth(points: Points, model: str, strategy: str, baseline: str = "kvstore") -> Series:
    """Throughput over the baseline's, by Gbit/s."""
    ours, theirs = (points.series("rate", model=model, strategy=name) for name in (strategy, baseline))
    return [(x / 1e9, a.throughput_per_s / b.throughput_per_s) for (x, a), (_, b) in zip(ours, theirs, strict=True)]


@measures("p3-abstract", "resnet50", "sockeye", "vgg19")
@measures("p3-fig7", "inception-max", "sockeye-max")
def _largest_gain(points: Points, claim: Claim) -> Measured:
    gains = gains_over_bandwidth(points, str(claim.where["model"]), str(claim.where["strategy"]))
    return Measured(max(y for _, y in gains), detail=f"maximum over the sweep, at {peak_x(gains):g} Gbit/s")


@measures("p3-fig7", "resnet50-baseline-knee", "resnet50-p3-knee")
def _knee(points: Points, claim: Claim) -> Measured:
    series = [(x / 1e9, row.throughput_per_s) for x, row in points.series("rate", **claim.where)]
    return Measured(knee_x(series), detail="where throughput is 5 % below that at 10 Gbit/s, straight between samples")


@measures("p3-fig7", "resnet-incep-slicing-none")
def _slicing_does_little(points: Points, claim: Claim) -> Measured:
    gains = {
        (model, x): y
        for model in SMALL_LAYERS
        for x, y in gains_over_bandwidth(points, model, str(claim.where["strategy"]))
    }
    model, rate = max(gains, key=lambda at: abs(gains[at] - 1))
    return Measured(gains[model, rate], detail=f"furthest from 1, over both models: {model} at {rate:g} Gbit/s")


@measures("p3-fig7", "always-better")
def _always_better(points: Points, _: Claim) -> Measured:
    gains = {model: gains_over_bandwidth(points, model, "p3") for model in FIG_7}
    nowhere_below = all(dominates(series, [(x, 1.0) for x, _ in series]) for series in gains.values())
    last = {model: gains[model][-1][1] for model in SMALL_LAYERS}
    least = ", ".join(f"{model} {min(y for _, y in series):.3f}" for model, series in gains.items())
    text = f"least gain: {least}; at the highest bandwidth {', '.join(f'{m} {y:.3f}' for m, y in last.items())}"
    return Measured(text, holds=nowhere_below and all(abs(y - 1) <= 0.01 for y in last.values()))


@measures("p3-fig7", "vanishes-low-bw")
def _gain_peaks(points: Points, _: Claim) -> Measured:
    """Diminishes: at both ends less than half of the largest gain is left."""
    gains = {model: gains_over_bandwidth(points, model, "p3") for model in FIG_7}
    parts, holds = [], True
    for model, series in gains.items():
        best, ends = max(y for _, y in series), (series[0][1], series[-1][1])
        parts.append(f"{model} {ends[0] - 1:.0%}, {best - 1:.0%} at {peak_x(series):g} Gbit/s, {ends[1] - 1:.0%}")
        holds &= interior_maximum(series) and max(ends) - 1 < (best - 1) / 2
    return Measured(f"gain at the lowest, best and highest bandwidth: {'; '.join(parts)}", holds=holds)


@measures("p3-fig7", "slicing-helps-big-layers")
def _slicing_helps(points: Points, _: Claim) -> Measured:
    parts, holds = [], True
    for model in LARGE_LAYERS:
        slicing, more = (
            gains_over_bandwidth(points, model, "p3-slicing"),
            gains_over_bandwidth(points, model, "p3", "p3-slicing"),
        )
        best, added = max(y for _, y in slicing), max(y for _, y in more)
        parts.append(f"{model}: slices alone {best - 1:.0%}, P3 {added - 1:.0%} more")
        holds &= best > 1 + CONSIDERABLE and added > 1 + CONSIDERABLE and dominates(more, [(x, 1.0) for x, _ in more])
    return Measured(f"largest gains; {'; '.join(parts)}", holds=holds)


UNIT_4_S, UNIT_6_S = 0.05, 0.01
"""Units of time of the toys, as in their scenarios."""


def _forward_and_backward(plan: Plan, layer: int) -> tuple[int, int]:
    """The worker's two ops of a layer."""
    ops = plan.ops
    mine = (ops.kind == OpKind.COMPUTE) & (ops.rank == plan.workers[0]) & (ops.layer == layer) & (ops.lane == 0)
    forward, backward = np.flatnonzero(mine).tolist()
    return forward, backward


def _time_s(point: PointEvidence, op: int, iteration: int, *, end: bool) -> float:
    log = point.log()
    at = (log.op == op) & (log.iteration == iteration)
    return float((log.end_ns if end else log.start_ns)[at][0]) / 1e9


def _delay_units(points: Points, strategy: str) -> float:
    """Time from the end of layer 1's backward op to the start of its next forward op."""
    point = points.point(strategy=strategy)
    forward, backward = _forward_and_backward(point.plan(), 0)
    return (_time_s(point, forward, 2, end=False) - _time_s(point, backward, 1, end=True)) / UNIT_4_S


@measures("p3-fig4", "fifo-delay", "fifo-delay-units", "priority-delay")
def _delay(points: Points, claim: Claim) -> Measured:
    units = _delay_units(points, str(claim.where["strategy"]))
    if claim.id == "fifo-delay-units":
        return Measured(units, detail="from the op log")
    if claim.id == "fifo-delay":
        return Measured(units / 2, detail="from the op log, over the 2 units of layer 1's synchronisation")
    first_come = _delay_units(points, str(claim.baseline["strategy"]))
    return Measured(units / first_come, detail=f"{units:.2f} against {first_come:.2f} units, from the op logs")


def _bytes_during(point: PointEvidence, start_s: float, end_s: float) -> float:
    """Bytes that all ranks together received between two moments."""
    plan, log = point.plan(), point.log()
    rows = np.flatnonzero((plan.ops.kind == OpKind.RECV)[log.op])
    starts, ends = log.start_ns[rows] / 1e9, np.maximum(log.end_ns[rows], log.start_ns[rows] + 1) / 1e9
    share = np.maximum(np.minimum(ends, end_s) - np.maximum(starts, start_s), 0) / (ends - starts)
    return float((share * plan.ops.size_bytes[log.op[rows]]).sum())


@measures("p3-fig4", "idle-forward")
def _overlap_of_passes(points: Points, _: Claim) -> Measured:
    """Idle: below 2 % of an iteration's bytes travel during the forward
    pass, which is one in two slices of the toy."""
    shares = {}
    for strategy in ("p3-slicing", "p3"):
        point = points.point(strategy=strategy)
        plan = point.plan()
        total = float(plan.ops.size_bytes[plan.is_remote()].sum())
        forward = [_forward_and_backward(plan, layer)[0] for layer in (0, 2)]
        backward = [_forward_and_backward(plan, layer)[1] for layer in (2, 0)]
        shares[strategy] = [
            _bytes_during(point, _time_s(point, first, 1, end=False), _time_s(point, last, 1, end=True)) / total
            for first, last in (forward, backward)
        ]
    idle = shares["p3-slicing"][0]
    during_forward, during_backward = shares["p3"]
    text = (
        f"bytes during the forward pass: {idle:.1%} first come, first served, {during_forward:.0%} with priority "
        f"({during_backward:.0%} during the backward pass)"
    )
    return Measured(text, holds=idle < 0.02 and min(during_forward, during_backward) > 0.1, detail="from the op logs")


def _synchronisation_s(point: PointEvidence, iteration: int = 1) -> tuple[float, float, float]:
    """When the first gradient leaves, when the last one has arrived, and when the last parameter is back."""
    plan, log = point.plan(), point.log()
    ops, now = plan.ops, log.iteration == iteration
    pushes = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (plan.rank_role[ops.rank] == Role.WORKER)
    arrives, back = ((ops.kind == OpKind.RECV) & (ops.combine == how) for how in (Combine.ADD, Combine.COPY))
    begin = float(log.start_ns[now & pushes[log.op]].min())
    ends = (float(log.end_ns[now & chosen[log.op]].max()) for chosen in (arrives, back))
    pushed, pulled = ends
    return begin / 1e9, pushed / 1e9, pulled / 1e9


@measures("p3-fig6", "slicing-gain")
def _slicing_gain(points: Points, _: Claim) -> Measured:
    units = []
    for strategy in ("p3-slicing", "kvstore"):
        span = _synchronisation_s(points.point(strategy=strategy))
        units.append((span[2] - span[0]) / UNIT_6_S)
    sliced, whole = units
    return Measured(sliced / whole, detail=f"{sliced:.2f} against {whole:.2f} units, from the op logs")


@measures("p3-fig6", "last-3-steps")
def _only_receiving(points: Points, _: Claim) -> Measured:
    point = points.point(strategy="kvstore")
    pushed_s, pulled_s = _synchronisation_s(point)[1:]
    plan, log = point.plan(), point.log()
    copies = (log.iteration == 1) & ((plan.ops.kind == OpKind.RECV) & (plan.ops.combine == Combine.COPY))[log.op]
    begun, ended = log.start_ns[copies] / 1e9, log.end_ns[copies] / 1e9
    last = begun >= pushed_s
    units = float((ended[last] - begun[last]).sum()) / UNIT_6_S
    rest = (pulled_s - pushed_s) / UNIT_6_S
    text = f"no gradient is under way in the last {rest:.2f} units; parameters arrive in {units:.2f} of them"
    return Measured(text, holds=units >= 3 * 0.97, detail="from the op log; at least 3, within 3 %")


VERY_LARGE = 0.25
"""Share of the model's parameters."""
SMALL = 0.1
HEAVIEST = 5


def _shares(model: ModelFacts) -> list[float]:
    """Share of the parameters of each layer that has any, in forward order."""
    return [count / model.parameters for count in model.layer_parameters() if count]


@measures("p3-fig5", "vgg19-largest-fc")
def _largest_layer(points: Points, claim: Claim) -> Measured:
    return Measured(max(_shares(points.model(**claim.where))), detail="counted from the profile")


@measures("p3-fig5", "sockeye-heaviest-first")
def _initial_layer(points: Points, _: Claim) -> Measured:
    shares = {name: _shares(points.model(model=name)) for name in LARGE_LAYERS}
    sockeye = shares["sockeye"]
    counts = {name: sum(share > VERY_LARGE for share in of) for name, of in shares.items()}
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    text = f"Sockeye's first layer holds {sockeye[0]:.0%}; layers above a quarter of the parameters: {listed}"
    holds = max(sockeye) == sockeye[0] and all(1 <= count <= 2 for count in counts.values())
    return Measured(text, holds=holds, detail="counted from the profiles")


@measures("p3-fig5", "cnn-skew")
def _skew(points: Points, _: Claim) -> Measured:
    """The last fully connected layer is among the five heaviest of each, and above 10 % only in VGG-19."""
    parts, holds = [], True
    for name in (*SMALL_LAYERS, "vgg19"):
        model = points.model(model=name)
        counts = model.layer_parameters()
        last = max(index for index, kind in enumerate(model.layer_kinds) if kind == "fc")
        rank = sorted(counts, reverse=True).index(counts[last]) + 1
        largest = max(_shares(model))
        parts.append(f"{name}: largest layer {largest:.1%}, the last one is number {rank}")
        holds &= rank <= HEAVIEST and (largest < SMALL) == (name in SMALL_LAYERS)
    return Measured("; ".join(parts), holds=holds, detail="counted from the profiles")


@draws("p3-fig5", "Fig. 5: parameters by layer", "layer with parameters", "share of the model", bars=True)
def _layer_shares(points: Points) -> Mapping[str, Series]:
    return {name: [(n + 1, share) for n, share in enumerate(_shares(points.model(model=name)))] for name in FIG_7}


PRINTED_SLICE = printed_number("p3", "p3-fig12", "peak-50000")
"""Parameters of a slice, where the paper's throughput peaks."""
PLATEAU = VISIBLE
"""Throughputs that are closer to the largest cannot be distinguished from it in a printed figure."""


def by_slice(points: Points, model: str) -> Series:
    """Throughput over the parameters of a slice."""
    rows = points.rows(model=model)
    return sorted((float(row.parameters["slice_parameters"]), row.throughput_per_s) for row in rows)


def plateau(series: Series) -> list[float]:
    """Slice sizes at which throughput is as good as at its largest."""
    largest = max(y for _, y in series)
    return [x for x, y in series if y >= (1 - PLATEAU) * largest]


@measures("p3-fig12", "peak-50000")
def _best_slice(points: Points, _: Claim) -> Measured:
    """The size with the largest throughput, of the model where that is furthest from the printed one."""
    peaks = {model: peak_x(by_slice(points, model)) for model in SLICED_MODELS}
    furthest = max(peaks.values(), key=lambda size: abs(math.log(size / PRINTED_SLICE)))
    return Measured(furthest, detail=", ".join(f"{model} at {size:,.0f}" for model, size in peaks.items()))


@measures("p3-fig12", "unimodal")
def _unimodal(points: Points, _: Claim) -> Measured:
    """Rises, peaks and drops, each step within what a printed figure shows, drops
    visibly at both ends, and is at its best at 50,000."""
    parts, holds = [], True
    for model in SLICED_MODELS:
        series = by_slice(points, model)
        parts.append(f"{model} {', '.join(f'{x / 1000:g}K: {y:.1f}' for x, y in series)}")
        holds &= unimodal(series, PLATEAU) and interior_maximum(series) and PRINTED_SLICE in plateau(series)
    return Measured(f"samples/s by slice: {'; '.join(parts)}", holds=holds)
