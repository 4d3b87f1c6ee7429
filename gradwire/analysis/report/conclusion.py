"""The conclusion of a run in two sentences: the fastest strategy and its lead, the resource that limits it, and the
number of valid points.

Remarks follow below a table of points that take another time than on an ideal network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gradwire.analysis.agreement.causes import Agreement, Cause
from gradwire.analysis.points import INVALID, VALID, PointResult
from gradwire.analysis.report.charts import Labels
from gradwire.analysis.report.ranking import COMPUTE_BOUND, Ranking, by_windows, limit, rank, seeds_wanted
from gradwire.analysis.statistics import TimeComparison
from gradwire.analysis.verdict.verdict import Verdict

MOST_POINTS_NAMED = 3
"""Number of points with one cause that are named after the first, which has the explanation."""
NOT_A_SETTING = ("strategy", "options", "seed")
"""Parameters in which the points of one setting may differ."""
PLURALS = {"model": "models", "rate": "rates", "workers": "numbers of workers", "batch": "batch sizes"}
"""Several values of a parameter, in words."""
NETWORK, WINDOWS, COMPUTATION = "the network is", "sockets' windows (transport.buffer) are", "computation is"
"""Resources that may be the limit, each with the verb that follows."""
MOST_SETTINGS_NAMED = 4
"""Number of settings with the same limit that are named; more are counted."""


@dataclass(frozen=True)
class Remark:
    """A line about one cause."""

    text: str
    #: Whether it should be read before the results are trusted.
    is_warning: bool


def remarks(labels: Sequence[str], rows: Sequence[PointResult], agreements: Sequence[Agreement | None]) -> list[Remark]:
    """One line per cause, with the numbers of the first point that has it;
    warnings first. All arguments have one element per point."""
    by_cause: dict[Cause, list[int]] = {}
    for index, agreement in enumerate(agreements):
        if agreement and agreement.sentence:
            by_cause.setdefault(agreement.cause, []).append(index)
    ordered = sorted(by_cause, key=lambda cause: (cause is not Cause.UNEXPLAINED, list(Cause).index(cause)))
    return [
        Remark(_remark_text(by_cause[cause], labels, rows, agreements), cause is Cause.UNEXPLAINED) for cause in ordered
    ]


def _remark_text(
    points: Sequence[int], labels: Sequence[str], rows: Sequence[PointResult], agreements: Sequence[Agreement | None]
) -> str:
    """Remark on points with one cause: the explanation of the first, and the names of the others."""
    first, *others = points
    agreement, ratio = agreements[first], rows[first].fluid_ratio
    assert agreement is not None
    whose = f" of {labels[first]}" if len(rows) > 1 else ""
    text = f"x fluid{whose}{f' is {ratio:.3f}' if ratio else ''}: {agreement.sentence}."
    if not others:
        return text
    named = [_with_ratio(labels[index], rows[index].fluid_ratio) for index in others[:MOST_POINTS_NAMED]]
    more = len(others) - len(named)
    return f"{text} The same holds for {'; '.join(named)}{f'; and {more} more points' if more else ''}."


def _with_ratio(label: str, ratio: float | None) -> str:
    return f"{label} ({ratio:.3f})" if ratio else label


@dataclass(frozen=True)
class RankedSetting:
    """The strategies that ran at one setting of everything else, ranked."""

    #: The varied parameters of the setting.
    parameters: dict[str, str]
    ranking: Ranking

    @property
    def fastest(self) -> list[str]:
        """The fastest, and what is level with it."""
        best = self.ranking.best
        if best is None:
            return []
        others = [entry for entry in self.ranking.valid if entry is not best and not entry.partial]
        level = [entry for entry in others if self.ranking.against_best(entry).outcome is TimeComparison.LEVEL]
        return [entry.name for entry in (best, *level)]


@dataclass(frozen=True)
class Conclusion:
    """The conclusion of a run, in sentences."""

    #: The fastest strategy and its lead; "" if nothing is known.
    answer: str
    #: The limit of its iterations; "" if that is not known.
    limit: str
    #: Strategies that are left out, and the reason, as a sentence; "" if there are none.
    left_out: str
    #: Number of points that are results, as a sentence.
    validity: str

    def __str__(self) -> str:
        said = "; ".join(filter(None, (self.answer, self.limit)))
        first = _sentence(said) if said else "" if self.left_out else "There is no result."
        return " ".join(filter(None, (first, self.left_out, self.validity)))

    @property
    def lines(self) -> list[str]:
        """The answer, and what limits it, as a sentence each."""
        found = [_sentence(part) for part in (self.answer, self.limit) if part]
        return [*found, self.left_out] if self.left_out else found or ["There is no result."]


def conclusion(
    rows: Sequence[PointResult],
    write: Labels,
    partial: Sequence[str] = (),
    random: Sequence[bool] = (),
    ranking: Ranking | None = None,
) -> Conclusion:
    """The conclusion of a run.

    rows: one per point and seed. random: for each row, whether its seed decides its time. ranking: of the rows, if
    there is one.
    """
    if ranking is not None:
        return Conclusion(*ranking.parts(), _not_compared([ranking], str), validity(rows))
    ranked = ranked_by_setting(rows, partial, random)
    others = _not_compared([setting.ranking for setting in ranked], write)
    settings = [setting for setting in ranked if setting.ranking.best is not None]
    if not settings:
        return Conclusion("", "", others, validity(rows))
    if len(settings) == 1:
        answer, limits = _single(settings[0].ranking, write)
    elif any(len(setting.ranking.valid) > 1 for setting in settings):
        answer, limits = _strategies(settings, write)
    else:
        answer, limits = _sweep(settings, write)
    return Conclusion(answer, limits, others, validity(rows))


def _not_compared(rankings: Sequence[Ranking], write: Callable[[str], str]) -> str:
    """Sentence that names the valid strategies that the conclusion leaves out, with the reason; "" if there are
    none."""
    names = [write(name) for name in dict.fromkeys(name for each in rankings for name in each.not_compared)]
    if not names:
        return ""
    verb, they, does = ("are", "they", "do") if len(names) > 1 else ("is", "it", "does")
    left_out = listed(names)
    return (
        f"{left_out[:1].upper()}{left_out[1:]} {verb} not compared with other strategies, for {they} {does} not send all "
        "gradients of every step and so trained something else."
    )


def validity(rows: Sequence[PointResult]) -> str:
    """Sentence with the number of points that are results, and of those that the report warns of."""
    states = Counter(row.state for row in rows)
    valid, invalid, unexplained = states[VALID], states[INVALID], states[Cause.UNEXPLAINED]
    if valid == len(rows):
        return f"All {valid} points are valid." if valid > 1 else "Its point is valid."
    if not unexplained:
        return f"Only {valid} of {len(rows)} points are valid; the others are not results."
    if len(rows) == 1:
        return "Its point is unexplained."
    count = f"Only {valid} of {len(rows)} points are valid" if valid else f"None of {len(rows)} points is valid"
    warned = f"{unexplained} {'is' if unexplained == 1 else 'are'} unexplained"
    useless = f", and {invalid} {'is not a result' if invalid == 1 else 'are not results'}" if invalid else ""
    return f"{count}; {warned}{useless}."


def trust(valid: str, rows: Sequence[PointResult], verdicts: Sequence[Verdict | None]) -> str:
    """Why the results may be believed, in one sentence. valid: `validity` of the rows."""
    checks = sum(len(verdict.checks) for verdict in verdicts if verdict is not None)
    ratios = [row.fluid_ratio for row in rows if row.state == VALID and row.fluid_ratio]
    if not checks or not ratios or any(row.state != VALID for row in rows):
        return valid
    ends = " to ".join(dict.fromkeys((f"{min(ratios):.3f}", f"{max(ratios):.3f}")))
    runs = "their runs" if len(rows) > 1 else "its run"
    return (
        f"{valid.removesuffix('.')}: {runs} passed all {checks:,} checks, and took {ends} times as long as an ideal "
        "network would."
    )


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def ranked_by_setting(
    rows: Sequence[PointResult],
    partial: Sequence[str] = (),
    random: Sequence[bool] = (),
    families: Mapping[str, str] | None = None,
) -> list[RankedSetting]:
    """The rows by everything but strategy and seed, ranked. A parameter that only some points have belongs to their
    strategy.

    The arguments are those of `rank`.
    """
    shared = [key for key in rows[0].parameters if all(key in row.parameters for row in rows)] if rows else []
    keys = [key for key in shared if key not in NOT_A_SETTING and len({row.parameters[key] for row in rows}) > 1]
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(tuple(row.parameters[key] for key in keys), []).append(index)
    return [
        RankedSetting(
            dict(zip(keys, values, strict=True)),
            rank([rows[i] for i in chosen], families or {}, partial, {}, [random[i] for i in chosen] if random else ()),
        )
        for values, chosen in groups.items()
    ]


def _single(ranking: Ranking, write: Labels) -> tuple[str, str]:
    best = ranking.best
    assert best is not None
    if len(ranking.valid) + len(ranking.invalid) > 1:
        return ranking.parts(write)
    name = write(best.name) if best.name else "an iteration"
    return f"{name} takes {best.time_s:#.4g} s per iteration", limit(best.row, name)


def _sweep(settings: Sequence[RankedSetting], write: Labels) -> tuple[str, str]:
    """One strategy at several settings: the shortest and the longest iteration, and where the network is the limit."""
    ordered = sorted(settings, key=lambda setting: _best_time_s(setting.ranking))
    ends = [
        f"{_best_time_s(setting.ranking):#.4g} s ({_where(setting, write)})" for setting in (ordered[0], ordered[-1])
    ]
    names = dict.fromkeys(write(entry.name) for setting in settings for entry in setting.ranking.valid)
    subject = f"an iteration of {next(iter(names))}" if len(names) == 1 and next(iter(names)) else "an iteration"
    return f"{subject} takes {ends[0]} to {ends[1]}", _limits(settings, write)


def _strategies(settings: Sequence[RankedSetting], write: Labels) -> tuple[str, str]:
    """Several strategies at several settings: who is fastest where, by how
    much at most, and where the network is the limit."""
    counts = Counter(name for setting in settings for name in setting.fastest)
    first = max(counts, key=lambda name: counts[name])
    level = any(len(setting.fastest) > 1 and first in setting.fastest for setting in settings)
    verb = "is fastest, or level with the fastest," if level else "is fastest"
    where = f"{_all(counts[first], len(settings))} {_kinds(settings, write)}"
    others = dict.fromkeys(setting.fastest[0] for setting in settings if first not in setting.fastest)
    rest = f", {' or '.join(write(name) for name in others)} elsewhere" if others else ""
    return (
        f"{write(first)} {verb} at {where}{rest}{_gain(settings, first, write)}",
        f"{_limits(settings, write)}{_doubt(settings)}",
    )


def _all(count: int, whole: int) -> str:
    if count < whole:
        return f"{count} of {whole}"
    return "both" if whole == 2 else f"all {whole}"


def _kinds(settings: Sequence[RankedSetting], write: Labels) -> str:
    """Word for the settings in the plural: for the one parameter in which they differ, if there is only one."""
    keys = list(settings[0].parameters)
    return PLURALS.get(keys[0], f"values of {write(keys[0])}") if len(keys) == 1 else "settings"


def _gain(settings: Sequence[RankedSetting], first: str, write: Labels) -> str:
    """The range of a strategy's speed-ups over the baselines, with the
    interval of the largest where seeds decide it."""
    gains = []
    for setting in settings:
        base, mine = setting.ranking.baseline, next((e for e in setting.ranking.valid if e.name == first), None)
        if base is not None and mine is not None and base.name != first:
            gains.append((setting.ranking.speedup(mine), setting, base.name))
    if not gains:
        return ""
    gains.sort(key=lambda gain: gain[0])
    names = dict.fromkeys(name for *_, name in gains)
    over = write(next(iter(names))) if len(names) == 1 else "the slowest"
    (least, *_), (most, where, _) = gains[0], gains[-1]
    is_best = where.ranking.best is not None and where.ranking.best.name == first
    interval = where.ranking.speedup_interval() if is_best else ""
    if f"{least:.2f}" == f"{most:.2f}":
        return f": {most:.2f}x {over}{interval}"
    return f": {least:.2f}x to {most:.2f}x{interval} {over}, most at {_where(where, write)}"


def _limits(settings: Sequence[RankedSetting], write: Labels) -> str:
    """Words for the resource that limits the best strategy at each setting, with the share of an iteration that
    computation takes there."""
    limited: dict[str, list[RankedSetting]] = {NETWORK: [], WINDOWS: [], COMPUTATION: []}
    for setting in settings:
        row = _best_row(setting)
        computes = row.scaling_efficiency >= COMPUTE_BOUND
        limited[COMPUTATION if computes else WINDOWS if by_windows(row) else NETWORK].append(setting)
    if len(limited[COMPUTATION]) == len(settings):
        least = min(_computing(setting) for setting in settings)
        return f"the network is no longer the limit: computation takes at least {least:.0%} of the iteration"
    return "; ".join(
        f"{resource} the limit at "
        f"{_places(where, settings, write, '' if resource == COMPUTATION else 'computation takes ')}"
        for resource, where in limited.items()
        if where
    )


def _places(limited: Sequence[RankedSetting], settings: Sequence[RankedSetting], write: Labels, prefix: str) -> str:
    """Some of the settings, with computation's share of an iteration
    there, after `prefix`: one by one if they are few."""
    shares = [f"{share:.0%}" for share in sorted(map(_computing, limited))]
    if len(limited) > MOST_SETTINGS_NAMED:
        range_ = " to ".join(dict.fromkeys((shares[0], shares[-1])))
        where = f"{_all(len(limited), len(settings))} {_kinds(settings, write)}"
        return f"{where} ({prefix}{range_} of the iteration)"
    texts = [f"{_where(setting, write).replace(', ', ' ')} ({_computing(setting):.0%})" for setting in limited]
    first = _where(limited[0], write).replace(", ", " ")
    texts[0] = f"{first} ({prefix}{_computing(limited[0]):.0%} of the iteration)"
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _computing(setting: RankedSetting) -> float:
    """The share of the best strategy's iteration that computation takes."""
    return _best_row(setting).scaling_efficiency


def _best_row(setting: RankedSetting) -> PointResult:
    assert setting.ranking.best is not None
    return setting.ranking.best.row


def _doubt(settings: Sequence[RankedSetting]) -> str:
    """Words for comparisons that too few seeds leave open; "" if there are none."""
    contrasts = [
        setting.ranking.against_best(entry)
        for setting in settings
        for entry in setting.ranking.valid
        if entry is not setting.ranking.best and not entry.partial
    ]
    unclear = [contrast for contrast in contrasts if contrast.outcome is TimeComparison.UNCLEAR]
    if not unclear:
        return ""
    if all(contrast.half is None for contrast in unclear):
        return "; random orders ran with one seed each, so it is not known how much others would change"
    pairs = f"{len(unclear)} comparisons are" if len(unclear) > 1 else "1 comparison is"
    return f"; {pairs} open for want of seeds: {seeds_wanted(unclear)}"


def _where(setting: RankedSetting, write: Labels) -> str:
    return ", ".join(write.pair(key, value) for key, value in setting.parameters.items() if value)


def _best_time_s(ranking: Ranking) -> float:
    assert ranking.best is not None
    return ranking.best.time_s
