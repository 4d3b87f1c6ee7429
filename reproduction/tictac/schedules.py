"""Evidence for TicTac's claims on schedules: efficiency E, speedup bound S,
stragglers, and step times (Sec. 3.2, Figs. 11 and 12)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reproduction.pages.curves import draws
from reproduction.scoring.evidence import Measured, PointEvidence, Points, measures
from reproduction.scoring.reference import Claim
from reproduction.scoring.shapes import VISIBLE, Series, interior_maximum
from reproduction.tictac.claims import BASELINE, WORKLOADS, gains_by, halves, models_of
from reproduction.tictac.efficiency import (
    Schedules,
    r_squared,
    schedules,
    scheduling_efficiency,
    speedup_bound,
    straggler_effect,
)

Float64 = npt.NDArray[np.float64]


def _schedules(point: PointEvidence) -> Schedules:
    """Schedules of the measured iterations, shape (iterations, workers)."""
    record = point.record()
    judged = schedules(point.plan(), point.log(), record.iterations)
    return Schedules(
        *(values[record.warmup :] for values in (judged.upper_s, judged.lower_s, judged.makespan_s, judged.finish_s))
    )


_judged: dict[Path, tuple[float, float]] = {}
"""E and straggler effect by the folder of the point, which never changes:
claims and drawings ask for each point a few times."""


def _efficiency_and_straggler(point: PointEvidence) -> tuple[float, float]:
    """The maximum over iterations, as the paper reports both (Sec. 6); E is the mean of the workers'."""
    assert point.folder is not None
    if point.folder not in _judged:
        record = point.record()
        stragglers = straggler_effect(point.plan(), point.log(), record.iterations)[record.warmup :]
        _judged[point.folder] = (float(_schedules(point).efficiency.mean(axis=1).max()), float(stragglers.max()))
    return _judged[point.folder]


def _efficiency(point: PointEvidence) -> float:
    return _efficiency_and_straggler(point)[0]


def _straggler(point: PointEvidence) -> float:
    return _efficiency_and_straggler(point)[1]


@measures("tictac-sec32-metric", "e-best", "e-worst", "s-range")
def _definitions(points: Points, claim: Claim) -> Measured:
    """U and L are the runs' own; only the makespan is put in. S: the best schedule, L, against the worst, U."""
    measured = [_schedules(point) for point in points.stored()]
    upper_s, lower_s = (np.concatenate([getattr(s, name).ravel() for s in measured]) for name in ("upper_s", "lower_s"))
    if claim.id == "s-range":
        speedup = speedup_bound(upper_s, lower_s)
        ratio = upper_s / lower_s
        text = f"S from {speedup.min():.2f} to {speedup.max():.2f}: U / L from {ratio.min():.2f} to {ratio.max():.2f}"
        return Measured(text, holds=bool(np.allclose(1 + speedup, ratio) and (speedup >= 0).all()))
    makespan_s, expected = (lower_s, 1.0) if claim.id == "e-best" else (upper_s, 0.0)
    efficiency = scheduling_efficiency(upper_s, lower_s, makespan_s)
    text = f"E = {efficiency.mean():.3f} for the U and L of {len(efficiency)} iterations"
    return Measured(text, holds=bool(np.allclose(efficiency, expected)), detail="definition")


def _by_rate(points: Points) -> tuple[Series, Series]:
    """Gain of TIC over no scheduling, and S of TIC's run, by Gbit/s."""
    gains = [(x / 1e9, y) for x, y in gains_by(points, "rate")]
    rows = points.series("rate", order="tic")
    bounds = [(x / 1e9, points.point(order="tic", rate=row.parameters["rate"])) for x, row in rows]
    return gains, [(x, float(_schedules(point).speedup.mean())) for x, point in bounds]


@measures("tictac-sec32-metric", "bottleneck")
def _bottleneck(points: Points, _: Claim) -> Measured:
    gains, bounds = _by_rate(points)
    text = "gain (and S) by Gbit/s: " + ", ".join(
        f"{x:g}: {y - 1:.0%} ({s:.2f})" for (x, y), (_, s) in zip(gains, bounds, strict=True)
    )
    return Measured(text, holds=interior_maximum(gains) and interior_maximum(bounds))


@draws("tictac-sec32-metric", "Gain of TIC, and what S allows, by bandwidth", "Gbit/s", "gain", log_x=True)
def _drawn_bound(points: Points) -> Mapping[str, Series]:
    gains, bounds = _by_rate(points.valid())
    return {"TIC over no scheduling": gains, "1 + S": [(x, 1 + s) for x, s in bounds]}


