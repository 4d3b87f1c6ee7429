"""NetOps' claims on models, placement, the simulator's validation and the parameter server's variants.

Mechanisms and their sweeps: mechanisms.py. Why claims differ: explanations.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradwire.analysis.printed import MeasuredOrder
from gradwire.datatypes.plan import Combine, OpKind, Plan, Role
from gradwire.datatypes.records import OpLog
from reproduction.netops.points import (
    AGGREGATION,
    BANDWIDTH,
    BASELINE,
    BITS,
    BOTH,
    BUTTERFLY,
    INCEPTION,
    MECHANISMS,
    MODELS,
    MULTICAST,
    NAMES,
    PRINTED_AS,
    RESNET_200,
    RING,
    RING_MULTICAST,
    VGG,
    WORKERS,
    arrivals_ns,
    begin_ns,
    faster,
    layer_count,
    phases,
    ratios,
    shares,
    time_s,
    times,
    with_modules,
)
from reproduction.pages.curves import Curves, draws
from reproduction.scoring.evidence import Measured, ModelFacts, Points, measures, ranked
from reproduction.scoring.reference import Claim, printed_number
from reproduction.scoring.shapes import Series, close, non_increasing

TABLE_3_BPS = 25e9
TABLE_1 = "netops-table1"
VISIBLE = 0.05
"""What can be distinguished in a printed figure; Table 1's own plateau rises by more than that."""
SIMILAR = 0.10
""""Roughly the same": with the tolerance of a printed number as far apart as Table 10's own two cells are."""
ABOUT_ONE = 1.5
""""About one worker at a time": rounded, the mean number is not two."""
_TWO_ITERATIONS = [
    f"{m}-{c}"
    for m in ("vgg-16", "inception-v3", "resnet-101", "resnet-200")
    for c in ("barrier", "ring", "no-barrier")
]
SHORT = {
    AGGREGATION: "Aggregation",
    MULTICAST: "Multicast",
    BOTH: "Multicast + aggregation",
    RING: "Ring",
    RING_MULTICAST: "Ring + multicast",
    BUTTERFLY: "Butterfly",
}
GBIT = 1e9
SPEEDUP = "speed-up over one server"


@measures("netops-table2", *[f"{m}-layers" for m in ("inception-v3", "vgg-16", "resnet-101", "resnet-200")])
def _layers(points: Points, claim: Claim) -> Measured:
    return Measured(float(layer_count(points.model(**claim.where))), detail="counted from the profile")


@measures("netops-table2", *[f"{m}-size" for m in ("inception-v3", "vgg-16", "resnet-101", "resnet-200")])
def _size(points: Points, claim: Claim) -> Measured:
    return Measured(_size_bits(points.model(**claim.where)) / 1e9, detail="parameters of the profile, 32 bits each")


@measures("netops-table2", *[f"{m}-weights" for m in ("inception-v3", "vgg-16", "resnet-101", "resnet-200")])
def _weights(points: Points, claim: Claim) -> Measured:
    return Measured(float(points.model(**claim.where).parameters), detail="parameters of the profile")


@measures("netops-table2", *[f"{m}-flops" for m in ("inception-v3", "vgg-16", "resnet-101", "resnet-200")])
def _flops(points: Points, claim: Claim) -> Measured:
    return Measured(sum(points.model(**claim.where).flops), detail="of one sample's forward pass, from the profile")


@measures("netops-table2", "vgg16-fc6")
def _largest(points: Points, claim: Claim) -> Measured:
    largest = max(points.model(**claim.where).tensor_parameters)
    return Measured(largest * BITS / 1e9, detail="the profile's largest tensor")


def _size_bits(model: ModelFacts) -> float:
    return model.parameters * BITS


@measures("netops-table3", *[f"{m}-fwd" for m in ("inception-v3", "vgg-16", "resnet-101", "resnet-200")])
@measures("netops-table3", *[f"{m}-bwd" for m in ("inception-v3", "vgg-16", "resnet-101", "resnet-200")])
def _compute(points: Points, claim: Claim) -> Measured:
    model = points.model(**claim.where)
    return Measured(
        sum(model.forward_s if claim.id.endswith("fwd") else model.backward_s), detail="the profile's input"
    )


