"""The typed findings of a run, from its points: tables, reports, files and Python word the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.analysis.findings.axes import KeyRole, VariedAxis, Where, axes_of
from gradwire.analysis.findings.curves import Curve, curves
from gradwire.analysis.findings.observations import JOB, SEED, Observation
from gradwire.analysis.findings.standings import Standing, best_of, grouped, standings, value_of

COMPUTE_BOUND = 0.98
"""Computation's share of an iteration from which on communication costs next to nothing."""


@dataclass(frozen=True)
class Single:
    """The only setting of a run."""

    name: Where
    observed: Observation


@dataclass(frozen=True)
class BestChoice:
    """Which values of the choices are fastest, at each setting of everything else."""

    choices: tuple[VariedAxis, ...]
    #: Everything else that varies.
    given: tuple[VariedAxis, ...]
    standings: tuple[Standing, ...]


@dataclass(frozen=True)
class Effect:
    """How much one of several choices matters."""

    choice: VariedAxis
    #: Slowest over fastest value, with everything else as it is: the largest there is, and where all are level 1.
    most: float


@dataclass(frozen=True)
class Effects:
    """How much each of several choices matters, the most important first."""

    of: tuple[Effect, ...]


@dataclass(frozen=True)
class Dependence:
    """How the iteration time depends on a condition."""

    axis: VariedAxis
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Growth:
    """How throughput grows with workers or batches, where times are not of the same work."""

    axis: VariedAxis
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class ObservationAt:
    """What was observed at one setting."""

    where: Where
    observed: Observation


@dataclass(frozen=True)
class ComputeShares:
    """Computation's share of an iteration, with the best of the choices at each setting."""

    at: tuple[ObservationAt, ...]

    @property
    def by_windows(self) -> tuple[ObservationAt, ...]:
        """The findings in which sockets' windows are the limit."""
        return tuple(each for each in self.at if each.observed.by_windows)


@dataclass(frozen=True)
class FaultEffects:
    """What faults did to iterations at each setting."""

    at: tuple[ObservationAt, ...]


@dataclass(frozen=True)
class RequestsServed:
    """Times of requests to a model that is served at each setting, where arrivals decide how long iterations last."""

    at: tuple[ObservationAt, ...]


@dataclass(frozen=True)
class OneSeed:
    """Points with a random order that ran with one seed each."""

    values: tuple[Where, ...]


@dataclass(frozen=True)
class LeftOut:
    """Strategies that no other is compared with, for they do not send all gradients of every step."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class NotEstimated:
    """Varied parameters that an estimate does not know."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class OfJob:
    """A finding about one of several jobs."""

    job: str
    findings: tuple[Finding, ...]
    #: Its time over that with the network for itself, at least and at most, with the best of the choices; None if that
    #: is not known.
    alone_ratios: tuple[float, float] | None


Finding = (
    Single
    | BestChoice
    | Effects
    | Dependence
    | Growth
    | ComputeShares
    | FaultEffects
    | RequestsServed
    | OneSeed
    | LeftOut
    | NotEstimated
    | OfJob
)