@measures("tictac-fig11", "e-tic")
def _tic_efficiency(points: Points, _: Claim) -> Measured:
    """The mean over models, workloads and numbers of workers; and the least one."""
    efficiency_at = {
        (p.parameters["model"], p.parameters["workload"], p.parameters["workers"]): _efficiency(p)
        for p in points.stored(order="tic")
    }
    least = min(efficiency_at, key=efficiency_at.__getitem__)
    mean = float(np.mean(list(efficiency_at.values())))
    return Measured(
        mean,
        detail=f"mean of {len(efficiency_at)} points; least {efficiency_at[least]:.3f} ({', '.join(least)} workers)",
    )


def straggler_by(points: Points, order: str, workers: int | None = None) -> dict[tuple[str, str, str], float]:
    """The maximum over draws, by model, workload and number of workers: what the paper reports of ten iterations (Sec. 6),
    of which each has another order without scheduling."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for point in points.stored(order=order, **({} if workers is None else {"workers": workers})):
        p = point.parameters
        values.setdefault((p["model"], p["workload"], p["workers"]), []).append(_straggler(point))
    return {key: max(shares) for key, shares in values.items()}


@measures("tictac-fig11", "straggler-baseline")
def _straggler_baseline(points: Points, _: Claim) -> Measured:
    """In some cases: the largest of all runs without an order."""
    unordered = points.stored(order=BASELINE)
    largest = max(unordered, key=_straggler)
    at = ", ".join(largest.parameters[key] for key in ("model", "workload", "workers"))
    return Measured(_straggler(largest), detail=f"the largest of {len(unordered)} runs: {at} workers")


NEAR_ONE = 0.05
"""How far below 1 an efficiency may be and still be near it."""
LEAST_STRAGGLER = 0.01
"""Smallest share of an iteration that is counted as straggling. With an order, workers end within microseconds of one
another here, which no testbed could tell from nothing."""


@measures("tictac-abstract", "straggler-max")
@measures("tictac-fig11", "straggler-reduction")
def _straggler_reduction(points: Points, _: Claim) -> Measured:
    before, after = (straggler_by(points, order) for order in (BASELINE, "tic"))
    ratios = {at: before[at] / max(after[at], LEAST_STRAGGLER) for at in after}
    at = max(ratios, key=ratios.__getitem__)
    text = f"{', '.join(at)} workers: {before[at]:.1%} without order, {after[at]:.3%} with TIC, counted as at least {LEAST_STRAGGLER:.0%}"
    return Measured(ratios[at], detail=text)


@measures("tictac-fig11", "bigger-more")
def _bigger_models(points: Points, _: Claim) -> Measured:
    """Mean loss of the straggler effect in either half of the models, by number of
    layers, which TensorFlow's number of ops follows."""
    layers = {p.parameters["model"]: len(p.model.layer_names) for p in points.stored()}
    before, after = (straggler_by(points, order) for order in (BASELINE, "tic"))
    small, large = (
        float(np.mean([before[at] - after[at] for at in after if at[0] in half]))
        for half in halves(sorted(layers, key=layers.__getitem__))
    )
    text = f"percentage points that stragglers lose: {small * 100:.1f} in models with fewer layers, {large * 100:.1f} in those with more"
    return Measured(text, holds=large > small)


@measures("tictac-fig11", "any-order")
def _any_order(points: Points, _: Claim) -> Measured:
    enforced = straggler_by(points, "shared-random")
    free = straggler_by(points, BASELINE)
    largest = max(enforced[at] / free[at] for at in enforced)
    means = [float(np.mean([measured[at] for at in enforced])) for measured in (enforced, free)]
    text = f"with any enforced order {means[0]:.1%} on average, without {means[1]:.1%}; at most {largest:.0%} of it is left"
    return Measured(text, holds=largest < 1)


@draws("tictac-fig11", "Fig. 11(a): scheduling efficiency by model, 8 workers", "model, smallest first", "E", bars=True)
def _drawn_efficiency(points: Points) -> Mapping[str, Series]:
    valid = points.valid()
    return {
        f"{label}, {workload}": [
            (
                n + 1,
                float(
                    np.mean(
                        [_efficiency(p) for p in valid.stored(order=order, workload=workload, model=model, workers=8)]
                    )
                ),
            )
            for n, model in enumerate(models_of(valid))
        ]
        for order, label in ((BASELINE, "no scheduling"), ("tic", "TIC"))
        for workload in WORKLOADS
    }