@measures("netops-table3", *[f"{m}-net" for m in ("inception-v3", "vgg-16", "resnet-101", "resnet-200")])
@measures("netops-table3", *[f"{m}-ratio" for m in ("inception-v3", "vgg-16", "resnet-101", "resnet-200")])
def _network(points: Points, claim: Claim) -> Measured:
    model = points.model(**claim.where)
    network_s = _size_bits(model) / TABLE_3_BPS
    value = network_s if claim.id.endswith("net") else sum(model.backward_s) / network_s
    return Measured(value, detail="size of the profile over 25 Gbit/s")


@measures("netops-table7", *[f"{m}-{n}ps-min" for m in ("vgg-16", "inception-v3", "resnet-200") for n in (4, 8)])
@measures("netops-table7", *[f"{m}-{n}ps-max" for m in ("vgg-16", "inception-v3", "resnet-200") for n in (4, 8)])
def _share(points: Points, claim: Claim) -> Measured:
    of_servers = shares(points.model(**claim.where), points.plan(**claim.where))
    return Measured(
        of_servers[0] if claim.id.endswith("max") else of_servers[-1], detail="computed from the compiled plan"
    )


@measures("netops-table7", *[f"{m}-{n}ps-ideal" for m in ("vgg-16", "inception-v3", "resnet-200") for n in (4, 8)])
def _ideal(points: Points, claim: Claim) -> Measured:
    return Measured(1 / len(shares(points.model(**claim.where), points.plan(**claim.where))), detail="one over servers")


@measures("netops-table1", "plateau")
def _plateau(points: Points, _: Claim) -> Measured:
    """More servers never cost time, the most give less than half of their
    number, and VGG-16 gains less than a quarter."""
    shown, falls, short = [], [], []
    for model in MODELS:
        series = [
            (servers, row.iteration_time_s) for servers, row in points.series("servers", model=model, run=TABLE_1)
        ]
        falls.append(non_increasing(series, VISIBLE))
        speedup = series[0][1] / series[-1][1]
        short.append(speedup < series[-1][0] / 2)
        shown.append(f"{NAMES[model]} {speedup:.2f}x")
        if model == VGG:
            short.append(speedup < 1.25)
    return Measured(f"8 servers over 1: {', '.join(shown)}", holds=all(falls) and all(short))


@measures("netops-fig2", "sync-noagg", "sync-agg", "stag-noagg")
def _toy(points: Points, claim: Claim) -> Measured:
    return Measured(_aggregation_s(points, str(claim.where["strategy"])), detail="from the op log")


@measures("netops-fig2", "sync-gain", "stag-gain")
def _toy_gain(points: Points, claim: Claim) -> Measured:
    without = {"sync-gain": "multicast-ps", "stag-gain": BASELINE}[claim.id]
    aggregated = _aggregation_s(points, str(claim.where["strategy"]))
    return Measured(1 - aggregated / _aggregation_s(points, without), detail="from the op logs")


def _aggregation_s(points: Points, strategy: str) -> float:
    """From the first worker's backward pass to the last gradient at the server."""
    plan, log = points.plan(strategy=strategy), points.log(strategy=strategy)
    _, ends = arrivals_ns(plan, log, Role.SERVER, Combine.ADD)
    return float(ends.max() - phases(plan, log).backward_start.min()) / 1e9


@measures("netops-sec821-nomsg", "formula")
def _whole_ring(points: Points, _: Claim) -> Measured:
    row, model = points.row(), points.model()
    workers, rate_bps = int(row.parameters["workers"]), points.stored()[0].fabric.rate_bps
    expected_s = 2 * (workers - 1) * max(model.tensor_parameters) * BITS / rate_bps
    text = f"{row.iteration_time_s:.2f} s; the formula gives {expected_s:.2f} s without computation and headers"
    return Measured(text, holds=close(row.iteration_time_s, expected_s, 0.05))


