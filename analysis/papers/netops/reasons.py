"""Why some of NetOps' claims differ: what plans and logs say, beside what the paper prints for other cells."""

from __future__ import annotations

from gradwire.analysis.papers.evidence import Points, explains
from gradwire.analysis.papers.netops.points import (
    BASELINE,
    BITS,
    BOTH,
    BUTTERFLY,
    INCEPTION,
    MECHANISMS,
    MODELS,
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
    shares,
    time_s,
)
from gradwire.analysis.papers.reference import Claim, Where, printed_number
from gradwire.workloads.plan import Combine, Role


@explains("netops-table2", "inception-v3-layers", "vgg-16-layers")
def _one_layer_more(_: Points, __: Claim) -> str:
    return (
        "Weight and pooling layers, an Inception module as one: this gives the printed number for both ResNets, and one less for "
        "Inception-v3 and VGG-16. The paper does not list its layers; a softmax that counts as one would explain it."
    )


@explains("netops-table2", "inception-v3-size", "vgg-16-weights")
def _sizes(_: Points, claim: Claim) -> str:
    if claim.id == "vgg-16-weights":
        size_gbit = printed_number("netops", "netops-table2", "vgg-16-size")
        return f"The size in the same table, {size_gbit} Gbit, is {size_gbit * 1e9 / BITS:.4g} weights of 32 bits."
    return (
        "No known variant of Inception-v3 has the printed size; the paper filters its traces model by model (section 5) and does not "
        "say what is left."
    )


@explains("netops-table2", "resnet-101-flops")
def _operations(points: Points, claim: Claim) -> str:
    facts = points.model(**claim.where)
    convolutions = sum(flops for flops, kind in zip(facts.flops, facts.layer_kinds, strict=True) if kind == "conv")
    return (
        f"Convolutions alone take {convolutions:.3g} operations of {sum(facts.flops):.3g} a picture, a multiplication and an addition as "
        "two, by the same count that gives the printed numbers of the other three models within 5 %. The paper does not say how it counts."
    )


@explains("netops-table7", "inception-v3-4ps-max", "resnet-200-8ps-max")
@explains("netops-table7", "inception-v3-8ps-min", "resnet-200-8ps-min")
def _second_fullest(points: Points, claim: Claim) -> str:
    found = shares(points.model(**claim.where), points.plan(**claim.where))
    if claim.id.endswith("min"):
        return f"Printed with one digit: {found[-1]:.6f} rounds to {claim.printed:g}."
    known = (
        "Table 1's simulated times with 8 servers (2.29 s) need 0.33."
        if claim.id.startswith("resnet")
        else "With the least loaded two at 0.0007, two servers hold everything, so one must hold half."
    )
    return (
        f"The printed {claim.printed:g} is the share of the second fullest server ({found[1]:.4f}); the fullest one has {found[0]:.4f}. "
        f"The other cells of the table agree to three digits. {known}"
    )


@explains("netops-table1", "plateau", "vgg-16-sim-8ps")
def _last_on_its_server(points: Points, _: Claim) -> str:
    where: Where = {"run": "netops-table1", "model": VGG, "servers": 8}
    point, facts = points.point(**where), points.model(**where)
    plan, log = point.plan(), point.log()
    first, *_others, last = sorted((phases(plan, log).backward_start - begin_ns(plan, log)).tolist())
    workers = len(plan.workers)
    turn_s = workers * max(facts.tensor_parameters) * BITS / point.fabric.rate_bps
    return (
        f"With 8 servers, FC6 is the last parameter of its server, which sends it to one worker after another: the first worker goes back "
        f"{first / 1e9:.1f} s after the start and the last one after {last / 1e9:.1f} s, so that gradients arrive while parameters still "
        f"leave. The printed time is that of both turns one after the other (W FC6 / B = {turn_s:.1f} s each), as if no worker went back "
        "before all had their parameters; section 9.4 says that with this order 'workers progress at roughly the same pace'. With fewer "
        "servers FC8 follows FC6 on the same one, and they do."
    )


@explains("netops-table10", "rr-ingress-idle")
def _passes_overlap(points: Points, _: Claim) -> str:
    parts = []
    for model in MODELS:
        where: Where = {"run": "netops-table10", "model": model, "strategy": BASELINE, "rate": "10gbit"}
        facts = points.model(**where)
        parts.append(f"{NAMES[model]} {_size_s(points, where):.2f} s and {sum(facts.backward_s):.2f} s")
    return (
        "A worker has its parameters S / B after the one before it, and a backward pass outlasts that wherever it is longer. S / B at 10 "
        f"Gbit/s and the backward pass: {', '.join(parts)}. One at a time is what VGG-16's pass of Table 3 leads to, and no other."
    )


