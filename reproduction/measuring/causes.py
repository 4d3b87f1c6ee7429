"""The critical path of a claim's point, which explains claims that no function of their paper does."""

from __future__ import annotations

from gradwire.analysis.iterations import iteration_times_s
from gradwire.analysis.timeline.critical_path import CriticalPath, critical_path
from reproduction.scoring.evidence import NoEvidence, PointEvidence, Points
from reproduction.scoring.explanations import Explanation
from reproduction.scoring.reference import Claim

CAUSE = "Where the time goes, by the critical path"


def from_critical_path(points: Points, claim: Claim) -> Explanation:
    """The critical path of the claim's point, and of the one that a speed-up is relative to, each in a sentence.

    Raises NoEvidence for a claim that speaks of no single point.
    """
    places = [claim.where] + ([{**claim.where, **claim.baseline}] if claim.baseline else [])
    seen = " ".join(
        f"{_name(point, points)}: {sentence(point)}" for point in (_single(points, where) for where in places)
    )
    return Explanation(CAUSE, "The critical path of the slowest measured iteration of each point.", seen)


def _single(points: Points, where: dict[str, str | int | float]) -> PointEvidence:
    matching = points.stored(**where) if where else []
    rest = {tuple((k, v) for k, v in p.parameters.items() if k != "seed") for p in matching}
    if len(rest) != 1:
        raise NoEvidence("it speaks of several points")
    return points.point(**where)


def _name(point: PointEvidence, points: Points) -> str:
    """The parameters that tell a point from the others."""
    all_points = points.stored()
    varied = [k for k in point.parameters if len({other.parameters.get(k) for other in all_points}) > 1 and k != "seed"]
    return " ".join(point.parameters[key] for key in varied if point.parameters[key]) or "the point"


def sentence(point: PointEvidence) -> str:
    """How the slowest measured iteration's time divides, and the largest cause beside computation."""
    return path_of_slowest(point).sentence()


def path_of_slowest(point: PointEvidence) -> CriticalPath:
    """The critical path of the slowest measured iteration."""
    plan, log, record = point.plan(), point.log(), point.record()
    times_s = iteration_times_s(plan, log, record.iterations)
    slowest = record.warmup + int(times_s[record.warmup :].argmax())
    return critical_path(plan, log, slowest, point.fabric)
