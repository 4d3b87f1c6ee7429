"""Plans that points share: most do not depend on the network's rate, and a sweep over rates compiles them once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from gradwire.datatypes.plan import Plan
from gradwire.scenario.loading import Point
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_plans
from gradwire.workloads.job import Job


class _WatchedJob(Job):
    """A job that notes whether a strategy looks at the network's rate, on which its plan may then depend."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("rate_bps", "fabric"):
            object.__setattr__(self, "looked_at_rate", True)
        return super().__getattribute__(name)


class SharedPlans:
    """The plans that were compiled last, for the next point if it needs the same ones."""

    def __init__(self) -> None:
        self._key = ""
        self._plans: Mapping[str, Plan] = {}

    def of(self, point: ResolvedPoint, job: Job) -> Mapping[str, Plan]:
        """The plans of a point, whose job has its fabric: the latest ones, if they are of the same job and did not depend on the rate.

        Raises InputFault.
        """
        chosen = point.strategy
        key = f"{chosen.name} {point.options!r} {replace(job, rate_bps=None, fabric=None)!r}"
        if key == self._key:
            return self._plans
        watched = _WatchedJob(**{field.name: getattr(job, field.name) for field in fields(job)})
        plans = compile_plans(point, watched)
        self._key, self._plans = ("" if "looked_at_rate" in vars(watched) else key), plans
        return plans


def sharing_key(point: Point) -> str:
    """The same for points that differ in nothing but the rate of their links."""
    section = point.section.model_dump(mode="json")
    section["fabric"].pop("rate")
    return json.dumps(section, sort_keys=True)