@explains("netops-table10", "block-like-agg")
def _last_worker_alone(points: Points, _: Claim) -> str:
    parts = []
    for model in MODELS:
        where: Where = {"run": "netops-table10", "model": model, "strategy": BASELINE, "rate": "100gbit"}
        plan, log = points.plan(**where), points.log(**where)
        found = phases(plan, log)
        alone_s = float(found.backward_end.max() - arrivals_ns(plan, log, Role.WORKER, Combine.COPY)[1].max()) / 1e9
        parts.append(f"{NAMES[model]} {alone_s:.2f} s of {points.row(**where).iteration_time_s:.2f} s")
    return (
        "In blocks, the last worker begins when everything has been sent, and both its passes follow; with aggregation, all workers' "
        "forward passes run beside the distribution. At 100 Gbit/s the last worker's passes are "
        f"{', '.join(parts)}. All workers take the slowest one's time here, as fitted on Table 6; in the paper each replays a trace of its "
        "own, and the last one need not be the slowest."
    )


@explains("netops-fig11", "butterfly-keeps-pace")
def _rounds_after_the_pass(points: Points, _: Claim) -> str:
    left_ms, took_s = {}, {}
    for strategy in (BUTTERFLY, RING):
        where: Where = {"run": "netops-fig11", "model": INCEPTION, "conv": 3, "strategy": strategy}
        plan, log = points.plan(**where), points.log(**where)
        took_s[strategy] = points.row(**where).iteration_time_s
        left_ms[strategy] = float(log.end_ns.max() - phases(plan, log).backward_end.max()) / 1e6
    return (
        f"At 3 times the speed the ring takes {took_s[RING]:.3f} s and butterfly mixing {took_s[BUTTERFLY]:.3f} s. In the logs butterfly "
        f"mixing goes on for {left_ms[BUTTERFLY]:.0f} ms after the last backward pass, and the ring for {left_ms[RING]:.0f} ms: a faster "
        "pass hides less of log2(W) turns of the whole model. Within 5 %, what a figure shows, would be keeping pace."
    )


@explains("netops-fig8", "ring-vs-multiagg-4")
def _four_workers(points: Points, _: Claim) -> str:
    where: Where = {"run": "netops-workers", "model": VGG, "workers": 4}
    ring, both = (points.row(strategy=strategy, **where).iteration_time_s for strategy in (RING, BOTH))
    facts = points.model(**where)
    size_s = facts.parameters * BITS / points.stored(**where)[0].fabric.rate_bps
    largest_s = max(facts.tensor_parameters) / facts.parameters * size_s
    return (
        f"Ring takes {ring:.3f} s: the forward pass of {sum(facts.forward_s):.3f} s and 2 (W - 1) / W S / B = {1.5 * size_s:.3f} s. "
        f"Multicast + aggregation takes {both:.3f} s: S / B = {size_s:.3f} s each way, and FC6 ({largest_s:.3f} s) once more, as the "
        "switch forwards it when it is whole. The paper's own cells for 32 workers fit these sums (0.683 and 0.765 s), of which only the "
        "ring's depends on W, and by 0.12 s; no number of the paper leads to twice as much."
    )


def _size_s(points: Points, where: Where) -> float:
    """S / B: the model once over a port at line rate."""
    return points.model(**where).parameters * BITS / points.point(**where).fabric.rate_bps


@explains("netops-table4", "multicast-size")
def _forward_grows_faster(points: Points, _: Claim) -> str:
    shown = []
    for model in (RESNET_101, RESNET_200):
        where: Where = {"run": MECHANISMS, "model": model, "strategy": MULTICAST}
        plan, log = points.plan(**where), points.log(**where)
        last_copy = arrivals_ns(plan, log, Role.WORKER, Combine.COPY)[1].max()
        forward_s = float(phases(plan, log).forward_end.max() - last_copy) / 1e9
        shown.append(f"{NAMES[model]} {forward_s:.3f} s of {points.row(**where).iteration_time_s:.2f} s")
    baseline_s = printed_number("netops", "netops-table4", "resnet-200-baseline-iter")
    twice_s = 2 * len(plan.workers) * _size_s(points, {"run": MECHANISMS, "model": RESNET_200, "strategy": BASELINE})
    return (
        f"With multicast the forward pass goes on behind the last parameter, {' and '.join(shown)}: the deeper network's is a larger share "
        f"of the iteration, which costs it more than its size gains. The printed gains are 3 % apart, and stand on a baseline of "
        f"{baseline_s:g} s for ResNet-200, where 2 W S / B is {twice_s:.2f} s."
    )


