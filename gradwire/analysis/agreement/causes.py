"""Explains why a run takes another time than its estimate on an ideal network: it looks for the effect that, when it is
included in the estimate, leads to the measured time.

The decision is pure. The effects, and how each is included, are in analysis/agreement/trials.py. The sentences are
continuations of "x fluid is 1.164: ".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gradwire.analysis.quantities import quantity

MARGIN = 0.02
"""Largest difference between a run and its estimate for which no cause is looked for, as a share of the estimate.

docs/estimate.md: most points are within 0.1 %, and 95 of 100 random ones within this.
"""
ENOUGH = 1 / 2
"""A cause explains at least so much of what a run is off,"""
ENOUGH_WITHIN_MARGIN = 1 / 3
"""or so much where what is left is within MARGIN. Without this, whatever moves an estimate by a hair would explain a
run that is off by little more than MARGIN."""


class Cause(StrEnum):
    """Cause of a difference of more than MARGIN between a run and its estimate."""

    NONE = ""
    """The difference is not larger than MARGIN."""
    AGENTS = "late agents"
    START = "first iteration"
    END = "last iteration"
    ACKS = "ACKs"
    BURSTS = "bursts"
    SOCKETS = "sockets"
    SWITCHES = "switch queues"
    SKEW = "skew"
    DELAYS = "delays"
    WINDOWS = "windows"
    PHASES = "phases"
    UNEXPLAINED = "unexplained"
    """No known effect explains the difference."""
    NOT_EXAMINED = "not examined"
    """The point asks for something that no ideal network has, such as loss, or its plan is too large."""


@dataclass(frozen=True)
class Agreement:
    """The cause of the difference between a run and an ideal network."""

    cause: Cause = Cause.NONE
    #: Evidence for the cause, or the reason why there is none; "" if there is nothing to say.
    sentence: str = ""
    #: The agreement of each of several jobs, in the order of the plan. The fields above are then those of the job that
    #: is farthest off.
    jobs: tuple[Agreement, ...] = ()


@dataclass(frozen=True)
class Deviation:
    """A run and its estimate."""

    measured_s: float
    ideal_s: float
    #: Part of the measured time that is known not to be the network's: agents acted late on its critical path.
    late_s: float = 0.0

    @property
    def ratio(self) -> float:
        """Measured over estimated."""
        return self.measured_s / self.ideal_s

    @property
    def matters(self) -> bool:
        """Whether the difference is larger than MARGIN."""
        return abs(self.ratio - 1) > MARGIN

    def share(self, added_s: float) -> float:
        """A time as a share of the difference: negative if it has the other sign."""
        return added_s / (self.measured_s - self.ideal_s)

    def explained_share(self, with_effect_s: float) -> float:
        """The share of it that an estimate with an effect explains: 1 is all; below 0, the effect makes it larger."""
        return 1 - self._left_s(with_effect_s) / abs(self.measured_s - self.ideal_s)

    def is_explained(self, with_effect_s: float) -> bool:
        """Returns whether an effect explains enough of the difference to be its cause."""
        return self.explained_share(with_effect_s) >= (ENOUGH_WITHIN_MARGIN if self.is_met(with_effect_s) else ENOUGH)

    def is_met(self, with_effect_s: float) -> bool:
        """Returns whether an estimate with an effect is within MARGIN of what was measured."""
        return self._left_s(with_effect_s) <= MARGIN * with_effect_s

    def is_within(self, bound_s: float) -> bool:
        """Returns whether the measured time lies between the estimate without an effect and a bound on what the effect
        can do."""
        least_s, most_s = sorted((self.ideal_s, bound_s))
        return least_s <= self._punctual_s <= most_s

    def _left_s(self, with_effect_s: float) -> float:
        return abs(self._punctual_s - with_effect_s)

    @property
    def _punctual_s(self) -> float:
        """Time that would have been measured without late agents, in seconds. If they were late by more than the run is
        slow, other ranks hid a part of the lateness, unless that part were more than half."""
        slow_s = self.measured_s - self.ideal_s
        return self.ideal_s if ENOUGH * self.late_s <= slow_s < self.late_s else self.measured_s - self.late_s


@dataclass(frozen=True)
class Trial:
    """An estimate with an effect that an ideal network does not have."""

    cause: Cause
    with_effect_s: float
    #: The effect that was included, with its figures.
    effect: str
    #: Whether the effect is no larger than what was included, but may be smaller.
    is_bound: bool = False


def first_cause(deviation: Deviation, trials: Iterable[Trial]) -> Trial | None:
    """The first trial that brings the estimate within MARGIN, or whose bound is wide enough; or else the one that
    explains most, if that is enough, and None if it is not.

    So trials come in the order in which they should be believed, and those after a good one are not made.
    """
    enough: list[Trial] = []
    for trial in trials:
        is_within = trial.is_bound and deviation.is_within(trial.with_effect_s)
        if is_within or deviation.is_explained(trial.with_effect_s):
            if is_within or deviation.is_met(trial.with_effect_s):
                return trial
            enough.append(trial)
    return max(enough, key=lambda trial: deviation.explained_share(trial.with_effect_s), default=None)


SUBJECTS = {
    Cause.AGENTS: "late agents explain",
    Cause.START: "the first iteration explains",
    Cause.END: "the last iteration explains",
    Cause.ACKS: "ACKs explain",
    Cause.BURSTS: "bursts explain",
    Cause.SOCKETS: "sockets explain",
    Cause.SWITCHES: "switch queues explain",
    Cause.SKEW: "skew explains",
    Cause.DELAYS: "the links' delays explain",
    Cause.WINDOWS: "sockets' windows explain",
    Cause.PHASES: "the phases of jobs explain",
}


def rough(value: float, unit: str) -> str:
    """A quantity in two significant digits."""
    return quantity(float(f"{value:.2g}"), unit)


def no_explanation(deviation: Deviation, then: str = "Check this point before you trust it") -> str:
    """Sentence for a point for which no cause was found. then: what the reader should do."""
    return (
        f"no known effect explains the difference between {quantity(deviation.measured_s, 's')} measured and "
        f"{quantity(deviation.ideal_s, 's')} on an ideal network. {then}"
    )


def explanation(deviation: Deviation, trial: Trial) -> str:
    """Sentences about a cause: how much it explains, what it is, and the times that show it."""
    measured, ideal, shown = (quantity(s, "s") for s in (deviation.measured_s, deviation.ideal_s, trial.with_effect_s))
    begin, effect = SUBJECTS[trial.cause], trial.effect
    if trial.is_bound:
        bound = f"At most, that makes {shown} of the {ideal} that an ideal network takes, and {measured} were measured"
        return f"{begin} it, as far as the data show. {effect}. {bound}"
    if trial.cause in (Cause.AGENTS, Cause.START, Cause.END):
        times = f"{measured} were measured, and an ideal network takes {ideal}"
    else:
        times = f"With that, an ideal network takes {shown} instead of {ideal}, and {measured} were measured"
    return f"{begin} {deviation.explained_share(trial.with_effect_s):.0%} of the difference. {effect}. {times}"
