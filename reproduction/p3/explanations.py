"""Why some of P3's claims differ, from plans, logs and captured packets.

Each bound function reads the numbers that the function named after its argument argues from
(reproduction/scoring/explanations.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradwire.analysis.link_loads import binned_bytes
from gradwire.analysis.packets.capture_files import Bool, Capture
from gradwire.analysis.packets.line_use import BIN_S, Float64, compute_share
from gradwire.datatypes.plan import Plan, Role
from reproduction.measuring import capture_of, carries_data, path_of_slowest, use_of_port
from reproduction.p3.claims import (
    FIG_7,
    PLATEAU,
    PRINTED_SLICE,
    SLICED_MODELS,
    by_slice,
    gains_over_bandwidth,
    plateau,
)
from reproduction.p3.traffic import IDLE_SHARE, LENGTHS, UTILISED_MODELS, traffic
from reproduction.scoring.evidence import Points
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, Where
from reproduction.scoring.shapes import Series


@explains("p3-abstract", "resnet50", "sockeye", "vgg19")
def _largest_gain(points: Points, claim: Claim) -> Explanation:
    gains = gains_over_bandwidth(points, str(claim.where["model"]), str(claim.where["strategy"]))
    assert isinstance(claim.printed, float)
    return Explanation(
        "The largest gain of a sweep depends on the bandwidths that are tried",
        printed_gain_is_on_the_curve(gains, claim.printed),
        f"By bandwidth: {shown_gains(gains)}.",
    )


def shown_gains(gains: Series) -> str:
    """A gain over bandwidths in Gbit/s, as text."""
    return ", ".join(f"{y:.2f}x at {x:g}" for x, y in gains) + " Gbit/s"


def printed_gain_is_on_the_curve(gains: Series, printed: float) -> str:
    """The abstract's gain is the largest of those that the paper tried: the
    measured curve takes that value somewhere else."""
    values = [y for _, y in gains]
    premise(
        min(values) <= printed <= max(values),
        f"the printed {printed:g}x between the smallest and the largest gain of the sweep",
        shown_gains(gains),
    )
    return "The largest is one of a sweep, and the paper does not list the bandwidths that it tried."


@explains("p3-fig7", "vanishes-low-bw")
def _gain_that_stays(points: Points, _: Claim) -> Explanation:
    """Of the model that keeps most of its gain at the highest bandwidth."""
    gains = {model: gains_over_bandwidth(points, model, "p3") for model in FIG_7}
    kept = {model: (series[-1][1] - 1) / (max(y for _, y in series) - 1) for model, series in gains.items()}
    model = max(kept, key=kept.__getitem__)
    rate = points.series("rate", model=model, strategy="kvstore")[-1][1].parameters["rate"]
    path = path_of_slowest(points.point(model=model, strategy="kvstore", rate=rate))
    return Explanation(
        "Servers are the limit where the network is fast",
        servers_are_the_limit(model, rate, kept[model], path.shares, path.sentence()),
    )


def servers_are_the_limit(model: str, rate: str, kept: float, shares: Mapping[str, float], sentence: str) -> str:
    """Priority continues to help where the network is fast, for servers add and copy one tensor after another."""
    premise(
        kept >= 0.5,
        f"{model} to keep most of its largest gain at {rate}",
        f"it keeps {kept:.0%}",
    )
    others = {part: share for part, share in shares.items() if part != "compute"}
    premise(
        max(others, key=others.__getitem__) == "aggregation" and others["aggregation"] > 2 * others["network"],
        "aggregation to be the largest part of the baseline's critical path apart from computation, far ahead of the "
        "network",
        sentence,
    )
    return (
        f"{model} keeps {kept:.0%} of its largest gain at {rate}, where the network no longer decides. The baseline "
        f"there: {sentence} MXNet's servers add and copy in one thread, at a rate that is assumed and that no "
        "bandwidth raises."
    )


@explains("p3-fig12", "peak-50000", "unimodal")
def _slice_sizes(points: Points, _: Claim) -> Explanation:
    return Explanation(
        "The top of the curve is flat", flat_top({model: by_slice(points, model) for model in SLICED_MODELS})
    )


def flat_top(curves: Mapping[str, Series]) -> str:
    """Throughput by slice size has no peak that stands out, so where it is largest says little."""
    parts, flat = [], True
    for model, series in curves.items():
        level, at = plateau(series), dict(series)
        behind = 1 - at[PRINTED_SLICE] / max(at.values())
        flat &= PRINTED_SLICE in level and max(level) >= 2 * min(level)
        parts.append(
            f"{model} is within {PLATEAU:.0%} of its best from {min(level):,.0f} to {max(level):,.0f} parameters, and "
            f"with {PRINTED_SLICE:,.0f} {behind:.1%} behind it"
        )
    premise(flat, "a flat top that has the printed slice size on it, in every model", "; ".join(parts))
    return f"The top is flat: {'; '.join(parts)}. The paper prints neither the bandwidth nor the cluster of Fig. 12."


@explains("p3-fig9", "less-idle")
def _idle_time(points: Points, _: Claim) -> Explanation:
    """Where VGG-19's link is still idle with P3, and what its worker does then."""
    stored, baseline = (
        points.point(run=UTILISED_MODELS["vgg19"], model="vgg19", strategy=strategy) for strategy in ("p3", "kvstore")
    )
    seen, plan = traffic(stored), stored.plan()
    ranks = [rank for rank in plan.workers if plan.rank_host[rank] == 0]
    compute = compute_share(plan, stored.log(), ranks, use_of_port(stored, BIN_S).edges_s)
    longest = [longest_run(seen.idle[seen.iteration == number]) for number in np.unique(seen.iteration)]
    return Explanation(
        "Nothing to send",
        nothing_to_send(
            left=seen.idle_ms / traffic(baseline).idle_ms,
            gap_ms=float(np.mean(longest)) * BIN_S * 1e3,
            in_gaps=float(sum(longest) / seen.idle.sum()),
            compute=float(compute[seen.idle].mean()),
        ),
    )