@measures("netops-sec84-ring-multicast", "formula")
def _second_turn(points: Points, _: Claim) -> Measured:
    received = {}
    for strategy in (RING, RING_MULTICAST):
        plan = points.plan(run=MECHANISMS, model=VGG, strategy=strategy)
        copies = (plan.ops.kind == OpKind.RECV) & (plan.ops.combine == Combine.COPY) & (plan.ops.chunk >= 0)
        to_first = copies & (plan.ops.rank == plan.workers[0])
        received[strategy] = plan.ops.size_bytes[to_first].sum() / plan.chunk_bytes.sum()
    workers = len(plan.workers)
    share = received[RING] / received[RING_MULTICAST]
    text = (
        f"a worker receives {received[RING]:.4f} of the model in the ring's second turn and "
        f"{received[RING_MULTICAST]:.4f} by multicast, where it needs no separate part either"
    )
    holds = close(received[RING], 1 - 1 / workers, 0.01) and close(share, 1 - 1 / workers, 0.05)
    return Measured(text, holds=holds, detail="computed from the compiled plans")


@measures("netops-sec92-messaging", "ps-none")
def _ps_messaging(points: Points, _: Claim) -> Measured:
    gains = _ps_gains(points)
    worst = max(gains, key=lambda model: abs(gains[model] - 1))
    shown = ", ".join(f"{NAMES[model]} {value:.3f}x" for model, value in gains.items())
    return Measured(gains[worst], detail=f"the model furthest from 1: {shown}")


def _ps_gains(points: Points) -> dict[str, float]:
    return {m: time_s(points, m, BASELINE) / time_s(points, m, BASELINE, "netops-sec92-ps") for m in MODELS}


@measures("netops-sec92-messaging", "ring-benefits")
def _ring_messaging(points: Points, _: Claim) -> Measured:
    gains = {
        m: time_s(points, m, RING, "netops-sec92-ring") / time_s(points, m, RING)
        for m in MODELS
        if any(p.parameters["run"] == "netops-sec92-ring" for p in points.stored(model=m))
    }
    gains[VGG] = time_s(points, VGG, RING, "netops-sec821") / time_s(
        points, VGG, RING, "netops-bandwidth", rate="10gbit"
    )
    shown = ", ".join(f"{NAMES[model]} {value:.2f}x" for model, value in gains.items())
    servers = max(_ps_gains(points).values())
    text = f"ring with messages over without: {shown}; parameter server: {servers:.2f}x at most"
    return Measured(text, holds=min(gains.values()) > 1 + VISIBLE > servers and gains[VGG] > 2)


@measures("netops-table9", *_TWO_ITERATIONS)
def _two_iterations(points: Points, claim: Claim) -> Measured:
    return Measured(2 * points.row(**claim.where).iteration_time_s, detail="twice the iteration time")


@measures("netops-table10", "block-beats-rr")
def _block_order(points: Points, _: Claim) -> Measured:
    orders = []
    for model in MODELS:
        block = time_s(points, model, BASELINE, "netops-table10", rate="10gbit")
        in_turn = time_s(points, model, BASELINE, "netops-sec94")
        orders.append(
            MeasuredOrder({"block distribution": 1 / block, "round-robin distribution": 1 / in_turn}, row=NAMES[model])
        )
    return ranked(*orders, detail="10 Gbit/s")


@measures("netops-table10", "rr-ingress-idle")
def _ingress(points: Points, _: Claim) -> Measured:
    """The server's ingress is idle while it distributes round robin, and not
    with blocks, in which few workers go back at a time."""
    shown, holds = [], []
    for model in MODELS:
        idle, at_once = {}, {}
        for name, where in (
            ("round robin", {"run": "netops-sec94"}),
            ("block", {"run": "netops-table10", "rate": "10gbit"}),
        ):
            plan = points.plan(model=model, strategy=BASELINE, **where)
            log = points.log(model=model, strategy=BASELINE, **where)
            idle[name], at_once[name] = _idle_share(plan, log), _backward_at_once(plan, log)
        holds.append(idle["round robin"] > 0.85 and idle["block"] < 0.15 and at_once["block"] < ABOUT_ONE)
        shown.append(
            f"{NAMES[model]} {idle['round robin']:.0%} and {idle['block']:.0%}, {at_once['round robin']:.0f} and "
            f"{at_once['block']:.1f} workers"
        )
    text = f"ingress idle of the distribution, and workers in their backward pass at a time, round robin and block: {'; '.join(shown)}"
    return Measured(text, holds=all(holds), detail="from the op logs")