@explains("netops-fig5", "ring-ge-multiagg", "ring-gt-multiagg")
@explains("netops-sec87-ranking", "endhost-ge-network")
def _distribution_is_hidden(points: Points, _: Claim) -> str:
    where: Where = {"run": "netops-bandwidth", "model": VGG, "rate": "100gbit"}
    ring, both = (points.row(strategy=strategy, **where).iteration_time_s for strategy in (RING, BOTH))
    plan, log = points.plan(strategy=BOTH, **where), points.log(strategy=BOTH, **where)
    begin = begin_ns(plan, log)
    last_copy_s = float(arrivals_ns(plan, log, Role.WORKER, Combine.COPY)[1].max() - begin) / 1e9
    forward_s = float(phases(plan, log).forward_end.max() - begin) / 1e9
    turns_s = 2 * (1 - 1 / len(plan.workers)) * _size_s(points, {**where, "strategy": RING})
    return (
        f"At 100 Gbit/s multicast has brought all parameters after {last_copy_s:.3f} s, while the forward pass goes on until "
        f"{forward_s:.3f} s: the distribution is hidden, and the gradients' way back remains: {both:.4f} s. A ring hides neither turn "
        f"behind a forward pass (section 3.1): {sum(points.model(**where).forward_s):.3f} s and then 2 (W - 1) / W S / B = {turns_s:.3f} s "
        f"are {ring:.4f} s. At 25 Gbit/s and below the distribution outlasts the forward pass, and the ring is ahead. The paper prints no "
        "time at 100 Gbit/s."
    )


@explains("netops-fig9", "grow")
def _module_at_a_time(points: Points, _: Claim) -> str:
    """What each module adds to the baseline and to the best: its gain is what all gains go towards."""
    run, added = MODULE_RUNS["network"][0], 125
    longer = f"{INCEPTION}+{added}network"
    step = {
        strategy: (time_s(points, longer, strategy, run) - time_s(points, INCEPTION, strategy)) / added
        for strategy in (BASELINE, BOTH)
    }
    facts, base = (
        points.model(run=name, model=model, strategy=BOTH) for name, model in ((run, longer), (MECHANISMS, INCEPTION))
    )
    work = (sum(facts.flops) - sum(base.flops)) / added / sum(base.flops)
    now = time_s(points, INCEPTION, BASELINE) / time_s(points, INCEPTION, BOTH)
    return (
        f"A module adds {step[BASELINE] * 1e3:.0f} ms to the baseline, 2 W times its bytes, and {step[BOTH] * 1e3:.0f} ms to multicast + "
        f"aggregation, nearly all of it computation at the seconds per operation of Inception-v3's other convolutions: "
        f"{step[BASELINE] / step[BOTH]:.2f}x, which is what the gain goes towards from the {now:.2f}x of the model as it is. It grows as "
        f"long as a module costs less than {step[BASELINE] / now * 1e3:.0f} ms; by operations one is {work:.0%} of the whole model."
    )


@explains("netops-fig10", "agg-to-zero")
def _gradients_outlast_the_pass(points: Points, _: Claim) -> str:
    """What of the gradients' way the baseline's backward passes hide, by modules."""
    parts = []
    for count in (25, 60, 125):
        where: Where = {"run": MODULE_RUNS["compute"][0], "model": f"{INCEPTION}+{count}compute", "strategy": BASELINE}
        plan, log = points.plan(**where), points.log(**where)
        found = phases(plan, log)
        backward_s = float((found.backward_end - found.backward_start).max()) / 1e9
        arrived = arrivals_ns(plan, log, Role.SERVER, Combine.ADD)[1].max()
        parts.append(f"{count}: {backward_s:.2f} s, {float(arrived - found.backward_end.max()) / 1e9:.2f} s")
    return (
        "How long a backward pass lasts, and how long gradients still arrive after the last one, without support of the network, by "
        f"modules: {'; '.join(parts)}. Aggregation can gain no more than what arrives late. A module's time follows from its operations; "
        "the paper's comes out of a trace that is not printed."
    )


@explains("netops-fig10", "multicast-catches")
def _ingress_outlasts_backward(points: Points, _: Claim) -> str:
    where: Where = {"run": MODULE_RUNS["compute"][0], "model": f"{INCEPTION}+25compute", "strategy": MULTICAST}
    plan, log = points.plan(**where), points.log(**where)
    found = phases(plan, log)
    backward_s = float((found.backward_end - found.backward_start).max()) / 1e9
    arrived = arrivals_ns(plan, log, Role.SERVER, Combine.ADD)[1].max()
    left_s = float(arrived - found.backward_end.max()) / 1e9
    return (
        f"With 25 modules the backward pass takes {backward_s:.2f} s, and the server's port needs W S / B = "
        f"{len(plan.workers) * _size_s(points, where):.2f} s for the gradients of {len(plan.workers)} workers, most of which are ready "
        f"in the first layers on the way back: {left_s:.2f} s are left when it ends. A module's time follows from its operations; the "
        "paper's comes out of a trace that is not printed."
    )
