"""`gradwire.estimate`: a separate module, because the fluid engine's machine code takes a while to load."""

from __future__ import annotations

import pandas as pd

from gradwire.analysis.point_frames import parameters_frame
from gradwire.api.running import Scenario, Settings, settings_of, source_of
from gradwire.runs.estimation import (
    MODEL_NOT_RUN,
    check_send_ends,
    estimate_points,
    result_columns,
    without_effect,
)
from gradwire.runs.free_and_assumed import free_and_assumed
from gradwire.runs.launch.scenario_run import loaded
from gradwire.runs.memory_fit import memory_warnings
from gradwire.runs.plan_warnings import by_label

WORDS = ("plan", "lower_bound_kind")


def estimate(
    scenario: Scenario,
    *,
    set: Settings = (),  # noqa: A002 (the option's name on the command line)
    jobs: int = 1,
    send_ends: str | None = None,
) -> pd.DataFrame:
    """Iteration times of a scenario's points on an ideal fluid network, in milliseconds to seconds per point: a model,
    and no run.

    One row per point: its parameters, the `plan` (of several candidates, the fastest), iteration_time_s,
    lower_bound_s, lower_bound_kind, iterations and period (after how many the schedule repeated, and how often; 0:
    never), took_s, throughput_per_s, scaling_efficiency, by_queues (by how much the time depends on what queues hold;
    above 2 % do not compare it with others), and bound_ratio (estimate over bound). jobs: processes side by side; they
    are forked, which is why a notebook, which has threads, begins with one. send_ends: "departure" or "buffered" for all
    points on a network that holds nothing, instead of what each does in its run (docs/estimate.md). `attrs["warnings"]`
    says what the scenario asks for that estimates do not have, such as faults, which models do not fit into memory, and
    what else `gradwire plan` warns of, such as small windows; `attrs["free_and_assumed"]` what was free and what was
    assumed. Otherwise as `gradwire.run`. Raises InputFault.
    """
    read = loaded(source_of(scenario), settings_of(set))
    check_send_ends(send_ends)
    estimates = estimate_points(read.points, jobs, send_ends)
    keys = list(dict.fromkeys(key for point in estimates for key in point.parameters))
    frame = parameters_frame([dict(point.parameters) for point in estimates], keys)
    for name in result_columns(estimates):
        values = [getattr(point, name) for point in estimates]
        frame[name] = pd.Categorical(values) if name in WORDS else values
    frame["bound_ratio"] = [point.x_bound for point in estimates]
    frame.attrs["model"] = MODEL_NOT_RUN
    frame.attrs["warnings"] = [
        *without_effect(read.points),
        *memory_warnings(read.points),
        *by_label((estimate.label, estimate.warnings) for estimate in estimates),
    ]
    frame.attrs["free_and_assumed"] = free_and_assumed(read.points)
    return frame
