"""Compiled and checked plans, for `gradwire.plan`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pandas as pd

from gradwire.analysis.bounds import bounds
from gradwire.analysis.parameters import Value, describe, fits
from gradwire.analysis.point_frames import INDEX, parameters_frame
from gradwire.analysis.run_frames import plan_frame
from gradwire.datatypes.plan import OpKind, Plan
from gradwire.faults import InputFault
from gradwire.runs.expected_cost import expected_s
from gradwire.runs.planned import PlannedRun


class Plans:
    """The plans of a scenario's points, of which nothing has run."""

    def __init__(self, title: str, runs: Sequence[PlannedRun]) -> None:
        self.title = title
        self._runs = tuple(runs)

    @cached_property
    def points(self) -> pd.DataFrame:
        """One row per point and candidate plan, of which a run keeps the fastest: its parameters, `plan` and `digest`,
        and its cost.

        messages, message_bytes: of one iteration; the bytes are those that cross the network. compute_s: of a worker
        alone. lower_bound_s: no iteration is shorter. expected_wall_s: roughly what the point's run would take on one
        core.
        """
        keys = list(dict.fromkeys(key for run in self._runs for key in run.point.parameters))
        pairs = [(run, label, plan) for run in self._runs for label, plan in run.plans.items()]
        frame = parameters_frame([run.point.parameters for run, *_ in pairs], keys)
        frame["plan"] = pd.Categorical([label for _, label, _ in pairs])
        for name, values in _facts(pairs).items():
            frame[name] = values
        frame.index = pd.Index([run.folder.name for run, *_ in pairs], name=INDEX)
        return frame

    def ops(self, point: str = "", *, plan: str | None = None, **where: Value) -> pd.DataFrame:
        """Every op of a point's plan, as `Run.ops` has them without times.

        plan: the label of one of several candidates. Raises InputFault for a choice that no point or plan fits, or
        several.
        """
        run = self._chosen(point, where)
        if plan is None and len(run.plans) == 1:
            (plan,) = run.plans
        if plan is None or plan not in run.plans:
            raise InputFault(f"plan = {plan!r}: {run.label} has the candidates {', '.join(run.plans)}; choose one")
        return plan_frame(run.plans[plan])

    def _chosen(self, point: str, where: dict[str, Value]) -> PlannedRun:
        fitting = [run for run in self._runs if point in run.folder.name and fits(run.point.parameters, where)]
        if len(fitting) == 1:
            return fitting[0]
        asked = ", ".join(filter(None, (point, describe(where))))
        listed = "\n".join(f"  {run.folder.name}" for run in fitting or self._runs)
        fault = f"fits {len(fitting)} points; it could be" if fitting else "fits no point; there are"
        raise InputFault(f"point '{asked}' {fault}:\n{listed}")

    def __len__(self) -> int:
        """Number of points."""
        return len(self._runs)

    def __repr__(self) -> str:
        """Text for a console."""
        return f"<gradwire.Plans '{self.title}': {len(self)} points>"

    def _repr_html_(self) -> str:
        return str(self.points.to_html())


def _facts(pairs: Sequence[tuple[PlannedRun, str, Plan]]) -> dict[str, list[str] | list[int] | list[float]]:
    return {
        "digest": [plan.digest() for *_, plan in pairs],
        "ops": [len(plan.ops) for *_, plan in pairs],
        "messages": [int((plan.ops.kind == OpKind.SEND).sum()) for *_, plan in pairs],
        "message_bytes": [int(plan.ops.size_bytes[plan.is_remote()].sum()) for *_, plan in pairs],
        "compute_s": [plan.compute_s for *_, plan in pairs],
        "lower_bound_s": [bounds(plan, run.fabric).lower_bound_s for run, _, plan in pairs],
        "expected_wall_s": [expected_s(run) for run, *_ in pairs],
    }
