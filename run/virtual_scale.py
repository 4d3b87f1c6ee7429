"""The scale at which the virtual clock carries a scenario's networks exactly."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.vm.machines import Clock
from gradwire.workloads.compilation import ResolvedPoint
from gradwire.workloads.scaling import virtual_scale
from gradwire.workloads.scenario.loading import Point, origin_named


def virtual_clock(points: Sequence[Point]) -> Clock:
    """The virtual clock, at the one scale that all of these points need. Raises InputFault for a fabric that does not fit together."""
    return Clock(scale=max(map(_scale, points)))


def _scale(point: Point) -> int:
    with origin_named(point):
        return virtual_scale(ResolvedPoint(point.section).fabric)


def scale_warning(points: Sequence[Point], clock: Clock) -> str:
    """What a user should know of a scale above 1."""
    largest = max(
        (ResolvedPoint(point.section).fabric for point in points), key=lambda fabric: fabric.hosts * fabric.rate_bps
    )
    return (
        f"{largest.hosts} hosts at {largest.rate_bps / 1e9:g} Gbit/s send more together than the virtual clock carries exactly: bytes and "
        f"rates of all points are divided by {clock.scale}, which leaves their times as they are, but for bursts that last longer"
    )
