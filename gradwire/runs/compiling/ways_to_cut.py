"""Ways to run a part of a job, of which the one is taken that is most like the whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import Fabric


@dataclass(frozen=True)
class CutPart:
    """A part of a job, placed on its network."""

    plan: Plan
    fabric: Fabric
    #: Description of the part, for listings and reports: a sentence without its full stop.
    words: str
    #: The workers of the whole that it has, in the order of the plan's.
    workers: tuple[int, ...] = ()


@dataclass(frozen=True)
class PlanCuts:
    """All ways to cut a plan, the simplest first."""

    #: Label of the plan that is cut.
    label: str
    ways: Iterable[CutPart]
    #: Estimated time of an iteration of the whole.
    whole_s: float
