"""Evidence for TicTac's throughput claims: gains by workers, servers, batch
and order (Figs. 7, 9, 10 and 13), and its toys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np

from gradwire.analysis.printed import MeasuredOrder
from gradwire.datatypes.plan import OpKind
from gradwire.workloads.strategies.tictac import LATE_SHARE, almost_ordered
from reproduction.measuring import begin_ns
from reproduction.pages.curves import Curves, draws
from reproduction.scoring.evidence import Measured, ModelFacts, PointEvidence, Points, measures, ranked
from reproduction.scoring.reference import Claim, printed_fact
from reproduction.scoring.shapes import VISIBLE, Series, unimodal
from reproduction.tictac.efficiency import schedules

Model = TypeVar("Model")
BASELINE = "almost-layer"
WORKLOADS = ("training", "inference")
MARGINAL = 0.05
"""Share of the step time: about what can be distinguished in a printed figure."""
UNIT_S = 0.05
"""Unit of time of Fig. 1's toy, as in its scenario."""
TABLE_1 = (
    "alexnet-v2",
    "inception-v1",
    "inception-v2",
    "inception-v3",
    "resnet-50-v1",
    "resnet-101-v1",
    "resnet-50-v2",
    "resnet-101-v2",
    "vgg-16",
    "vgg-19",
)


def models_of(points: Points) -> list[str]:
    """The models of a scenario's points, smallest first."""
    sizes = {point.parameters["model"]: point.model.parameters for point in points.stored()}
    return sorted(sizes, key=sizes.__getitem__)


def gain(points: Points, order: str = "tic", **where: str | int) -> float:
    """Throughput with an order over that without one, the mean time of all draws."""
    ours, theirs = (points.row(order=name, **where) for name in (order, BASELINE))
    return ours.throughput_per_s / theirs.throughput_per_s


def gains_by(points: Points, key: str, **where: str | int) -> Series:
    """Gains of TIC by the number that `key` is, rising."""
    ours, theirs = (points.series(key, order=name, **where) for name in ("tic", BASELINE))
    return [(x, a.throughput_per_s / b.throughput_per_s) for (x, a), (_, b) in zip(ours, theirs, strict=True)]


