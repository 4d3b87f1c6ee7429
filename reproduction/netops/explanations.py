"""Why some of NetOps' claims on models, placement and distribution differ. Mechanisms: mechanism_explanations.py.

Each bound function reads the numbers that the function named after its argument argues from
(reproduction/scoring/explanations.py). W: workers. S: bits of the model. B: rate of a port.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gradwire.datatypes.plan import Combine, Role
from reproduction.netops.points import (
    AGGREGATION,
    BASELINE,
    BITS,
    MODELS,
    NAMES,
    PRINTED_AS,
    VGG,
    arrivals_ns,
    layer_count,
    phases,
    shares,
    size_s,
    time_s,
)
from reproduction.scoring.evidence import Points
from reproduction.scoring.explanations import Explanation, explains, premise
from reproduction.scoring.reference import Claim, Where, printed_number
from reproduction.scoring.shapes import close

_printed = partial(printed_number, "netops")

GBIT = 1e9


@explains("netops-table2", "inception-v3-layers", "vgg-16-layers")
def _layers(points: Points, _: Claim) -> Explanation:
    return Explanation(
        "The paper counts one layer more in two models",
        one_layer_more(
            counted={name: layer_count(points.model(model=model)) for model, name in PRINTED_AS.items()},
            printed={name: _printed("netops-table2", f"{name}-layers") for name in PRINTED_AS.values()},
        ),
    )


def one_layer_more(counted: Mapping[str, float], printed: Mapping[str, float]) -> str:
    """One way of counting fits two models, and is one short for the other two."""
    more = {name: printed[name] - counted[name] for name in printed}
    premise(
        more == {"inception-v3": 1, "vgg-16": 1, "resnet-101": 0, "resnet-200": 0},
        "as many layers as printed in both ResNets, and one less in Inception-v3 and VGG-16",
        ", ".join(f"{name}: {counted[name]:g} of {printed[name]:g}" for name in printed),
    )
    return (
        "Weight and pooling layers, an Inception module as one: this gives the printed number for both ResNets, and "
        "one less for Inception-v3 and VGG-16. The paper does not list its layers; a softmax that counts as one "
        "would explain it."
    )


@explains("netops-table2", "inception-v3-size")
def _inception_size(points: Points, claim: Claim) -> Explanation:
    assert isinstance(claim.printed, float)
    return Explanation(
        "The paper filters its traces",
        paper_filters_its_traces(points.model(**claim.where).parameters * BITS / GBIT, claim.printed),
    )


def paper_filters_its_traces(size_gbit: float, printed_gbit: float) -> str:
    """The profile holds more than the paper's trace."""
    premise(
        size_gbit > printed_gbit,
        "a profile that is larger than printed, as a filtered trace is smaller than its model",
        f"{size_gbit:.4g} and {printed_gbit:.4g} Gbit",
    )
    return (
        f"No variant of Inception-v3 that is known here has {printed_gbit:g} Gbit; the paper filters its traces model "
        "by model (section 5) and does not say what is left."
    )


@explains("netops-table2", "vgg-16-weights")
def _vgg_weights(points: Points, claim: Claim) -> Explanation:
    return Explanation(
        "The same table prints the size of more weights",
        size_in_the_same_table(points.model(**claim.where).parameters, _printed("netops-table2", "vgg-16-size")),
    )


def size_in_the_same_table(parameters: int, size_gbit: float) -> str:
    """The printed size leads to another number of weights than the one next to it."""
    weights = size_gbit * GBIT / BITS
    premise(
        close(parameters, weights, 0.01),
        "as many weights in the profile as the printed size leads to",
        f"{parameters:.4g} and {weights:.4g}",
    )
    return f"The size in the same table, {size_gbit:g} Gbit, is {weights:.4g} weights of {BITS} bits."


