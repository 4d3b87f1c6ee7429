"""Evidence for Geryon's motivation and design: overlap, orders, end hosts
against the network, shares, thresholds (Figs. 2 to 6)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from gradwire.analysis.packets.line_use import compute_share
from gradwire.analysis.points import PointResult
from gradwire.datatypes.plan import Combine
from reproduction.geryon.points import FC, SKEWED, share_of_kind
from reproduction.measuring import FROM_PACKETS, begin_ns, capture_of, carries_data, computed_spans, use_of_port
from reproduction.pages.curves import draws
from reproduction.scoring.evidence import Measured, PointEvidence, Points, measures
from reproduction.scoring.reference import Claim, printed_number
from reproduction.scoring.shapes import (
    SLACK,
    Series,
    all_close,
    increasing,
    interior_maximum,
    interior_minimum,
    peak_x,
)

VAST_MAJORITY = 0.8
BIN_S = 0.005


@measures("geryon-fig2", "poor-pull-overlap")
def _pull_overlap(points: Points, _: Claim) -> Measured:
    """The GPU's time within the pull, which lasts from the first byte of its
    first message to its last byte, by seed and iteration."""
    idle, after = [], []
    stored = points.stored()
    for point in stored:
        plan, log, record = point.plan(), point.log(), point.record()
        capture, worker = capture_of(point), int(plan.workers[0])
        messages = capture.messages
        for iteration in range(record.warmup, record.iterations):
            pulls = ~messages.outbound & (messages.iteration == iteration) & carries_data(plan, capture)
            begun, pulled = int(messages.first_ns[pulls].min()), int(messages.last_ns[pulls].max())
            busy = computed_spans(plan, log, worker, iteration)
            during = busy.within_ns(begun, pulled)
            idle.append(1 - during / (pulled - begun))
            after.append(1 - during / int(busy.amount.sum()))
    text = f"GPU idle for {np.mean(idle):.0%} of the pull (mean of {len(stored)} orders); {np.mean(after):.0%} of computation after it"
    holds = float(np.mean(idle)) > 0.5 and float(np.mean(after)) > 0.5
    return Measured(text, holds=holds, detail=f"{FROM_PACKETS}; the GPU's time from the op logs")


@draws(
    "geryon-fig2",
    "Fig. 2: the worker's port, in % of 10 Gbit/s, and its GPU; one random order",
    "time (s)",
    "%",
    timelines=True,
)
def _worker_timeline(points: Points) -> Mapping[str, Series]:
    point = points.point(seed=1)
    plan, used = point.plan(), use_of_port(point, BIN_S)
    seconds = (used.edges_s[:-1] - used.start_s).tolist()
    curves = {
        "inbound": used.inbound_bps / used.rate_bps,
        "outbound": used.outbound_bps / used.rate_bps,
        "GPU busy": compute_share(plan, point.log(), plan.workers.tolist(), used.edges_s),
    }
    return {name: list(zip(seconds, (100 * share).tolist(), strict=True)) for name, share in curves.items()}


UNIT_S = 0.1
"""Unit of time of Fig. 3's toy, as in its scenario."""


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
        busy = computed_spans(plan, log, worker, 1)
        waits.append((int(busy.start_ns.min()) - begin_ns(plan, log, worker, 1)) / 1e9 / UNIT_S)
    expected = [1.0, 4.0]
    text = f"layer 1 starts after {waits[0]:.2f} units if its parameters come first, {waits[1]:.2f} if last"
    return Measured(
        text, holds=bool(np.allclose(waits, expected, rtol=0.05)), detail="from the op logs; 1 and 4 expected"
    )


@measures("geryon-fig4a", "conv-compute-heavy")
def _conv_and_fc(points: Points, _: Claim) -> Measured:
    model = points.model(device="k40")
    compute, transfer = (
        share_of_kind(model, model.forward_s, "conv"),
        share_of_kind(model, model.layer_parameters(), FC),
    )
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
    """Between two measured rates, iteration time is a straight line over 1 /
    rate, as transfers then take their share of it."""
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


def _urgent_s(point: PointEvidence) -> float:
    """Transfer time of the urgent parameter, chunk 0: from its first byte handed over to its last byte received."""
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
    return Measured(share_of_kind(model, model.layer_parameters(), FC), detail="counted from the profile")


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
    rows = [(_thresholds(row), row.iteration_time_s) for row in points.rows(run="geryon-sec3c")]
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
    """Two classes gain as much as the paper reports for ResNet-50, and more lose
    nothing: "gain better performance" (section III-C)."""
    one_s, (two_s, four_s) = _one_class_s(points), _by_priorities(points)
    reported = printed_number("geryon", "geryon-fig8", "resnet-50-geryon-vs-partslice")
    text = f"over one class, 2 priorities {one_s / two_s:.3f}x (reported: {reported:g}x), 4 priorities {one_s / four_s:.3f}x"
    return Measured(text, holds=one_s / two_s >= reported * (1 - SLACK) and four_s <= two_s * (1 + SLACK))


def _by_priorities(points: Points) -> tuple[float, float]:
    """Iteration time with two priorities at the best threshold, and with four."""
    four_s = min(r.iteration_time_s for r in points.rows(run="geryon-sec3c") if len(_thresholds(r)) == 3)
    return min(time_s for _, time_s in _by_threshold(points)), four_s
