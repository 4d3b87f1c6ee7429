"""The check that dividing bytes and rates, for the virtual clock or for run.fidelity, leaves an iteration what it is."""

from __future__ import annotations

from dataclasses import dataclass

from gradwire.analysis.verdict.checks import Check

DIVISION_TOLERANCE = 0.05
"""As much as a network that is divided for the wall clock may be off (WALL_TOLERANCE): half of what makes a strategy a tenth faster than
another. Where what is stated was measured, it was met within a percentage point (docs/trust.md)."""


@dataclass(frozen=True)
class Divided:
    """What bytes and rates were divided by, and what that was stated to do before the run."""

    number: int = 1
    #: By how much bursts, which are not divided, may move an iteration, as a share of it.
    error: float = 0.0
    #: What the scenario allows (run.fidelity); None: DIVISION_TOLERANCE.
    fidelity: float | None = None

    @property
    def limit(self) -> float:
        """The largest error with which a time is a result."""
        return DIVISION_TOLERANCE if self.fidelity is None else self.fidelity

    @property
    def is_too_coarse(self) -> bool:
        """Whether the error is larger."""
        return self.number > 1 and self.error > self.limit


def division_check(divided: Divided) -> Check:
    """What was stated before the run is within what is allowed."""
    by = (
        "as the scenario allows (run.fidelity)"
        if divided.fidelity is not None
        else "of an iteration, unless run.fidelity allows more"
    )
    return Check(
        "division",
        f"by {divided.number}: up to {divided.error:.1%}",
        f"{divided.limit:.1%} {by}",
        not divided.is_too_coarse,
        "Bursts, which are not divided, may take too much of an iteration: use fewer hosts, a lower rate or larger messages.",
    )