@explains("netops-table2", "resnet-101-flops")
def _operations(points: Points, claim: Claim) -> Explanation:
    facts = points.model(**claim.where)
    others = {model: name for model, name in PRINTED_AS.items() if claim.id != f"{name}-flops"}
    return Explanation(
        "The paper does not say how it counts operations",
        same_count_fits_the_others(
            flops=sum(facts.flops),
            convolution_flops=sum(f for f, kind in zip(facts.flops, facts.layer_kinds, strict=True) if kind == "conv"),
            over_printed={
                name: sum(points.model(model=model).flops) / _printed("netops-table2", f"{name}-flops")
                for model, name in others.items()
            },
        ),
    )


COUNTS_AGREE = 0.05


def same_count_fits_the_others(flops: float, convolution_flops: float, over_printed: Mapping[str, float]) -> str:
    """over_printed: what the same count gives for the other models, over what is printed for them."""
    premise(
        all(close(ratio, 1, COUNTS_AGREE) for ratio in over_printed.values()),
        f"the printed operations of the other models within {COUNTS_AGREE:.0%}",
        ", ".join(f"{name} {ratio:.3f} of it" for name, ratio in over_printed.items()),
    )
    return (
        f"Convolutions alone take {convolution_flops:.3g} operations of {flops:.3g} a picture, a multiplication and "
        "an addition as two, by the same count that gives the printed numbers of the other three models within "
        f"{COUNTS_AGREE:.0%}. The paper does not say how it counts."
    )


@explains("netops-table7", "inception-v3-8ps-min", "resnet-200-8ps-min")
def _one_digit(points: Points, claim: Claim) -> Explanation:
    assert isinstance(claim.printed, float)
    share = shares(points.model(**claim.where), points.plan(**claim.where))[-1]
    seen = printed_with_one_digit(share, claim.printed)
    return Explanation("The table prints one digit", "A share with one digit is no closer to the measured one.", seen)


def printed_with_one_digit(share: float, printed: float) -> str:
    """The printed share is the measured one, rounded."""
    premise(
        float(f"{share:.0e}") == printed,
        f"a share that rounds to the printed {printed:g}",
        f"{share:.6f}",
    )
    return f"{share:.6f} rounds to {printed:g}."


@explains("netops-table7", "inception-v3-4ps-max")
def _inception_share(points: Points, claim: Claim) -> Explanation:
    assert isinstance(claim.printed, float)
    of_servers = shares(points.model(**claim.where), points.plan(**claim.where))
    return _not_the_fullest(f"{second_fullest(of_servers, claim.printed)} {two_hold_everything(of_servers)}")


@explains("netops-table7", "resnet-200-8ps-max")
def _resnet_share(points: Points, claim: Claim) -> Explanation:
    assert isinstance(claim.printed, float)
    of_servers = shares(points.model(**claim.where), points.plan(**claim.where))
    eight_s, one_s = (_printed("netops-table1", f"resnet-200-sim-{servers}ps") for servers in (8, 1))
    more = times_ask_for_more(of_servers[0], claim.printed, eight_s, one_s)
    return _not_the_fullest(f"{second_fullest(of_servers, claim.printed)} {more}")


def _not_the_fullest(seen: str) -> Explanation:
    argument = "What is printed for the most loaded server is the share of the second one."
    return Explanation("The printed share is not the fullest server's", argument, seen)


def second_fullest(of_servers: list[float], printed: float) -> str:
    """Shares of the servers, the fullest first: what is printed for the fullest one is the next one's."""
    premise(
        abs(of_servers[1] - printed) <= 0.005,
        f"the second fullest server to hold the printed {printed:g}",
        ", ".join(f"{share:.4f}" for share in of_servers[:3]),
    )
    return (
        f"The printed {printed:g} is the share of the second fullest server ({of_servers[1]:.4f}); "
        f"the fullest one has {of_servers[0]:.4f}."
    )


def two_hold_everything(of_servers: list[float]) -> str:
    """One of two servers that hold everything holds at least half."""
    premise(
        sum(of_servers[2:]) <= 0.01,
        "next to nothing on all but two servers",
        ", ".join(f"{share:.4f}" for share in of_servers),
    )
    return f"With the least loaded two at {of_servers[-1]:.4f}, two servers hold everything, so one must hold half."