def _idle_share(plan: Plan, log: OpLog) -> float:
    """Share of the distribution's time before the first gradient reaches the server."""
    begin = begin_ns(plan, log)
    first_push = arrivals_ns(plan, log, Role.SERVER, Combine.ADD)[0].min()
    last_copy = arrivals_ns(plan, log, Role.WORKER, Combine.COPY)[1].max()
    return float(min(1.0, (first_push - begin) / (last_copy - begin)))


def _backward_at_once(plan: Plan, log: OpLog) -> float:
    """Mean number of workers in their backward pass, while any is."""
    passes = phases(plan, log)
    busy = (passes.backward_end - passes.backward_start).sum()
    return float(busy / (passes.backward_end.max() - passes.backward_start.min()))


@measures("netops-table10", "block-like-agg")
def _block_like_aggregation(points: Points, _: Claim) -> Measured:
    """As far apart as printed; and where the network time N is above the backward pass BN (B1 is 0 here), as fast."""
    shown, holds = [], []
    for model in MODELS:
        facts = points.model(model=model)
        for rate_gbps in (10, 100):
            block, aggregated = (
                time_s(points, model, strategy, "netops-table10", rate=f"{rate_gbps}gbit")
                for strategy in (BASELINE, AGGREGATION)
            )
            ratio = block / aggregated
            bound_by_network = _size_bits(facts) / (rate_gbps * 1e9) > sum(facts.backward_s)
            cells = [f"{PRINTED_AS[model]}-{rate_gbps}g-{column}" for column in ("block", "agg")]
            printed = printed_number("netops", "netops-table10", cells[0]) / printed_number(
                "netops", "netops-table10", cells[1]
            )
            holds.append(ratio < (1 + VISIBLE if bound_by_network else max(1.0, printed) * (1 + SIMILAR)))
            note = "N > BN" if bound_by_network else f"printed {printed:.2f}"
            shown.append(f"{NAMES[model]} {rate_gbps}G {ratio:.2f} ({note})")
    return Measured(f"time with block distribution over aggregation: {', '.join(shown)}", holds=all(holds))


def _curves_of(by_strategy: Mapping[str, Series]) -> Mapping[str, Series]:
    return {SHORT[strategy]: series for strategy, series in by_strategy.items() if series}


def _over_bandwidth(model: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        by_strategy = {s: times(points, BANDWIDTH, "rate", model, s) for s in (RING, BOTH, BUTTERFLY)}
        return _curves_of(
            {s: [(rate / GBIT, seconds) for rate, seconds in series] for s, series in by_strategy.items()}
        )

    return curves


def _over_workers(model: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        baseline = times(points, WORKERS, "workers", model, BASELINE)
        mechanisms = (RING, BOTH, RING_MULTICAST) if model == INCEPTION else (RING, BOTH)
        return _curves_of({s: ratios(baseline, times(points, WORKERS, "workers", model, s)) for s in mechanisms})

    return curves


def _with_modules(kind: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        return _curves_of({s: with_modules(points, kind, s) for s in (RING, BOTH, BUTTERFLY, MULTICAST, AGGREGATION)})

    return curves


def _faster(model: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        return _curves_of({s: faster(points, model, s) for s in (RING, BOTH, BUTTERFLY)})

    return curves


for number, model in ((3, INCEPTION), (4, RESNET_200), (5, VGG)):
    draws(
        f"netops-fig{number}", f"Fig. {number}: {NAMES[model]}, 32 workers", "Gbit/s", "iteration time (s)", log_x=True
    )(_over_bandwidth(model))
for number, model in ((6, INCEPTION), (7, RESNET_200), (8, VGG)):
    draws(f"netops-fig{number}", f"Fig. {number}: {NAMES[model]}, 25 Gbit/s", "workers", SPEEDUP)(_over_workers(model))
for number, kind in ((9, "network"), (10, "compute")):
    draws(f"netops-fig{number}", f"Fig. {number}: Inception-v3 and {kind}-intensive modules", "modules added", SPEEDUP)(
        _with_modules(kind)
    )
for number, model in ((11, INCEPTION), (12, RESNET_200)):
    draws(f"netops-fig{number}", f"Fig. {number}: {NAMES[model]}, faster convolutions", "times the speed", SPEEDUP)(
        _faster(model)
    )