def longest_run(chosen: Bool) -> int:
    """The most neighbours that are all chosen."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def nothing_to_send(left: float, gap_ms: float, in_gaps: float, compute: float) -> str:
    """The idle time that is left is one gap per iteration, in which the worker computes.

    left: share of the baseline's idle time; in_gaps: share of what is left that lies in each iteration's longest gap,
    of gap_ms; compute: share of what is left in which the worker computes.
    """
    premise(in_gaps > 0.8, "one gap per iteration", f"{in_gaps:.0%} of the idle time is in each iteration's longest")
    premise(compute > 0.9, "a worker that computes in the gap", f"it computes in {compute:.0%} of it")
    return (
        f"Of VGG-19's idle time {left:.0%} is left, and the claim is taken to ask for half at most. {in_gaps:.0%} of "
        f"what is left is one gap of {gap_ms:.0f} ms per iteration, in which the worker computes ({compute:.0%} of "
        "the time) and has no gradient to send yet, so that no order of transfers could fill it. Times are counted "
        "in intervals of 10 ms."
    )


@explains("p3-fig8", "sockeye-no-bidir")
def _both_directions(points: Points, claim: Claim) -> Explanation:
    """What comes in while the machine's own worker pushes its gradients,
    and what is left of it where workers differ."""
    where: Where = {**claim.where, "run": UTILISED_MODELS["sockeye"]}
    point = points.point(**where)
    apart = points.only(run=LENGTHS, rate=point.parameters["rate"])
    gains = []
    for group in (points.only(run=where["run"]), apart):
        old, new = (group.row(strategy=strategy).throughput_per_s for strategy in ("kvstore", "p3"))
        gains.append(new / old)
    return Explanation(
        "Workers run in step",
        workers_run_in_step(
            others_share=others_gradients_share(point.plan(), capture_of(point), point.fabric.rate_bps),
            overlap=traffic(point).overlap,
            overlap_apart={
                strategy: float(np.mean([traffic(stored).overlap for stored in apart.stored(strategy=strategy)]))
                for strategy in ("kvstore", "p3")
            },
            gains=gains,
        ),
    )


def workers_run_in_step(
    others_share: float, overlap: float, overlap_apart: Mapping[str, float], gains: Sequence[float]
) -> str:
    """Machines send and receive gradients at the same time, less so where
    workers differ. gains: of P3, in step and apart."""
    premise(
        others_share > 0.5,
        "mostly gradients of the other machines to come in while a machine sends its own",
        f"they are {others_share:.0%} of the bytes",
    )
    premise(
        overlap_apart["kvstore"] < overlap,
        "less overlap of the directions where workers differ in time",
        f"{overlap_apart['kvstore']:.0%}, and {overlap:.0%} where they do not",
    )
    return (
        f"All four workers run in step here, and each machine is a server as well: {others_share:.0%} of the bytes "
        "that come in while a machine sends its own gradients are gradients of the other three. The paper's workers "
        "differ in iteration time, for their sentences do (Sec. 5.4). With times that vary as the lengths of "
        f"IWSLT'15's sentences (p3-sockeye-lengths.toml) both directions are busy in {overlap_apart['kvstore']:.0%} "
        f"of the busy intervals, with P3 in {overlap_apart['p3']:.0%}, and P3 gains {gains[1]:.2f}x instead of "
        f"{gains[0]:.2f}x. The claim asks for less than half."
    )


def others_gradients_share(plan: Plan, capture: Capture, rate_bps: float) -> float:
    """Of the data that comes in, in the intervals in which the machine sends
    gradients: the part that is gradients itself."""
    messages = capture.messages
    data = carries_data(plan, capture) & (messages.last_ns >= 0)
    gradients = data & (plan.rank_role[messages.src_rank] == Role.WORKER)
    bytes_per_bin = rate_bps / 8 * BIN_S
    bin_ns = round(BIN_S * 1e9)
    edges_ns = np.arange(messages.first_ns[data].min(), messages.last_ns[data].max() + bin_ns, bin_ns)

    def binned(chosen: Bool) -> Float64:
        begun, ended = messages.first_ns[chosen].astype(float), messages.last_ns[chosen].astype(float)
        return binned_bytes(edges_ns, begun, ended, messages.wire_bytes[chosen].astype(float), rate_bps / 8e9)

    pushing = binned(gradients & messages.outbound) > IDLE_SHARE * bytes_per_bin
    inbound_gradients, inbound = binned(gradients & ~messages.outbound), binned(data & ~messages.outbound)
    return float(inbound_gradients[pushing].sum() / inbound[pushing].sum())