def times_ask_for_more(share: float, printed_share: float, eight_s: float, one_s: float) -> str:
    """Simulated times with eight servers and with one, which holds everything."""
    premise(
        abs(eight_s / one_s - share) < abs(eight_s / one_s - printed_share),
        f"Table 1's simulated times to ask for the fullest server's {share:.2f} rather than for {printed_share:.2f}",
        f"{eight_s:g} s of {one_s:g} s",
    )
    return f"Table 1's simulated time with 8 servers, {eight_s:g} s, is {eight_s / one_s:.2f} of that with one."


@explains("netops-table10", "rr-ingress-idle")
def _ingress(points: Points, _: Claim) -> Explanation:
    wheres: dict[str, Where] = {
        model: {"run": "netops-table10", "model": model, "strategy": BASELINE, "rate": "10gbit"} for model in MODELS
    }
    return Explanation(
        "Backward passes of several workers overlap",
        passes_overlap(
            distance_s={model: size_s(points, where) for model, where in wheres.items()},
            backward_s={model: sum(points.model(**where).backward_s) for model, where in wheres.items()},
        ),
    )


def passes_overlap(distance_s: Mapping[str, float], backward_s: Mapping[str, float]) -> str:
    """By model: S / B, by which workers follow one another, and the backward pass."""
    shown = ", ".join(f"{NAMES[model]} {distance_s[model]:.2f} s and {backward_s[model]:.2f} s" for model in distance_s)
    alone = [model for model in distance_s if backward_s[model] < distance_s[model]]
    premise(alone == [VGG], "a backward pass that is over before the next worker's begins in VGG-16 alone", shown)
    return (
        "A worker has its parameters S / B after the one before it, and a backward pass outlasts that wherever it is "
        f"longer. S / B at 10 Gbit/s and the backward pass: {shown}. One at a time is what VGG-16's pass of Table 3 "
        "leads to, and no other."
    )


@explains("netops-table10", "block-like-agg")
def _block_like_aggregation(points: Points, _: Claim) -> Explanation:
    alone_s, block_s, aggregated_s = {}, {}, {}
    for model in MODELS:
        where: Where = {"run": "netops-table10", "model": model, "strategy": BASELINE, "rate": "100gbit"}
        plan, log = points.plan(**where), points.log(**where)
        last_copy_ns = arrivals_ns(plan, log, Role.WORKER, Combine.COPY)[1].max()
        alone_s[model] = float(phases(plan, log).backward_end.max() - last_copy_ns) / 1e9
        block_s[model], aggregated_s[model] = (
            time_s(points, model, strategy, "netops-table10", rate="100gbit") for strategy in (BASELINE, AGGREGATION)
        )
    return Explanation(
        "In blocks, the last worker's passes follow the whole distribution",
        last_worker_passes_alone(alone_s, block_s, aggregated_s),
    )


def last_worker_passes_alone(
    alone_s: Mapping[str, float], block_s: Mapping[str, float], aggregated_s: Mapping[str, float]
) -> str:
    """By model: what follows the last parameter with blocks, and iterations with blocks and with aggregation."""
    shown = ", ".join(f"{NAMES[model]} {alone_s[model]:.2f} s of {block_s[model]:.2f} s" for model in alone_s)
    premise(
        all(alone_s[model] >= block_s[model] - aggregated_s[model] for model in alone_s),
        "passes after the last parameter that cover all that blocks lose to aggregation",
        f"{shown}, where aggregation takes {', '.join(f'{time_s:.2f} s' for time_s in aggregated_s.values())}",
    )
    return (
        "In blocks, the last worker begins when everything has been sent, and both its passes follow; with "
        "aggregation, all workers' forward passes run during the distribution. At 100 Gbit/s the last worker's "
        f"passes are {shown}. All workers take the slowest one's time here, as fitted on Table 6; in the paper each "
        "replays another trace, and the last one need not be the slowest."
    )
