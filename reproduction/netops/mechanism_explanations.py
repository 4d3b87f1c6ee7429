"""Why some of NetOps' claims on its mechanisms differ: multicast, aggregation, rings and butterfly mixing.

Each bound function reads the numbers that the function named after its argument argues from
(reproduction/scoring/explanations.py). W: workers. S: bits of the model. B: rate of a port.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gradwire.datatypes.plan import Combine, Role
from reproduction.measuring import sentence
from reproduction.netops.points import (
    BASELINE,
    BITS,
    BOTH,
    BUTTERFLY,
    FASTER,
    INCEPTION,
    MECHANISMS,
    MODULE_RUNS,
    MULTICAST,
    NAMES,
    RESNET_101,
    RESNET_200,
    RING,
    VGG,
    arrivals_ns,
    begin_ns,
    phases,
    size_s,
    time_s,
)
from reproduction.scoring.evidence import Points
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, Where, printed_number
from reproduction.scoring.shapes import close, decreasing

_printed = partial(printed_number, "netops")

OF_A_MODULE = "A module's time follows from its operations, and the paper's from a trace that is not printed"
AGREES = 0.05
"""Share within which a sum of known parts is a measured or a printed
time: what can be distinguished in a printed figure."""


@explains("netops-fig11", "butterfly-keeps-pace")
def _butterfly(points: Points, _: Claim) -> Explanation:
    left_s, took_s = {}, {}
    for strategy in (BUTTERFLY, RING):
        where: Where = {"run": "netops-fig11", "model": INCEPTION, "conv": 3, "strategy": strategy}
        plan, log = points.plan(**where), points.log(**where)
        took_s[strategy] = points.row(**where).iteration_time_s
        left_s[strategy] = float(log.end_ns.max() - phases(plan, log).backward_end.max()) / 1e9
    return Explanation("A faster pass hides less of butterfly mixing's turns", rounds_follow_the_pass(left_s, took_s))


def rounds_follow_the_pass(left_s: Mapping[str, float], took_s: Mapping[str, float]) -> str:
    """By strategy: what follows the last backward pass, and the whole iteration."""
    seen = (
        f"{(took_s[BUTTERFLY] - took_s[RING]) * 1e3:.0f} ms, of which {(left_s[BUTTERFLY] - left_s[RING]) * 1e3:.0f} "
        "ms after the last backward pass"
    )
    premise(
        left_s[BUTTERFLY] - left_s[RING] >= (took_s[BUTTERFLY] - took_s[RING]) / 2 > 0,
        "butterfly mixing to lose most of its time to the ring after the last backward pass",
        seen,
    )
    return (
        f"At 3 times the speed the ring takes {took_s[RING]:.3f} s and butterfly mixing {took_s[BUTTERFLY]:.3f} s. In "
        f"the logs butterfly mixing continues for {left_s[BUTTERFLY] * 1e3:.0f} ms after the last backward pass, and "
        f"the ring for {left_s[RING] * 1e3:.0f} ms: a faster pass hides less of log2(W) turns of the whole model. "
        "Within 5 %, what a figure shows, would be keeping pace."
    )


@explains("netops-fig8", "ring-vs-multiagg-4")
def _four_workers(points: Points, _: Claim) -> Explanation:
    where: Where = {"run": "netops-workers", "model": VGG, "workers": 4}
    facts = points.model(**where)
    baseline_s = _printed("netops-table4", "vgg-16-baseline-iter")
    model_s = facts.parameters * BITS / points.stored(**where)[0].fabric.rate_bps
    return Explanation(
        "Both strategies take sums of the same few parts, whatever the number of workers",
        sums_of_known_parts(
            took_s={s: points.row(strategy=s, **where).iteration_time_s for s in (RING, BOTH)},
            forward_s=sum(facts.forward_s),
            size_s=model_s,
            largest_s=max(facts.tensor_parameters) / facts.parameters * model_s,
            printed_s={
                RING: baseline_s / _printed("netops-table6", "vgg-16-ring"),
                BOTH: baseline_s / _printed("netops-table4", "vgg-16-multicast+agg"),
            },
        ),
    )


def ring_share(workers: int) -> float:
    """Models that pass each port in both turns of a ring."""
    return 2 * (workers - 1) / workers


def sums_of_known_parts(
    took_s: Mapping[str, float], forward_s: float, size_s: float, largest_s: float, printed_s: Mapping[str, float]
) -> str:
    """With 4 workers as measured, and with 32 as printed, both strategies
    take sums of the same few parts. size_s: S / B."""
    sums_s = {
        workers: {RING: forward_s + ring_share(workers) * size_s, BOTH: 2 * size_s + largest_s} for workers in (4, 32)
    }
    premise(
        all(close(took_s[s], sums_s[4][s], AGREES) for s in (RING, BOTH)),
        f"{sums_s[4][RING]:.3f} and {sums_s[4][BOTH]:.3f} s with 4 workers, by these sums",
        f"{took_s[RING]:.3f} and {took_s[BOTH]:.3f} s",
    )
    premise(
        all(close(printed_s[s], sums_s[32][s], AGREES) for s in (RING, BOTH)),
        f"{sums_s[32][RING]:.3f} and {sums_s[32][BOTH]:.3f} s in print for 32 workers, by these sums",
        f"{printed_s[RING]:.3f} and {printed_s[BOTH]:.3f} s",
    )
    depends_s = sums_s[32][RING] - sums_s[4][RING]
    return (
        f"Ring takes {took_s[RING]:.3f} s: the forward pass of {forward_s:.3f} s and 2 (W - 1) / W S / B = "
        f"{ring_share(4) * size_s:.3f} s. Multicast + aggregation takes {took_s[BOTH]:.3f} s: S / B = {size_s:.3f} s "
        f"each way, and FC6 ({largest_s:.3f} s) once more, as the switch forwards it when it is whole. The paper's "
        f"own cells for 32 workers fit these sums ({printed_s[RING]:.3f} and {printed_s[BOTH]:.3f} s), of which only "
        f"the ring's depends on W, and by {depends_s:.2f} s; no number of the paper leads to twice as much."
    )


@explains("netops-table4", "multicast-size")
def _multicast_by_size(points: Points, _: Claim) -> Explanation:
    forward_s, took_s = {}, {}
    for model in (RESNET_101, RESNET_200):
        where: Where = {"run": MECHANISMS, "model": model, "strategy": MULTICAST}
        plan, log = points.plan(**where), points.log(**where)
        last_copy = arrivals_ns(plan, log, Role.WORKER, Combine.COPY)[1].max()
        forward_s[model] = float(phases(plan, log).forward_end.max() - last_copy) / 1e9
        took_s[model] = points.row(**where).iteration_time_s
    baseline: Where = {"run": MECHANISMS, "model": RESNET_200, "strategy": BASELINE}
    return Explanation(
        "The deeper network's forward pass is a larger share of its iteration",
        forward_pass_grows_faster(
            forward_s=forward_s,
            took_s=took_s,
            printed_gain={
                model: _printed("netops-table4", f"{name}-multicast")
                for model, name in ((RESNET_101, "resnet-101"), (RESNET_200, "resnet-200"))
            },
            baseline_s=_printed("netops-table4", "resnet-200-baseline-iter"),
            twice_s=2 * len(points.plan(**baseline).workers) * size_s(points, baseline),
        ),
    )


def forward_pass_grows_faster(
    forward_s: Mapping[str, float],
    took_s: Mapping[str, float],
    printed_gain: Mapping[str, float],
    baseline_s: float,
    twice_s: float,
) -> str:
    """By model: the forward pass behind the last parameter, and the iteration. twice_s: 2 W S / B of ResNet-200."""
    shown = " and ".join(f"{NAMES[model]} {forward_s[model]:.3f} s of {took_s[model]:.2f} s" for model in forward_s)
    small, large = (forward_s[model] / took_s[model] for model in (RESNET_101, RESNET_200))
    premise(large > small > 0, "a larger share of forward pass behind the last parameter in the deeper network", shown)
    apart = printed_gain[RESNET_200] / printed_gain[RESNET_101] - 1
    premise(
        0 < apart < AGREES,
        "printed gains of the two networks that are hardly apart",
        f"{printed_gain[RESNET_101]:g}x and {printed_gain[RESNET_200]:g}x",
    )
    return (
        f"With multicast the forward pass continues behind the last parameter, {shown}: the deeper network's is a "
        f"larger share of the iteration, which costs it more than its size gains. The printed gains are {apart:.0%} "
        f"apart, and stand on a baseline of {baseline_s:g} s for ResNet-200, where 2 W S / B is {twice_s:.2f} s."
    )


@explains("netops-fig5", "ring-ge-multiagg", "ring-gt-multiagg")
@explains("netops-sec87-ranking", "endhost-ge-network")
def _ring_behind(points: Points, _: Claim) -> Explanation:
    where: Where = {"run": "netops-bandwidth", "model": VGG, "rate": "100gbit"}
    plan, log = points.plan(strategy=BOTH, **where), points.log(strategy=BOTH, **where)
    begin = begin_ns(plan, log)
    last_copy_ns = arrivals_ns(plan, log, Role.WORKER, Combine.COPY)[1].max()
    return Explanation(
        "At 100 Gbit/s the forward pass hides the distribution",
        distribution_is_hidden(
            took_s={s: points.row(strategy=s, **where).iteration_time_s for s in (RING, BOTH)},
            last_copy_s=float(last_copy_ns - begin) / 1e9,
            forward_end_s=float(phases(plan, log).forward_end.max() - begin) / 1e9,
            forward_s=sum(points.model(**where).forward_s),
            turns_s=ring_share(len(plan.workers)) * size_s(points, {**where, "strategy": RING}),
            slower_size_s=size_s(points, {"run": MECHANISMS, "model": VGG, "strategy": RING}),
            slower_s={s: time_s(points, VGG, s) for s in (RING, BOTH)},
        ),
    )


def distribution_is_hidden(
    took_s: Mapping[str, float],
    last_copy_s: float,
    forward_end_s: float,
    forward_s: float,
    turns_s: float,
    slower_size_s: float,
    slower_s: Mapping[str, float],
) -> str:
    """At 100 Gbit/s; slower: at 25 Gbit/s. turns_s: both turns of the ring."""
    premise(
        last_copy_s < forward_end_s,
        "multicast to bring the last parameter before the forward pass ends, at 100 Gbit/s",
        f"after {last_copy_s:.3f} and {forward_end_s:.3f} s",
    )
    premise(
        close(took_s[RING], forward_s + turns_s, AGREES),
        "the ring to take its forward pass and both its turns",
        f"{took_s[RING]:.4f} s, and {forward_s:.3f} + {turns_s:.3f} s",
    )
    premise(
        slower_size_s > forward_s and slower_s[RING] < slower_s[BOTH],
        "the distribution to outlast the forward pass at 25 Gbit/s, and the ring to be ahead there",
        f"{slower_size_s:.3f} and {forward_s:.3f} s; iterations of {slower_s[RING]:.3f} and {slower_s[BOTH]:.3f} s",
    )
    return (
        f"At 100 Gbit/s multicast has brought all parameters after {last_copy_s:.3f} s, while the forward pass "
        f"continues until {forward_end_s:.3f} s: the distribution is hidden, and the gradients' way back remains: "
        f"{took_s[BOTH]:.4f} s. A ring hides neither turn behind a forward pass (section 3.1): {forward_s:.3f} s and "
        f"then 2 (W - 1) / W S / B = {turns_s:.3f} s are {took_s[RING]:.4f} s. At 25 Gbit/s and below the "
        "distribution outlasts the forward pass, and the ring is ahead. The paper prints no time at 100 Gbit/s."
    )


@explains("netops-fig9", "grow")
def _network_modules(points: Points, _: Claim) -> Explanation:
    """What each module adds to the baseline and to the best: its gain is what all gains go towards."""
    run, added = MODULE_RUNS["network"][0], 125
    longer = f"{INCEPTION}+{added}network"
    facts, base = (
        points.model(run=name, model=model, strategy=BOTH) for name, model in ((run, longer), (MECHANISMS, INCEPTION))
    )
    computed = [sum(model.forward_s) + sum(model.backward_s) for model in (facts, base)]
    return Explanation(
        "A module gains hardly more than the model does",
        modules_gain_little_more(
            step_s={
                s: (time_s(points, longer, s, run) - time_s(points, INCEPTION, s)) / added for s in (BASELINE, BOTH)
            },
            compute_s=(computed[0] - computed[1]) / added,
            work=(sum(facts.flops) - sum(base.flops)) / added / sum(base.flops),
            now=time_s(points, INCEPTION, BASELINE) / time_s(points, INCEPTION, BOTH),
        ),
    )


def modules_gain_little_more(step_s: Mapping[str, float], compute_s: float, work: float, now: float) -> str:
    """step_s: what a module adds, by strategy. compute_s: its computation. work: its
    operations over the model's. now: gain without any."""
    towards = step_s[BASELINE] / step_s[BOTH]
    premise(
        close(compute_s, step_s[BOTH], 0.2),
        "a module to add little but its computation to multicast + aggregation",
        f"{step_s[BOTH] * 1e3:.0f} ms, of which {compute_s * 1e3:.0f} ms computation",
    )
    premise(
        towards < 1.1 * now,
        "a module to gain hardly more than the model does",
        f"{towards:.2f}x and {now:.2f}x",
    )
    return (
        f"A module adds {step_s[BASELINE] * 1e3:.0f} ms to the baseline, 2 W times its bytes, and "
        f"{step_s[BOTH] * 1e3:.0f} ms to multicast + aggregation, nearly all of it computation at the seconds per "
        f"operation of Inception-v3's other convolutions: {towards:.2f}x, which is what the gain goes towards from "
        f"the {now:.2f}x of the model as it is. It grows as long as a module costs less than "
        f"{step_s[BASELINE] / now * 1e3:.0f} ms; by operations one is {work:.0%} of the whole model."
    )


