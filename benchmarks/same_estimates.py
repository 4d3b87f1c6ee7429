"""Whether a change of the fluid engine leaves its times as they were: points of the shipped scenarios, before and after.

    .venv/bin/python benchmarks/same_estimates.py --out before.json [--every 10]
    .venv/bin/python benchmarks/same_estimates.py --against before.json [--every 10]

With --out, estimates every so many-th point with all of its ranks, by the rule of its scenario and by that of runs, in which
many messages wait at a time, and keeps the times of all iterations. With
--against, does so again and prints the largest difference of any iteration; ends with status 1 if it is more than 1e-9.
Points of several jobs, and those with more than `MOST_OPS` ops, are left out and counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradwire.faults import InputFault
from gradwire.runs.compiling.ideal_times import fluid_times, held_rule, rule_of
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_plans
from gradwire.scenario.resolution.transport_fit import buffer_bytes
from gradwire.scenario.scenario_files import scenario_names, scenario_path

SAME = 1e-9
MOST_OPS = 60_000


def main() -> None:
    """Estimates, and keeps or compares the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--every", type=int, default=10)
    asked = parser.parse_args()
    times, left_out = _times(asked.every)
    print(f"{len(times)} plans estimated, {left_out} points left out")
    if asked.out:
        asked.out.write_text(json.dumps(times))
    if asked.against:
        before = json.loads(asked.against.read_text())
        off = {label: _difference(before[label], times[label]) for label in times if label in before}
        for label, difference in sorted(off.items(), key=lambda item: -item[1])[:10]:
            print(f"{difference:.2g}  {label}")
        largest = max(off.values(), default=0.0)
        print(f"{len(off)} plans by both, largest difference {largest:.2g}")
        sys.exit(largest > SAME)


def _times(every: int) -> tuple[dict[str, list[float]], int]:
    points = [point for name in scenario_names() for point in load_scenario(scenario_path(Path(name))).points]
    times, left_out = dict[str, list[float]](), 0
    for number, point in enumerate(points[::every]):
        resolved = point.resolved
        try:
            plans = {} if resolved.jobs else compile_plans(resolved, replace(resolved.job, fabric=resolved.fabric))
        except InputFault:
            plans = {}
        small = {label: plan for label, plan in plans.items() if len(plan.ops) <= MOST_OPS}
        left_out += not small
        for label, plan in small.items():
            fabric, socket_bytes = resolved.fabric, buffer_bytes(point.section, resolved.fabric)
            in_runs = held_rule(resolved.unsent_bytes, fabric, socket_bytes)
            for how, rule in (("", rule_of(resolved.unsent_bytes)), (", as in runs", in_runs)):
                found = fluid_times(plan, fabric, rule)
                times[f"point {number * every}, {label}{how}"] = found.iterations_s.tolist()
    return times, left_out


def _difference(before: list[float], after: list[float]) -> float:
    both = min(len(before), len(after))
    return float(np.abs(np.array(after[:both]) / np.array(before[:both]) - 1).max())


if __name__ == "__main__":
    main()
