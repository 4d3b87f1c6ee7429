"""The findings of a run as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.analysis.findings.axes import BY_NAME, KeyRole, VariedAxis, Where, role_of
from gradwire.analysis.findings.curves import Curve, CurvePoint, Shape
from gradwire.analysis.findings.findings import (
    COMPUTE_BOUND,
    BestChoice,
    ComputeShares,
    Dependence,
    Effects,
    FaultEffects,
    Finding,
    Growth,
    LeftOut,
    NotEstimated,
    ObservationAt,
    OfJob,
    OneSeed,
    RequestsServed,
    Single,
)
from gradwire.analysis.findings.observations import Observation
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.choice_words import WITHIN, best_words, effects_words, seeds_wanted
from gradwire.analysis.report.fault_words import fault_words
from gradwire.analysis.report.request_words import served_words
from gradwire.analysis.report.value_words import (
    MOST_NAMED,
    ValueWords,
    capital,
    factor,
    factors,
    listed,
    named,
    seconds,
    shares,
)
from gradwire.analysis.statistics import LEVEL_MARGIN


def sentences(findings: Sequence[Finding], write: Labels) -> list[str]:
    """The findings as whole sentences, in their order."""
    words = ValueWords(write)
    return [f"{capital(text)}." for finding in findings for text in _texts(finding, words)]


def _texts(finding: Finding, words: ValueWords) -> list[str]:
    match finding:
        case Single():
            texts = [_single(finding, words)]
        case BestChoice():
            texts = best_words(finding, words)
        case Effects():
            texts = [effects_words(finding, words)]
        case Dependence():
            texts = [_dependence(finding, words)]
        case Growth():
            texts = [_growth(finding, words)]
        case ComputeShares():
            texts = _shares(finding, words)
        case FaultEffects():
            texts = [fault_words(finding, words)]
        case RequestsServed():
            texts = [served_words(finding, words)]
        case OneSeed():
            texts = [ONE_SEED]
        case LeftOut():
            texts = [_left_out(finding, words)]
        case NotEstimated():
            texts = [_not_estimated(finding, words)]
        case OfJob():
            texts = [_job(finding, words)]
    return texts


def _single(found: Single, words: ValueWords) -> str:
    observed = found.observed
    whose = f" of {words.value(found.name)}" if found.name else ""
    text = f"an iteration{whose} takes {seconds(observed.time_s)}"
    times_s = observed.sample.times_s.values()
    if observed.seeds > 1 and max(times_s) > min(times_s):
        return f"{text}, the mean over {observed.seeds} seeds, which took {seconds(min(times_s))} to {seconds(max(times_s))}"
    if observed.seeds > 1:
        return f"{text} with each of {observed.seeds} seeds"
    return text


def _dependence(found: Dependence, words: ValueWords) -> str:
    if len(found.curves) == 1:
        return _curve(found.axis, found.curves[0], words)
    name = words.subject([found.axis])
    if all(curve.shape is Shape.FLAT for curve in found.curves):
        return f"{name} makes no difference at any setting ({WITHIN})"
    ratios = [curve.ratio for curve in found.curves]
    most = max(found.curves, key=lambda curve: curve.ratio)
    at = f" (most {words.at([most.where])})" if len({factor(ratio) for ratio in ratios}) > 1 else ""
    shapes = {curve.shape for curve in found.curves} - {Shape.FLAT}
    first, last = words.value(found.axis.values[0]), words.bare(found.axis.values[-1])
    if shapes == {Shape.FALLS}:
        return f"from {first} to {last}, iterations become {factors(ratios)} as fast{at}"
    if shapes == {Shape.RISES}:
        return f"from {first} to {last}, iterations take {factors(ratios)} as long{at}"
    shortest = dict.fromkeys(words.value(curve.shortest.value) for curve in found.curves)
    return (
        f"iterations are shortest with {listed(list(shortest), 'or')}, {factors(ratios)} as fast as with the worst{at}"
    )


def _curve(axis: VariedAxis, curve: Curve, words: ValueWords) -> str:
    """Sentence on the times along a condition."""
    first, last = curve.points[0], curve.points[-1]
    whose = _whose(curve, words)
    if curve.shape is Shape.FLAT:
        return f"{_range_of(axis, curve, words)} makes no difference to an iteration{whose}: {seconds(first.observed.time_s)} ({WITHIN})"
    if curve.shape is Shape.OPEN:
        return (
            f"{_range_of(axis, curve, words)} makes no difference to an iteration{whose} that these "
            f"{curve.longest.observed.seeds} seeds can show: {_time_at(curve.shortest)} to {_time_at(curve.longest)} "
            f"({seeds_wanted([curve.ends])})"
        )
    if curve.shape is Shape.MIXED:
        return _mixed(curve, words)
    a, z = _time_at(first), _time_at(last)
    change = f"{factor(curve.ratio)} as fast" if curve.shape is Shape.FALLS else f"{factor(curve.ratio)} as long"
    text = f"from {words.value(first.value)} to {words.bare(last.value)}, an iteration{whose} goes from {a} to {z} ({change})"
    if curve.flat_from is not None and curve.flat_from is not first:
        text += f"; from {words.value(curve.flat_from.value)} on, it stays the same ({WITHIN})"
    elif curve.flat_to is not None and curve.flat_to is not last:
        text += f"; up to {words.value(curve.flat_to.value)}, it stays the same ({WITHIN})"
    return text


def _mixed(curve: Curve, words: ValueWords) -> str:
    whose = _whose(curve, words)
    if not curve.ordered and len(curve.points) <= MOST_NAMED:
        ordered = sorted(curve.points, key=lambda point: point.observed.time_s)
        parts = [f"{_time_at(point)} with {words.value(point.value)}" for point in ordered]
        ratio = f" ({factor(curve.ratio)} as long)"
        return f"an iteration{whose} takes {listed(parts)}{ratio}"
    low, high = curve.shortest, curve.longest
    return (
        f"an iteration{whose} is shortest with {words.value(low.value)} ({_time_at(low)}) and longest with "
        f"{words.value(high.value)} ({_time_at(high)}, {factor(curve.ratio)} as long)"
    )


def _whose(curve: Curve, words: ValueWords) -> str:
    chosen = list(dict.fromkeys(words.value(point.chosen) for point in curve.points if point.chosen))
    if not chosen:
        return ""
    return f" of {chosen[0]}" if len(chosen) == 1 else " of the fastest"


def _range_of(axis: VariedAxis, curve: Curve, words: ValueWords) -> str:
    name = words.subject([axis])
    if not curve.ordered:
        return f"{name} ({named([words.bare(point.value) for point in curve.points])})"
    return f"{name} from {words.bare(curve.points[0].value)} to {words.bare(curve.points[-1].value)}"


def _time_at(point: CurvePoint) -> str:
    return seconds(point.observed.time_s)


def _growth(found: Growth, words: ValueWords) -> str:
    axis = found.axis
    of_workers = axis.role is KeyRole.WORKERS and len(axis.names) == 1 and axis.ordered
    grows = [_throughputs(curve) for curve in found.curves]
    if of_workers and all(rates == sorted(rates) for rates in grows):
        return _scaling(found, words)
    parts = []
    for curve in found.curves:
        best = max(curve.points, key=lambda point: point.observed.throughput_per_s)
        worst = min(curve.points, key=lambda point: point.observed.throughput_per_s)
        ratio = best.observed.throughput_per_s / worst.observed.throughput_per_s
        where = f" {words.at([curve.where])}" if curve.where else ""
        parts.append(
            f"{words.value(best.value)} processes most samples per second{where}: {_rate(best.observed)}, {factor(ratio)} as "
            f"many as {words.value(worst.value)}"
        )
    if len(parts) > MOST_NAMED:
        parts = [*parts[: MOST_NAMED - 1], f"{len(parts) - MOST_NAMED + 1} more settings"]
    if axis.role is KeyRole.BATCH and len(found.curves) == 1:
        first, last = found.curves[0].points[0], found.curves[0].points[-1]
        parts[0] += (
            f"; an iteration takes {_time_at(first)} with {words.value(first.value)} and {_time_at(last)} with "
            f"{words.value(last.value)}"
        )
    return listed(parts)


def _scaling(found: Growth, words: ValueWords) -> str:
    first, last = found.axis.values[0], found.axis.values[-1]
    few, many = (words.bare(value) for value in (first, last))
    gains = [rates[-1] / rates[0] for rates in map(_throughputs, found.curves)]
    perfect = float(many) / float(few)
    most = max(found.curves, key=lambda curve: _throughputs(curve)[-1] / _throughputs(curve)[0])
    at = f" (most {words.at([most.where])})" if len({f"{gain:.2f}" for gain in gains}) > 1 else ""
    return (
        f"{many} workers process {factors(gains)} as many samples per second as {few}{at}, where {factor(perfect)} would be "
        f"perfect scaling"
    )


def _throughputs(curve: Curve) -> list[float]:
    return [point.observed.throughput_per_s for point in curve.points]


def _rate(observed: Observation) -> str:
    rate = observed.throughput_per_s
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _shares(found: ComputeShares, words: ValueWords) -> list[str]:
    at = [each for each in found.at if each.observed.compute_share == each.observed.compute_share]
    if not at:
        return []
    found_of = [each.observed.compute_share for each in at]
    windows = [each for each in found.by_windows if each.observed.compute_share < COMPUTE_BOUND]
    text = []
    if min(found_of) >= COMPUTE_BOUND:
        least = "" if len(at) == 1 else "at least "
        text.append(
            f"computation takes {least}{shares([min(found_of)])} of an iteration, so communication costs next to nothing"
        )
    elif len(at) <= MOST_NAMED:
        text.append(f"computation takes {_by_share(at, words)}, and communication the rest{_gains(at, words)}")
    else:
        low, high = (pick(at, key=lambda each: each.observed.compute_share) for pick in (min, max))
        text.append(
            f"computation takes {shares([low.observed.compute_share])} of an iteration {words.at([low.where])}, up to "
            f"{shares([high.observed.compute_share])} {words.at([high.where])}, and communication the rest"
        )
    if windows:
        where = words.at([each.where for each in windows]) if windows[0].where else "here"
        text.append(
            f"{where} it waits for sockets' windows and not for the lines: a larger transport.buffer would help"
        )
    return text


def _gains(at: Sequence[ObservationAt], words: ValueWords) -> str:
    """Says which of several models a faster network helps the most."""
    names = {name for each in at for name, _ in each.where}
    least = min(at, key=lambda each: each.observed.compute_share)
    if len(at) == 1 or {role_of(BY_NAME.get(name, name)) for name in names} != {KeyRole.MODEL}:
        return ""
    return f": a faster network helps {words.where(least.where)} the most"


def _by_share(at: Sequence[ObservationAt], words: ValueWords) -> str:
    """Shares with the settings that have them: "49 % of an iteration at 10gbit and 94 % at 25gbit"."""
    wheres: dict[str, list[Where]] = {}
    for each in at:
        wheres.setdefault(shares([each.observed.compute_share]), []).append(each.where)
    texts = [
        f"{share}{'' if number else ' of an iteration'}{f' {words.at(places)}' if any(places) else ''}"
        for number, (share, places) in enumerate(wheres.items())
    ]
    return listed(texts)


ONE_SEED = (
    "what is drawn at random was drawn with one seed, so how much another seed would change these times is not known "
    "(run.seed = [1, 2, 3] shows it)"
)


def _left_out(found: LeftOut, words: ValueWords) -> str:
    names = [words.write(name) for name in found.names]
    verb, they, does = ("are", "they", "do") if len(names) > 1 else ("is", "it", "does")
    return (
        f"{listed(names)} {verb} not compared with other strategies, for {they} {does} not send all gradients of every step and "
        "so trained something else"
    )


def _not_estimated(found: NotEstimated, words: ValueWords) -> str:
    names = [words.name(name) for name in found.names]
    return f"an estimate says nothing about {listed(names)}, which an ideal network does not know: run these points"


def _job(found: OfJob, words: ValueWords) -> str:
    texts = [text for finding in found.findings for text in _texts(finding, words)]
    alone = ""
    if found.alone_ratios is not None:
        low, high = found.alone_ratios
        ratios = factors([low, high])
        alone = (
            "the other jobs cost it nothing"
            if high < 1 + LEVEL_MARGIN
            else f"the other jobs make it take {ratios} as long as alone"
        )
    return f"job {found.job}: {'; '.join(filter(None, (*texts, alone)))}"
