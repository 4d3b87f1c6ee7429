"""Points that tests estimate by classes of ranks, and with all ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradwire.analysis.by_class.ring_times import ring_lines, ring_times
from gradwire.analysis.by_class.symmetry import class_lines
from gradwire.analysis.fluid.delays import own_delays
from gradwire.analysis.fluid.estimate import FluidTimes, SendEnds, estimate
from gradwire.datatypes.class_plans import ClassPlan, Folding, RingSequence
from gradwire.datatypes.plan import Plan
from gradwire.runs.compiling.ideal_times import fluid_times
from gradwire.runs.stored.spines import Spines
from gradwire.scenario.loading import scenario_of
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_plans

VALUES = (70_001, 12, 250_000, 33, 90_210)
LAYERS = [
    {"name": f"layer{number}", "size": [f"{4 * count}B"], "forward": f"{number + 1}ms", "backward": "2ms"}
    for number, count in enumerate(VALUES)
]
"""Of a model whose tensors are cut unevenly by every number of workers, or into fewer parts than that."""


def resolved_point(strategy: str, workers: int, **tables: Any) -> ResolvedPoint:
    """A point of a small model at 1 Gbit/s; tables: what else its scenario has."""
    options = tables.pop("options", {})
    content = {
        "title": "by class",
        "cluster": {"workers": workers, **tables.pop("cluster", {})},
        "fabric": {"rate": "1gbit", **tables.pop("fabric", {})},
        "model": tables.pop("model", {"name": "uneven", "batch": 1, "layers": LAYERS}),
        "strategy": {"name": strategy, "options": options},
        **tables,
    }
    return scenario_of(content).points[0].resolved


def compiled_classes(point: ResolvedPoint, neighbours: int) -> ClassPlan | RingSequence:
    """The point's job by classes."""
    assert point.strategy.by_class is not None
    undelayed = not own_delays(point.fabric).are_there
    return point.strategy.by_class(point.job, point.options, Folding(neighbours, undelayed))


def times_by_class(point: ResolvedPoint, send_ends: SendEnds, neighbours: int = 1) -> FluidTimes:
    """Iteration times by classes. Raises NotByClass."""
    spine_of = Spines(point.fabric).spine_of
    compiled = compiled_classes(point, neighbours)
    if isinstance(compiled, RingSequence):
        return ring_times(compiled, ring_lines(compiled, point.fabric, spine_of), send_ends)
    lines = class_lines(compiled, point.fabric, spine_of)
    return estimate(compiled.plan, point.fabric, send_ends=send_ends, delays=lines.delays, paths=lines.paths)


def whole_plan(point: ResolvedPoint) -> Plan:
    """The plan with all ranks."""
    (plan,) = compile_plans(point, replace(point.job, fabric=point.fabric)).values()
    return plan


def times_of_all(point: ResolvedPoint, send_ends: SendEnds) -> FluidTimes:
    """Iteration times of the plan with all ranks."""
    return fluid_times(whole_plan(point), point.fabric, send_ends)