@draws(
    "tictac-fig11",
    "Fig. 11(b): straggler effect by model, 8 workers",
    "model, smallest first",
    "share of the iteration",
    bars=True,
)
def _drawn_stragglers(points: Points) -> Mapping[str, Series]:
    valid = points.valid()
    lines = {}
    for order, label in ((BASELINE, "no scheduling"), ("shared-random", "any order"), ("tic", "TIC")):
        shares = straggler_by(valid, order, workers=8)
        for workload in WORKLOADS:
            lines[f"{label}, {workload}"] = [
                (n + 1, shares[model, workload, "8"]) for n, model in enumerate(models_of(valid))
            ]
    return lines


def samples(points: Points) -> dict[str, tuple[Float64, Float64]]:
    """E and the worker's step time (its makespan) in seconds, of each worker and measured iteration."""
    found = {}
    for name, run in (("no ordering", "tictac-fig12-random"), ("TAC", "tictac-fig12-tac")):
        points.rows(run=run)
        judged = [_schedules(point) for point in points.stored(run=run)]
        found[name] = (
            np.concatenate([s.efficiency.ravel() for s in judged]),
            np.concatenate([s.makespan_s.ravel() for s in judged]),
        )
    return found


def best_step_s(of_orders: Mapping[str, tuple[Float64, Float64]]) -> float:
    """The shortest step of all, in seconds."""
    return float(min(step_s.min() for _, step_s in of_orders.values()))


def worst_step_s(points: Points) -> float:
    """The step of TAC's run that hid nothing of the shorter one of communication and computation (U), in seconds."""
    return float(np.mean([_schedules(point).upper_s.mean() for point in points.stored(run="tictac-fig12-tac")]))


@measures("tictac-fig12", "r2")
def _regression(points: Points, _: Claim) -> Measured:
    steps = samples(points)
    efficiency, step_s = (np.concatenate([pair[i] for pair in steps.values()]) for i in range(2))
    return Measured(
        r_squared(efficiency, step_s), detail=f"{len(step_s)} steps of single workers, with and without TAC"
    )


@measures("tictac-fig12", "p95-baseline", "p95-tac")
def _percentile(points: Points, claim: Claim) -> Measured:
    steps = samples(points)
    _, step_s = steps["TAC" if claim.id == "p95-tac" else "no ordering"]
    slow_s = float(np.percentile(step_s, 95))
    best_s = best_step_s(steps)
    return Measured(
        best_s / slow_s, detail=f"best step {best_s:.3f} s over the 95th percentile {slow_s:.3f} s of {len(step_s)}"
    )


@measures("tictac-fig12", "variance")
def _variance(points: Points, _: Claim) -> Measured:
    """Widely: more than what can be seen, of the mean. Minimal: a tenth of
    that for TAC. Near 1: E within 5 points of it."""
    (free_e, free_s), (tac_e, tac_s) = samples(points).values()
    text = (
        f"step time {free_s.mean():.3f} s (standard deviation {free_s.std():.3f}) without order, {tac_s.mean():.3f} s "
        f"({tac_s.std():.4f}) with TAC; E {free_e.min():.2f} to {free_e.max():.2f} against {tac_e.min():.2f} to "
        f"{tac_e.max():.2f}"
    )
    wide = free_s.std() > VISIBLE * free_s.mean() and free_e.max() - free_e.min() > NEAR_ONE
    minimal = tac_s.mean() < free_s.min() and tac_s.std() < free_s.std() / 10 and tac_e.min() >= 1 - NEAR_ONE
    holds = wide and minimal
    return Measured(text, holds=bool(holds))


@measures("tictac-fig12", "axis-range")
def _axis(points: Points, _: Claim) -> Measured:
    steps = samples(points)
    every = np.concatenate([step_s for _, step_s in steps.values()])
    slowest = best_step_s(steps) / float(every.max())
    return Measured(f"from {slowest:.2f} to 1", holds=slowest >= 0.5)


@draws(
    "tictac-fig12",
    "Fig. 12(a): each worker's steps",
    "scheduling efficiency E",
    "step time over the slowest",
    dots=True,
)
def _scatter(points: Points) -> Mapping[str, Series]:
    steps = samples(points.valid())
    slowest_s = max(float(step_s.max()) for _, step_s in steps.values())
    return {
        name: sorted(zip(efficiency.tolist(), (step_s / slowest_s).tolist(), strict=True))
        for name, (efficiency, step_s) in steps.items()
    }


@draws("tictac-fig12", "Fig. 12(b): distribution of the speed", "best step time over step time", "share of steps")
def _cdf(points: Points) -> Mapping[str, Series]:
    of_orders = samples(points.valid())
    best_s = best_step_s(of_orders)
    lines = {}
    for name, (_, step_s) in of_orders.items():
        speed = np.sort(best_s / step_s).tolist()
        steps = [((n + risen) / len(speed), x) for n, x in enumerate(speed) for risen in (0, 1)]
        lines[name] = [(x, share) for share, x in steps]
    return lines
