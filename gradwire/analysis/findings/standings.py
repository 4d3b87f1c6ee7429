"""Values of a choice ranked by time, at each setting of everything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from gradwire.analysis.findings.axes import VariedAxis, Where
from gradwire.analysis.findings.observations import Observation
from gradwire.analysis.statistics import LEVEL_MARGIN, Contrast, Sample, TimeComparison, contrast


@dataclass(frozen=True)
class ComparedTime:
    """One value of a choice."""

    value: Where
    #: Seconds per iteration, or per as many samples as the smallest iteration has.
    time_s: float
    #: Against the best.
    against: Contrast
    #: Number of seeds.
    seeds: int

    @property
    def has_one_seed(self) -> bool:
        """Returns whether its outcome is open because a random order ran with one seed, which shows no spread."""
        return self.against.outcome is TimeComparison.UNCLEAR and self.against.half is None

    @property
    def is_open(self) -> bool:
        """Returns whether its seeds cannot tell it from the best."""
        return self.against.outcome is TimeComparison.UNCLEAR and self.against.half is not None

    @property
    def is_level(self) -> bool:
        """Returns whether it is as fast as the best, or was with the one seed that ran."""
        close = self.has_one_seed and self.against.ratio <= 1 + LEVEL_MARGIN
        return self.against.outcome is TimeComparison.LEVEL or close


@dataclass(frozen=True)
class Standing:
    """The values of a choice at one setting of everything else."""

    where: Where
    #: The fastest first.
    ranked: tuple[ComparedTime, ...]
    #: Samples that every time is of, where iterations have unlike numbers of them; else 0.
    samples: int = 0
    #: Values without a result here.
    missing: tuple[Where, ...] = ()

    @property
    def best(self) -> ComparedTime:
        """The fastest."""
        return self.ranked[0]

    @cached_property
    def leaders(self) -> tuple[ComparedTime, ...]:
        """The fastest, and all that are level with it."""
        return (self.best, *(each for each in self.ranked[1:] if each.is_level))

    @cached_property
    def undecided(self) -> tuple[ComparedTime, ...]:
        """Those that seeds cannot tell from the fastest."""
        return tuple(each for each in self.ranked[1:] if each.is_open)

    @cached_property
    def slower(self) -> tuple[ComparedTime, ...]:
        """Those that took longer."""
        return tuple(each for each in self.ranked[1:] if not each.is_open and not each.is_level)

    @property
    def is_level(self) -> bool:
        """Returns whether all values take the same time."""
        return len(self.leaders) == len(self.ranked)

    def of(self, value: Where) -> ComparedTime | None:
        """The entry of a value."""
        return next((each for each in self.ranked if each.value == value), None)


def value_of(observation: Observation, axes: Iterable[VariedAxis]) -> Where:
    """The observation's values of some axes."""
    return tuple(pair for axis in axes for pair in axis.of(observation.settings))


def grouped(observed: Sequence[Observation], axes: Sequence[VariedAxis]) -> dict[Where, list[Observation]]:
    """Observations by their values of some axes, in the order of these."""
    places = [{value: index for index, value in enumerate(axis.values)} for axis in axes]
    groups: dict[Where, list[Observation]] = {}
    for each in sorted(
        observed,
        key=lambda each: [place.get(axis.of(each.settings), 0) for axis, place in zip(axes, places, strict=True)],
    ):
        groups.setdefault(value_of(each, axes), []).append(each)
    return groups


def standings(
    observed: Sequence[Observation], choices: Sequence[VariedAxis], others: Sequence[VariedAxis]
) -> list[Standing]:
    """The values of the choices ranked at each setting of the others where there are several."""
    return [
        _standing(where, group, choices)
        for where, group in grouped(observed, others).items()
        if sum(each.valid for each in group) > 1
    ]


def _standing(where: Where, observed: Sequence[Observation], choices: Sequence[VariedAxis]) -> Standing:
    group = [each for each in observed if each.valid]
    missing = tuple(value_of(each, choices) for each in observed if not each.valid)
    fewest = min(each.samples for each in group)
    ordered = sorted(group, key=lambda each: each.per(fewest).mean_s)
    best = ordered[0].per(fewest)
    ranked = tuple(_compared(each, fewest, value_of(each, choices), best) for each in ordered)
    divided = any(each.per(fewest) != each.sample for each in group)
    return Standing(where, ranked, round(fewest) if divided else 0, missing)


def _compared(observed: Observation, fewest: float, value: Where, best: Sample) -> ComparedTime:
    sample = observed.per(fewest)
    return ComparedTime(value, sample.mean_s, contrast(sample, best), observed.seeds)


def best_of(group: Sequence[Observation]) -> list[Observation]:
    """The fastest per sample of those with a result, alone in a list, of alike ones the first; empty if there is
    none."""
    valid = [each for each in group if each.valid]
    fewest = min((each.samples for each in valid), default=0.0)
    return sorted(valid, key=lambda each: each.per(fewest).mean_s)[:1]