def halves(models: Sequence[Model]) -> tuple[Sequence[Model], Sequence[Model]]:
    """The smaller and the larger half of models that are sorted by size;
    of an odd number the middle one is left out."""
    return models[: len(models) // 2], models[(len(models) + 1) // 2 :]


def gains_by_workers(points: Points, claim: Claim) -> dict[tuple[str, str, int], float]:
    """Gains of TIC by model, workload and number of workers, in the claim's workload or in both."""
    workloads = [str(claim.where["workload"])] if "workload" in claim.where else WORKLOADS
    return {
        (model, workload, int(workers)): value
        for model in models_of(points)
        for workload in workloads
        for workers, value in gains_by(points, "workers", model=model, workload=workload)
    }


@measures("tictac-abstract", "inference-max", "training-max")
@measures("tictac-fig7", "max", "min")
def _extreme_gain(points: Points, claim: Claim) -> Measured:
    gains = gains_by_workers(points, claim)
    at = (min if claim.id == "min" else max)(gains, key=gains.__getitem__)
    return Measured(gains[at], detail=f"over models and numbers of workers: {at[0]}, {at[1]}, {at[2]} workers")


@measures("tictac-fig7", "larger-nets")
@measures("tictac-fig9", "larger-nets")
def _larger_gain_more(points: Points, _: Claim) -> Measured:
    """The larger half of the models gains more on average, and in Fig. 9 visibly so with most servers."""
    key = "workers" if _varies(points, "workers") else "servers"
    parts, holds = [], True
    for workload in WORKLOADS:
        by_model = {m: gains_by(points, key, model=m, workload=workload) for m in models_of(points)}
        small, large = ([by_model[model] for model in half] for half in halves(models_of(points)))
        means = [float(np.mean([y for series in group for _, y in series])) for group in (small, large)]
        holds &= means[1] > means[0]
        parts.append(f"{workload}: {means[0] - 1:.1%} and {means[1] - 1:.1%}")
        if key == "servers":
            last = float(np.mean([series[-1][1] for series in large]))
            holds &= last > 1 + VISIBLE
            parts[-1] += f" (with most servers {last - 1:.1%})"
    return Measured(f"mean gain of the smaller and the larger half; {'; '.join(parts)}", holds=holds)


def _varies(points: Points, key: str) -> bool:
    return len({point.parameters.get(key) for point in points.stored()}) > 1


@measures("tictac-fig7", "threshold")
def _threshold(points: Points, _: Claim) -> Measured:
    """Each model's gain rises to its largest value and falls after it, as a figure shows it; not all at the same
    number of workers.

    The figure's range of workers ends before the threshold of some models, so a fall that is seen is asked of some in
    each workload.
    """
    parts, peaks, holds = [], set(), True
    for workload in WORKLOADS:
        falls = False
        for model in models_of(points):
            series = gains_by(points, "workers", model=model, workload=workload)
            best = max(series, key=lambda pair: pair[1])
            holds &= unimodal(series, VISIBLE)
            peaks.add(best[0])
            falls |= series[-1][1] < best[1] * (1 - VISIBLE)
            parts.append(f"{model} {workload} {', '.join(f'{y:.2f}' for _, y in series)}")
        holds &= falls
    return Measured(f"gain by workers: {'; '.join(parts)}", holds=holds and len(peaks) > 1)


@measures("tictac-fig9", "inference-gt-training")
def _inference_gains_more(points: Points, _: Claim) -> Measured:
    orders = []
    for model in models_of(points):
        scores = {
            f"{workload} gain": float(
                np.mean([y for _, y in gains_by(points, "servers", model=model, workload=workload)])
            )
            for workload in WORKLOADS
        }
        orders.append(MeasuredOrder(scores, row=model))
    return ranked(*orders, detail="mean gain over the numbers of servers")


def loads_s(point: PointEvidence) -> tuple[float, float]:
    """A worker's communication and computation in an iteration: how long
    TIC's run kept its channels and its GPU busy."""
    record = point.record()
    upper_s = float(schedules(point.plan(), point.log(), record.iterations).upper_s[record.warmup :].mean())
    computed_s = compute_s(point.model, point.parameters["workload"])
    return upper_s - computed_s, computed_s


def compute_s(model: ModelFacts, workload: str) -> float:
    """Computation of an iteration."""
    return sum(model.forward_s) + (sum(model.backward_s) if workload == "training" else 0.0)


def _gains_by_load(points: Points, model: str, workload: str) -> Series:
    """Gain by communication over computation, from the smallest batch to the largest."""
    series = []
    for batch, value in gains_by(points, "batch", model=model, workload=workload):
        point = points.point(model=model, workload=workload, order="tic", batch=int(batch))
        communication_s, computation_s = loads_s(point)
        series.append((communication_s / computation_s, value))
    return series


@measures("tictac-fig10", "overlap-opportunity")
def _by_batch(points: Points, _: Claim) -> Measured:
    """From one batch to the next: communication longer than computation at
    both, the gain rises; shorter at both, it falls."""
    parts, holds, decided = [], True, 0
    for workload in WORKLOADS:
        for model in models_of(points):
            series = _gains_by_load(points, model, workload)
            for (ratio, before), (other, after) in pairwise(series):
                if (ratio > 1) == (other > 1):
                    decided += 1
                    holds &= after > before if ratio > 1 else after < before
            parts.append(f"{model} {workload} {', '.join(f'{y:.2f} at {x:.2g}' for x, y in series)}")
    return Measured(f"gain at communication over computation: {'; '.join(parts)}", holds=holds and decided > 0)


def fig13_gains(points: Points) -> dict[tuple[str, str], dict[str, float]]:
    """Gain of each order by model and workload, of which a quick run has but one."""
    workloads = sorted({point.parameters["workload"] for point in points.stored()})
    return {
        (model, workload): {order: gain(points, order, model=model, workload=workload) for order in ("tic", "tac")}
        for model in models_of(points)
        for workload in workloads
    }


@measures("tictac-fig13", "tic-close")
def _tic_is_close(points: Points, _: Claim) -> Measured:
    """TIC within 5 % of TAC everywhere; both above no scheduling everywhere,
    and visibly so where there is something to gain."""
    gains = fig13_gains(points)
    worst = min(gains, key=lambda at: gains[at]["tic"] / gains[at]["tac"])
    least = min(min(pair.values()) for pair in gains.values())
    mean = float(np.mean([value for pair in gains.values() for value in pair.values()]))
    behind = 1 - gains[worst]["tic"] / gains[worst]["tac"]
    text = f"TIC at most {behind:.1%} behind TAC ({' '.join(worst)}); gains from {least - 1:.1%}, {mean - 1:.1%} on average"
    return Measured(text, holds=behind <= MARGINAL and least > 1 and mean > 1 + VISIBLE)


@measures("tictac-fig1", "unit-times")
def _toy(points: Points, _: Claim) -> Measured:
    good, bad = (points.row(order=order).iteration_time_s for order in ("layer", "reverse"))
    return Measured(bad / good, detail=f"{bad / UNIT_S:.2f} against {good / UNIT_S:.2f} units")


def _case_1(name: str) -> tuple[float, float, float, float]:
    """M_A, P_A, M_B and P_B in units, as the model's name has them."""
    transfer_a, op_a, transfer_b, op_b = (float(part) for part in name.split("-"))
    return transfer_a, op_a, transfer_b, op_b


@measures("tictac-fig4", "case1")
def _equation_6(points: Points, _: Claim) -> Measured:
    """In each case the order that Equation 6 puts first is the faster one on the wire."""
    parts, holds = [], True
    for name in _cases(points):
        transfer_a, op_a, transfer_b, op_b = _case_1(name)
        first, second = (points.row(model=name, order=order).iteration_time_s for order in ("layer", "reverse"))
        a_first = min(op_b, transfer_a) < min(op_a, transfer_b)
        holds &= a_first == (first < second)
        parts.append(
            f"{name}: A first {first * 50:.2f}, B first {second * 50:.2f} units, Eq. 6 says {'A' if a_first else 'B'}"
        )
    return Measured("; ".join(parts), holds=holds)


@measures("tictac-fig4", "tac-ge")
def _tac_chooses_the_faster(points: Points, _: Claim) -> Measured:
    excess = []
    for name in _cases(points):
        chosen, *others = (points.row(model=name, order=how).iteration_time_s for how in ("tac", "layer", "reverse"))
        excess.append(chosen / min(others) - 1)
    return Measured(f"TAC takes at most {max(excess):.2%} longer than the better order", holds=max(excess) < 0.01)


def _cases(points: Points) -> list[str]:
    return sorted({point.parameters["model"] for point in points.stored(run="tictac-fig4")})


@measures("tictac-fig4", "case2")
def _case_2(points: Points, _: Claim) -> Measured:
    """Ranked by when each transfer has arrived; A and B are the two tensors of one layer."""
    point = points.point(run="tictac-fig4-case2")
    tensors = {"D": "D/0", "C": "C/0", "A": "needs A and B/0", "B": "needs A and B/1"}
    arrived_ns = _arrivals_ns(point)
    scores = {name: -float(arrived_ns[point.plan().tensors.index(tensor)]) for name, tensor in tensors.items()}
    return ranked(MeasuredOrder(scores), detail="by arrival, from the op log")


def _arrivals_ns(point: PointEvidence) -> dict[int, int]:
    """When each tensor has reached the first worker in the first measured iteration."""
    plan, log, record = point.plan(), point.log(), point.record()
    ops, worker = plan.ops, int(plan.workers[0])
    received = (ops.kind == OpKind.RECV) & (ops.rank == worker) & (ops.chunk >= 0)
    rows = np.flatnonzero(received[log.op] & (log.iteration == record.warmup))
    tensors = plan.chunk_tensor[ops.chunk[log.op[rows]]]
    return dict(zip(tensors.tolist(), log.end_ns[rows].tolist(), strict=True))


@measures("tictac-sec51-enforce", "dag-chain-slow")
def _chain(points: Points, _: Claim) -> Measured:
    """By the throughput of a worker's pull, as the paper speaks of communication."""
    rates = {}
    for enforcement in ("sender", "chain"):
        point = points.point(enforcement=enforcement)
        plan, log, record = point.plan(), point.log(), point.record()
        begin = begin_ns(plan, log, int(plan.workers[0]), record.warmup)
        duration_s = (max(_arrivals_ns(point).values()) - begin) / 1e9
        rates[enforcement] = point.model.parameters * 4 * 8 / duration_s
    shown = ", ".join(f"{name} {rate / 1e9:.2f}" for name, rate in rates.items())
    return ranked(MeasuredOrder(rates), detail=f"Gbit/s that reach a worker while it pulls: {shown}")


@measures("tictac-sec51-enforce", "activation-insufficient")
def _overtaking(points: Points, _: Claim) -> Measured:
    """Pairs in which the later of two tensors in TIC's order arrives first and is the smaller one."""
    counts = {}
    for enforcement in ("sender", "activation"):
        point = points.point(enforcement=enforcement)
        wanted = _arrivals_ns(points.point(enforcement="chain"))
        order = sorted(wanted, key=wanted.__getitem__)
        arrived = _arrivals_ns(point)
        sizes = point.model.tensor_parameters
        counts[enforcement] = sum(
            arrived[later] < arrived[earlier] and sizes[later] < sizes[earlier]
            for position, earlier in enumerate(order)
            for later in order[position + 1 :]
        )
    text = (
        f"smaller tensors that overtake larger ones: {counts['activation']} pairs if only activation is ordered, "
        f"{counts['sender']} with the sender's counter"
    )
    return Measured(
        text, holds=counts["activation"] > 0 and counts["sender"] < counts["activation"], detail="from the op logs"
    )


def _drawn_gains(key: str, workload: str) -> Curves:
    def curves(points: Points) -> Mapping[str, Series]:
        valid = points.valid()
        return {model: gains_by(valid, key, model=model, workload=workload) for model in models_of(valid)}

    return curves


for _number, _key in ((7, "workers"), (9, "servers")):
    for _workload in WORKLOADS:
        _title = f"Fig. {_number}, {_workload}: throughput with TIC over no scheduling"
        draws(f"tictac-fig{_number}", _title, _key, "gain", log_x=True)(_drawn_gains(_key, _workload))


@draws(
    "tictac-fig10",
    "Fig. 10: throughput with TIC over no scheduling",
    "batch over the prescribed one",
    "gain",
    log_x=True,
)
def _fig10(points: Points) -> Mapping[str, Series]:
    valid = points.valid()
    lines = {}
    for workload in WORKLOADS:
        for model in models_of(valid):
            series = gains_by(valid, "batch", model=model, workload=workload)
            prescribed = series[len(series) // 2][0]
            lines[f"{model}, {workload}"] = [(batch / prescribed, y) for batch, y in series]
    return lines


@draws(
    "tictac-fig13",
    "Fig. 13: throughput over no scheduling",
    "model and workload, in the order of the table below",
    "gain",
    bars=True,
)
def _fig13(points: Points) -> Mapping[str, Series]:
    gains = fig13_gains(points.valid())
    return {order.upper(): [(n + 1, pair[order]) for n, pair in enumerate(gains.values())] for order in ("tic", "tac")}


@measures("tictac-sec22-order", "r152-params")
def _tensors(points: Points, claim: Claim) -> Measured:
    return Measured(float(len(points.model(**claim.where).tensor_parameters)), detail="counted from the profile")


@measures("tictac-sec22-order", "r152-size")
def _size(points: Points, claim: Claim) -> Measured:
    return Measured(points.model(**claim.where).parameters * 4 / 2**20, detail="counted from the profile")


@measures("tictac-sec22-order", "resnet50v2", "inception3", "vgg16")
def _orders(points: Points, claim: Claim) -> Measured:
    """How many orders of the baseline there are in as many draws as the paper has iterations: those of the first worker
    by run.seed from 1 on."""
    tensors = len(points.model(**claim.where).tensor_parameters)
    draws = int(printed_fact("tictac", "counted-iterations"))
    orders = {tuple(almost_ordered(tensors, LATE_SHARE, f"{seed}/pull/0")) for seed in range(1, draws + 1)}
    detail = f"of {draws} draws; {tensors} tensors, of which a share of {LATE_SHARE:g} is late"
    return Measured(float(len(orders)), detail=detail)


measures("tictac-table1", *(f"{model}-par" for model in TABLE_1))(_tensors)
measures("tictac-table1", *(f"{model}-size" for model in TABLE_1))(_size)