def find(
    observed: Sequence[Observation], keys: Mapping[str, str], *, unknown: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Returns the findings of a run's points, in the order in which they are told; points that are not valid have none.

    keys: the scenario's keys, by the names of parameters. unknown: parameters that have no effect on these times though
    they would have one in a run, so that only their first values count.
    """
    jobs = list(dict.fromkeys(each.settings[JOB] for each in observed if JOB in each.settings))
    if jobs:
        return tuple(_of_job(job, observed, keys, unknown) for job in jobs)
    return _of_work(observed, keys, unknown)


def _of_job(job: str, observed: Sequence[Observation], keys: Mapping[str, str], unknown: Sequence[str]) -> OfJob:
    own = [each for each in observed if each.settings.get(JOB) == job]
    _, given = _divided(axes_of([each.settings for each in own], keys))
    best = [each for group in grouped(own, given).values() for each in best_of(group)]
    # Arrivals decide how long an iteration of requests lasts, alone as well.
    ratios = [each.alone_ratio for each in best if each.alone_ratio is not None and each.requests is None]
    found = tuple(each for each in _of_work(own, keys, unknown) if not isinstance(each, ComputeShares))
    return OfJob(job, found, (min(ratios), max(ratios)) if ratios else None)


def _divided(axes: Sequence[VariedAxis]) -> tuple[list[VariedAxis], list[VariedAxis]]:
    """The choices, and the others."""
    choices = [axis for axis in axes if axis.role is KeyRole.CHOICE]
    return choices, [axis for axis in axes if axis.role not in (KeyRole.CHOICE, KeyRole.SEED)]


def _of_work(observed: Sequence[Observation], keys: Mapping[str, str], unknown: Sequence[str]) -> tuple[Finding, ...]:
    ignored = [name for name in unknown if len({each.settings.get(name) for each in observed}) > 1]
    observed = _first_of(observed, ignored)
    left_out = tuple(
        dict.fromkeys(each.settings.get("strategy", "") for each in observed if each.partial and each.valid)
    )
    whole = [each for each in observed if not each.partial]
    found: list[Finding] = [*_compared(whole, keys)] if any(each.valid for each in whole) else []
    found += [NotEstimated(tuple(ignored))] if ignored else []
    return (*found, LeftOut(left_out)) if left_out else tuple(found)


def _first_of(observed: Sequence[Observation], ignored: Sequence[str]) -> list[Observation]:
    """Observations that differ in more than the ignored parameters."""
    kept: dict[tuple[tuple[str, str], ...], Observation] = {}
    for each in observed:
        rest = tuple(pair for pair in each.settings.items() if pair[0] not in ignored)
        kept.setdefault(rest, each)
    return list(kept.values())


def _compared(observed: Sequence[Observation], keys: Mapping[str, str]) -> tuple[Finding, ...]:
    axes = axes_of([{k: v for k, v in each.settings.items() if k != SEED} for each in observed], keys)
    choices, given = _divided(axes)
    valid = [each for each in observed if each.valid]
    one_seed = _of_one_seed(valid, axes)
    if valid and all(each.requests is not None for each in valid):
        return (RequestsServed(tuple(ObservationAt(value_of(each, axes), each) for each in valid)), *one_seed)
    shares = ComputeShares(
        tuple(
            ObservationAt(where, best) for where, group in grouped(observed, given).items() for best in best_of(group)
        )
    )
    found: list[Finding] = []
    if len(valid) == 1:
        strategy = valid[0].settings.get("strategy", "")
        found.append(Single((("strategy", strategy),) if strategy else (), valid[0]))
    ranked = tuple(standings(observed, choices, given)) if choices else ()
    if ranked:
        found.append(BestChoice(tuple(choices), tuple(given), ranked))
    if len(choices) > 1:
        found += _effects(observed, choices, given)
    faults = _of_faults(valid, axes)
    for axis in given:
        if faults and all(keys.get(name, "").startswith("fault.") for name in axis.names):
            continue  # a mean over iterations with and without a fault says how many of them were asked for
        along = tuple(curves(observed, axis, [other for other in given if other is not axis], choices))
        if along and axis.role in (KeyRole.WORKERS, KeyRole.BATCH):
            found.append(Growth(axis, along))
        elif along and axis.role is KeyRole.CONDITION:
            found.append(Dependence(axis, along))
    found += faults or [shares]
    return (*found, *one_seed)


def _of_one_seed(valid: Sequence[Observation], axes: Sequence[VariedAxis]) -> list[Finding]:
    drawn = [each for each in valid if each.sample.random and each.seeds == 1]
    values = (value_of(each, axes) or (("strategy", each.settings.get("strategy", "")),) for each in drawn)
    return [OneSeed(tuple(dict.fromkeys(values)))] if drawn else []


def _of_faults(valid: Sequence[Observation], axes: Sequence[VariedAxis]) -> list[Finding]:
    """What faults did, if they happened at every setting."""
    at = tuple(ObservationAt(value_of(each, axes), each) for each in valid if each.fault_effect is not None)
    return [FaultEffects(at)] if at and len(at) == len(valid) else []


def _effects(
    observed: Sequence[Observation], choices: Sequence[VariedAxis], given: Sequence[VariedAxis]
) -> list[Finding]:
    effects = []
    for choice in choices:
        rest = [axis for axis in choices if axis is not choice]
        at = standings(observed, [choice], [*given, *rest])
        if at:
            most = max(1.0 if each.is_level else each.ranked[-1].against.ratio for each in at)
            effects.append(Effect(choice, most))
    return [Effects(tuple(sorted(effects, key=lambda effect: -effect.most)))] if len(effects) > 1 else []