def _backward_and_late_s(points: Points, where: Where) -> tuple[float, float]:
    """The longest backward pass, and how long gradients still arrive at the server after the last one."""
    plan, log = points.plan(**where), points.log(**where)
    passes = phases(plan, log)
    arrived = arrivals_ns(plan, log, Role.SERVER, Combine.ADD)[1].max()
    backward_s = float((passes.backward_end - passes.backward_start).max()) / 1e9
    return backward_s, float(arrived - passes.backward_end.max()) / 1e9


@explains("netops-fig10", "agg-to-zero")
def _aggregation_fades(points: Points, _: Claim) -> Explanation:
    run = MODULE_RUNS["compute"][0]
    return Explanation(
        OF_A_MODULE,
        gradients_outlast_the_pass(
            {
                count: _backward_and_late_s(
                    points, {"run": run, "model": f"{INCEPTION}+{count}compute", "strategy": BASELINE}
                )
                for count in (25, 60, 125)
            }
        ),
    )


def gradients_outlast_the_pass(by_modules: Mapping[int, tuple[float, float]]) -> str:
    """What of the gradients' way the baseline's backward passes hide:
    their length, and how late the last gradient is."""
    shown = "; ".join(
        f"{count}: {backward_s:.2f} s, {late_s:.2f} s" for count, (backward_s, late_s) in by_modules.items()
    )
    late = [(float(count), late_s) for count, (_, late_s) in by_modules.items()]
    premise(
        decreasing(late) and late[0][1] > 0,
        "less and less of the gradients after the last backward pass, from something with the fewest modules on",
        shown,
    )
    return (
        "How long a backward pass lasts, and how long gradients still arrive after the last one, without support of "
        f"the network, by modules: {shown}. Aggregation can gain no more than what arrives late."
    )


