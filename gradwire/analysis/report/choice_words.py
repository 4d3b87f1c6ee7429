"""The best values of choices, in words: which, by how much, and where another one is better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.analysis.findings.axes import VariedAxis, Where
from gradwire.analysis.findings.findings import BestChoice, Effects
from gradwire.analysis.findings.standings import ComparedTime, Standing
from gradwire.analysis.report.value_words import (
    ValueWords,
    factor,
    factors,
    listed,
    seconds,
    unit_of,
)
from gradwire.analysis.statistics import LEVEL_MARGIN, MOST_SEEDS, Contrast

WITHIN = f"within {LEVEL_MARGIN:.0%}".replace("%", " %")


def best_words(found: BestChoice, words: ValueWords) -> list[str]:
    """Sentences on the fastest values of the choices."""
    if len(found.standings) == 1:
        return [_one(found, found.standings[0], words)]
    decided = [standing for standing in found.standings if not standing.undecided and not standing.missing]
    lacking = [_one(found, standing, words) for standing in found.standings if standing.missing]
    return [*(_decided(found, decided, words) if decided else []), *_undecided(found, words), *lacking]


def effects_words(found: Effects, words: ValueWords) -> str:
    """Sentence on how much each of several choices matters."""
    parts = [
        f"{words.subject([each.choice])} changes the time by up to {factor(each.most)}"
        if each.most > 1
        else f"{words.subject([each.choice])} makes no difference ({WITHIN})"
        for each in found.of
    ]
    return listed(parts)


def seeds_wanted(contrasts: Sequence[Contrast]) -> str:
    """Words for the number of seeds that would probably make unclear outcomes clear."""
    if any(each.seeds_needed is None for each in contrasts):
        return f"more than {MOST_SEEDS:,} would be needed"
    return f"about {max(each.seeds_needed or 0 for each in contrasts)} would probably do"


def _one(found: BestChoice, standing: Standing, words: ValueWords) -> str:
    """The sentence on a single setting."""
    where = f"{words.at([standing.where])} " if standing.where and len(found.standings) > 1 else ""
    if not standing.missing:
        return f"{where}{_outcome(found, standing, words)}"
    missing = words.values(found.choices, standing.missing)
    verb = "have" if len(standing.missing) > 1 else "has"
    return f"{where}{missing} {verb} no result that can be ranked; of the others, {_outcome(found, standing, words)}"


def _outcome(found: BestChoice, standing: Standing, words: ValueWords) -> str:
    best, of = standing.best, unit_of(standing)
    leaders = [each.value for each in standing.leaders]
    values = words.values(found.choices, leaders)
    if standing.is_level:
        return f"{_no_difference(found.choices, standing, words)}: {seconds(best.time_s)} {of} ({WITHIN})"
    if standing.undecided:
        return _open(found, standing, words)
    one_seed = any(each.has_one_seed for each in standing.ranked)
    verb = "took least time" if one_seed else f"{words.be(found.choices, leaders)} fastest"
    level = f", level {WITHIN}" if len(leaders) > 1 else ""
    return f"{values} {verb}{level}: {seconds(best.time_s)} {of}, {_leads(standing, words)}"


def _no_difference(choices: Sequence[VariedAxis], standing: Standing, words: ValueWords) -> str:
    values = [each.value for each in standing.ranked]
    if len(choices) > 1:
        return f"{words.subject(choices)} make no difference"
    if choices[0].names == ("strategy",):
        return f"{words.values(choices, values)} take the same time"
    return f"it makes no difference whether {words.values(choices, values, 'or')}"


def _open(found: BestChoice, standing: Standing, words: ValueWords) -> str:
    """The sentence where the seeds cannot tell which of some is fastest."""
    first = [*standing.leaders, *standing.undecided]
    among = words.values(found.choices, [each.value for each in first])
    seeds = max(each.seeds for each in first)
    times = f"{seconds(first[0].time_s)} to {seconds(max(each.time_s for each in first))} {unit_of(standing)}"
    rest = ""
    if standing.slower:
        least = standing.slower[0]
        rest = f"; {words.values(found.choices, [each.value for each in standing.slower])} took at least "
        rest += f"{factor(least.against.ratio)} as long as the fastest"
    wanted = seeds_wanted([each.against for each in standing.undecided])
    return f"{seeds} seeds do not show which of {among} is fastest ({times}; {wanted}){rest}"


def _leads(standing: Standing, words: ValueWords) -> str:
    """By how much the fastest leads: over the next one, and the slowest."""
    next_, last = standing.slower[0], standing.slower[-1]
    text = f"{_lead(next_)} as fast as {words.value(next_.value)}"
    if next_ is last:
        return text
    return f"{text}, the next, and {_lead(last)} as fast as {words.value(last.value)}, the slowest"


def _lead(entry: ComparedTime) -> str:
    interval = entry.against.interval
    if interval is None or interval[0] == interval[1]:
        return factor(entry.against.ratio)
    return f"{factor(entry.against.ratio)} ({interval[0]:.2f} to {interval[1]:.2f})"


@dataclass(frozen=True)
class _Segment:
    """Settings at which the same values are fastest."""

    #: Empty where all values are level.
    values: tuple[Where, ...]
    standings: tuple[Standing, ...]


def _decided(found: BestChoice, decided: Sequence[Standing], words: ValueWords) -> list[str]:
    """Sentences on settings at which the fastest is known."""
    if all(standing.is_level for standing in decided):
        return [f"{words.subject(found.choices)} makes no difference {_all(found, decided, words)} ({WITHIN})"]
    along = next((axis for axis in found.given if _segments(axis, decided)), None)
    segments = _segments(along, decided) if along else _cover(decided)
    if len(segments) == 1:
        winner = _winner(found, segments[0], words)
        return [f"{winner} {_all(found, decided, words)}{_gains(segments[0], words)}"]
    parts, told = [], False
    for segment in sorted(segments, key=lambda segment: not segment.values):
        place = _place(segment, along, words)
        if segment.values:
            parts.append(f"{_winner(found, segment, words, verb=not told)} {place}{_gains(segment, words, short=True)}")
            told = True
        else:
            parts.append(f"{words.subject(found.choices)} makes no difference {place} ({WITHIN})")
    return ["; ".join(parts)]


def _all(found: BestChoice, decided: Sequence[Standing], words: ValueWords) -> str:
    """Returns the settings at which the fastest is known, with their preposition."""
    if len(decided) < len(found.standings):
        return words.at([standing.where for standing in decided])
    return f"at {words.settings(len(decided), found.given)}"


def _segments(axis: VariedAxis | None, decided: Sequence[Standing]) -> list[_Segment]:
    """Runs of an axis's values at which one value of the choices is always among the fastest; none if there is a value
    of the axis without one. Ends of an axis at which all are level are apart."""
    if axis is None:
        return []
    by_value = [[each for each in decided if set(value) <= set(each.where)] for value in axis.values]
    groups = [group for group in by_value if group]
    level = [all(each.is_level for each in group) for group in groups]
    first = next(index for index, is_level in enumerate(level) if not is_level)
    last = len(level) - next(index for index, is_level in enumerate(reversed(level)) if not is_level)
    segments: list[_Segment] = []
    for group in groups[first:last]:
        common = _common(group)
        if not common:
            return []
        both = _common([*segments[-1].standings, *group]) if segments else ()
        if both:
            segments[-1] = _Segment(both, (*segments[-1].standings, *group))
        else:
            segments.append(_Segment(common, tuple(group)))
    before, after = (
        [_Segment((), tuple(each for group in part for each in group))] if part else []
        for part in (groups[:first], groups[last:])
    )
    return [*before, *segments, *after]


def _common(group: Sequence[Standing]) -> tuple[Where, ...]:
    """Values that are among the fastest in all of these, by falling number of wins."""
    wins = Counter(standing.best.value for standing in group)
    values = [each.value for each in group[0].leaders]
    kept = [value for value in values if all(value in [e.value for e in other.leaders] for other in group)]
    return tuple(sorted(kept, key=lambda value: -wins[value]))


def _cover(decided: Sequence[Standing]) -> list[_Segment]:
    """Settings by their winners: the value that is among the fastest most often comes first, with all that it wins."""
    left, segments = list(decided), []
    while left:
        counts = Counter(each.value for standing in left for each in standing.leaders)
        winner = max(counts, key=lambda value: counts[value])
        won = [each for each in left if winner in [entry.value for entry in each.leaders]]
        segments.append(_Segment((winner,), tuple(won)))
        left = [each for each in left if each not in won]
    return segments


def _winner(found: BestChoice, segment: _Segment, words: ValueWords, *, verb: bool = True) -> str:
    text = words.values(found.choices, segment.values)
    if not verb:
        return text
    if any(entry.has_one_seed for standing in segment.standings for entry in standing.ranked):
        return f"{text} took least time"
    level = len(segment.values) == 1 and any(len(standing.leaders) > 1 for standing in segment.standings)
    be = words.be(found.choices, segment.values)
    return f"{text} {be} fastest{f', or level with the fastest ({WITHIN}),' if level else ''}"


def _place(segment: _Segment, along: VariedAxis | None, words: ValueWords) -> str:
    """Returns the place of a segment: a stretch of an axis, or settings by name."""
    if along is None:
        return words.at([standing.where for standing in segment.standings])
    values = [
        value for value in along.values if any(set(value) <= set(standing.where) for standing in segment.standings)
    ]
    if along.ordered and len(values) > 1:
        if values[0] == along.values[0]:
            return f"up to {words.value(values[-1])}"
        if values[-1] == along.values[-1]:
            return f"from {words.value(values[0])} on"
    return words.at(values)


def _gains(segment: _Segment, words: ValueWords, *, short: bool = False) -> str:
    """By how much the winner of a segment leads: over the next ones, and over the slowest."""
    led = [standing for standing in segment.standings if standing.slower]
    if not led:
        return ""
    nexts = [(standing.slower[0], standing) for standing in led]
    lasts = [(standing.slower[-1], standing) for standing in led]
    text = _over([entry for entry, _ in nexts], "the next", words)
    if any(entry is not last for (entry, _), (last, _) in zip(nexts, lasts, strict=True)) and not short:
        text += f", and {_over([entry for entry, _ in lasts], 'the slowest', words)}"
    _, where = max(lasts, key=lambda pair: pair[0].against.ratio)
    ratios = [factor(entry.against.ratio) for entry, _ in lasts]
    if short:
        return f" ({text})"
    at = f" (most {words.at([where.where])})" if len(set(ratios)) > 1 and len(led) > 1 else ""
    return f": {text}{at}"


def _over(entries: Sequence[ComparedTime], which: str, words: ValueWords) -> str:
    names = list(dict.fromkeys(words.value(entry.value) for entry in entries))
    ratios = [entry.against.ratio for entry in entries]
    if len(names) == 1:
        return f"{factors(ratios)} as fast as {names[0]}"
    return f"{factors(ratios)} as fast as {which}"


def _undecided(found: BestChoice, words: ValueWords) -> list[str]:
    """Sentence on settings at which the seeds cannot tell which is fastest."""
    standings = [standing for standing in found.standings if standing.undecided and not standing.missing]
    if not standings:
        return []
    pairs = [entry.against for standing in standings for entry in standing.undecided]
    among = dict.fromkeys(entry.value for standing in standings for entry in (*standing.leaders, *standing.undecided))
    where = words.at([standing.where for standing in standings])
    return [
        f"{where} the seeds do not show which of {words.values(found.choices, list(among))} is fastest "
        f"({seeds_wanted(pairs)})"
    ]
