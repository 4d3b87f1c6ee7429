"""Points pooled over seeds, as conclusions compare them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradwire.analysis.agreement.causes import Cause
from gradwire.analysis.fault_effects import FaultEffect, mean_effect
from gradwire.analysis.points import PointResult
from gradwire.analysis.request_times import RequestTimes, mean_times
from gradwire.analysis.statistics import Sample

SEED, STRATEGY, OPTIONS, JOB = "seed", "strategy", "options", "job"
BETWEEN_OPTIONS = re.compile(r", (?=\w+=)")
"""Separator of two options in the text of a point's options."""


@dataclass(frozen=True)
class Observation:
    """The time of an iteration at one setting."""

    #: The parameters that vary, without the seed; a strategy's name has the options that tell it from others.
    settings: Mapping[str, str]
    #: Seconds per iteration with each seed.
    sample: Sample
    #: Samples of all workers in an iteration; nan if that is not known.
    samples: float
    #: Computation's share of the iteration; nan if that is not known.
    compute_share: float
    #: Least time of an iteration that its traffic permits, by the greatest bound.
    bound_s: float
    #: Of one of several jobs: its time over that with the network for itself.
    alone_ratio: float | None = None
    #: Whether sockets' windows limit it.
    by_windows: bool = False
    #: Whether it does not send all gradients of every step.
    partial: bool = False
    #: What faults did to its iterations, the mean over seeds; None if there were none, or not with each seed.
    fault_effect: FaultEffect | None = None
    #: Times of requests to a model that is served, the means over seeds; None if it is trained.
    requests: RequestTimes | None = None
    #: Whether its numbers are results: with one seed whose run is invalid, what is left would be a selection.
    valid: bool = True

    @property
    def time_s(self) -> float:
        """Mean over seeds."""
        return self.sample.mean_s

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return len(self.sample.times_s)

    @property
    def throughput_per_s(self) -> float:
        """Samples of all workers per second."""
        return self.samples / self.time_s

    def per(self, samples: float) -> Sample:
        """The times of as many samples each, where an iteration has several times as many, such as a round of many
        steps."""
        steps = round(self.samples / samples) if samples and math.isfinite(self.samples / samples) else 1
        if steps <= 1:
            return self.sample
        return replace(self.sample, times_s={seed: time_s / steps for seed, time_s in self.sample.times_s.items()})


@dataclass(frozen=True)
class OtherResults:
    """What a point shows that is not in its row."""

    fault_effect: FaultEffect | None = None
    requests: RequestTimes | None = None


@dataclass
class _Group:
    rows: list[PointResult] = field(default_factory=list)
    others: list[OtherResults] = field(default_factory=list)
    random: bool = False


def observations(
    rows: Sequence[PointResult],
    partial: Sequence[str] = (),
    random: Sequence[bool] = (),
    others: Sequence[OtherResults] = (),
) -> list[Observation]:
    """The points, pooled over seeds.

    rows: one per point and seed. partial: strategies that do not send all gradients of every step. random: for each
    row, whether its seed decides its time; what ran with several seeds is taken to be random in any case. others: for
    each row.
    """
    named = with_strategy_names([row.parameters for row in rows])
    groups: dict[tuple[tuple[str, str], ...], _Group] = {}
    for index, (row, settings) in enumerate(zip(rows, named, strict=True)):
        rest = tuple((name, value) for name, value in settings.items() if name != SEED)
        group = groups.setdefault(rest, _Group())
        group.rows.append(row)
        group.others.append(others[index] if others else OtherResults())
        group.random |= bool(random and random[index])
    alone = len({row.parameters.get(STRATEGY) for row in rows}) == 1  # which is compared with itself, whatever it sends
    return [
        _observation(dict(rest), group, partial=group.rows[0].parameters.get(STRATEGY) in partial and not alone)
        for rest, group in groups.items()
    ]


def _observation(settings: Mapping[str, str], group: _Group, *, partial: bool) -> Observation:
    rows = group.rows
    first = rows[0]
    times_s = {row.parameters.get(SEED, str(index)): row.iteration_time_s for index, row in enumerate(rows)}
    sample = Sample(times_s, group.random or len(times_s) > 1)
    compute_s = first.scaling_efficiency * first.iteration_time_s
    return Observation(
        settings,
        sample,
        samples=first.throughput_per_s * first.iteration_time_s,
        compute_share=compute_s / sample.mean_s,
        bound_s=min(row.lower_bound_s for row in rows),
        alone_ratio=sample.mean_s / first.alone_time_s if first.alone_time_s else None,
        by_windows=any(Cause.WINDOWS in row.fluid_cause for row in rows),
        partial=partial,
        fault_effect=mean_effect([each.fault_effect for each in group.others]),
        requests=mean_times([each.requests for each in group.others]),
        valid=all(row.valid for row in rows),
    )


def with_strategy_names(parameters: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The parameters of points with their options in the strategy's name, where one strategy has several. Other
    parameters that only some points have are in it as well if nothing else tells two points apart."""
    shared = {name for each in parameters for name in each if all(name in other for other in parameters)}
    strategies = [each.get(STRATEGY, "") for each in parameters]
    options = telling_options([each.get(OPTIONS, "") for each in parameters], strategies)
    alone = len(set(strategies)) == 1  # whose options say it all
    found = []
    for each, strategy, text in zip(parameters, strategies, options, strict=True):
        own = [f"{name}={value}" for name, value in each.items() if name not in shared and name not in (OPTIONS, SEED)]
        told = ", ".join(filter(None, (text, *(own if _tells(strategy, parameters, shared) else ()))))
        name = f"{strategy} ({told})" if told and not alone else told or strategy
        kept = {key: value for key, value in each.items() if key in shared or key == SEED}
        kept.pop(OPTIONS, None)
        found.append(kept | ({STRATEGY: name} if STRATEGY in each else {}))
    return found


def _tells(strategy: str, parameters: Sequence[Mapping[str, str]], shared: set[str]) -> bool:
    """Returns whether parameters that not all points have tell two points of a strategy apart."""
    of_strategy = [each for each in parameters if each.get(STRATEGY, "") == strategy]
    common = {tuple((name, each[name]) for name in sorted(shared) if name in each) for each in of_strategy}
    seedless = {
        tuple(sorted((name, value) for name, value in each.items() if name not in (SEED, OPTIONS)))
        for each in of_strategy
    }
    return len(seedless) > len({tuple(pair for pair in each if pair[0] not in (SEED, OPTIONS)) for each in common})


def telling_options(texts: Sequence[str], strategies: Sequence[str]) -> list[str]:
    """Options of each point; if a strategy has several different ones, only those in which they differ, and if it has
    one, none."""
    parts = [BETWEEN_OPTIONS.split(text) if text else [] for text in texts]
    alike = {
        strategy: set.intersection(
            *(set(options) for options, of in zip(parts, strategies, strict=True) if of == strategy)
        )
        for strategy in set(strategies)
    }
    return [
        ", ".join(part for part in options if part not in alike[strategy])
        for options, strategy in zip(parts, strategies, strict=True)
    ]