@explains("netops-fig10", "multicast-catches")
def _multicast_catches(points: Points, _: Claim) -> Explanation:
    where: Where = {"run": MODULE_RUNS["compute"][0], "model": f"{INCEPTION}+25compute", "strategy": MULTICAST}
    backward_s, late_s = _backward_and_late_s(points, where)
    workers = len(points.plan(**where).workers)
    return Explanation(
        OF_A_MODULE, ingress_outlasts_the_pass(backward_s, late_s, workers * size_s(points, where), workers)
    )


def ingress_outlasts_the_pass(backward_s: float, late_s: float, ingress_s: float, workers: int) -> str:
    """With 25 modules. ingress_s: W S / B."""
    premise(
        ingress_s > backward_s and late_s > 0,
        "the server's port to need longer for the gradients than a backward pass takes",
        f"{ingress_s:.2f} and {backward_s:.2f} s, with {late_s:.2f} s left",
    )
    return (
        f"With 25 modules the backward pass takes {backward_s:.2f} s, and the server's port needs W S / B = "
        f"{ingress_s:.2f} s for the gradients of {workers} workers, most of which are ready in the first layers on "
        f"the way back: {late_s:.2f} s are left when it ends."
    )


@explains("netops-fig12", "crossover")
def _crossover(points: Points, _: Claim) -> Explanation:
    """What is on the critical path of both at the first speed above 1."""
    run, factors = FASTER[RESNET_200]
    wheres: dict[str, Where] = {
        s: {"run": run, "model": RESNET_200, "strategy": s, "conv": factors[0]} for s in (RING, BOTH)
    }
    return Explanation(
        "The ring gains from faster computation, too",
        ring_keeps_up(
            factors[0],
            {s: points.row(**where).iteration_time_s for s, where in wheres.items()},
            {s: sentence(points.point(**where)) for s, where in wheres.items()},
        ),
    )


def ring_keeps_up(factor: float, took_s: Mapping[str, float], sentences: Mapping[str, str]) -> str:
    """By strategy, with convolutions `factor` times as fast."""
    premise(
        took_s[RING] < took_s[BOTH] * (1 + AGREES),
        f"the ring to keep up with multicast + aggregation at {factor:g} times the speed",
        f"{took_s[RING]:.3f} and {took_s[BOTH]:.3f} s",
    )
    return (
        f"With convolutions {factor:g} times as fast, ring: {sentences[RING]} Multicast + aggregation: "
        f"{sentences[BOTH]} The paper's figure is a simulation of flows."
    )
