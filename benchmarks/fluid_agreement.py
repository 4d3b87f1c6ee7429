"""How far random points are from an ideal network: made-up models by the papers' strategies and their baselines, and
every fourth a small transformer by ddp, fsdp, megatron or zero, at 10 to 100 Gbit/s.

    .venv/bin/python benchmarks/fluid_agreement.py [--points 100] [--seed 3] [--todays-every 4] [--jobs 2] \\
        [--out FOLDER]

Runs each point on the virtual clock, and prints its iteration time over that of its plan on the fluid engine's ideal
network (`x fluid`). At the end, each point that is off has its cause, as a report would give it, and a summary counts
how many are near. Points that ran in the folder before do not run again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gradwire.analysis.agreement.causes import Cause
from gradwire.analysis.points import PointResult
from gradwire.inside.point_protocol import Event
from gradwire.runs.agreement import compared
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.vm.machines import Clock
from tests.shared.random_points import random_points

NEAR = (0.001, 0.01, 0.02, 0.03)
"""Shares of the estimate; the summary counts the points within each."""


class Printed:
    """A watcher that prints a line per point that has ended."""

    def started(self, planned: PlannedRun) -> None:
        """Nothing to say."""

    def heard(self, planned: PlannedRun, event: Event) -> None:
        """Nothing to say."""

    def ended(self, judged: JudgedRun) -> None:
        """Prints the point, its time and its ratios."""
        section, result = judged.point.section, judged.result
        what = (
            f"{judged.point.origin:20} {section.strategy.name:24} {section.cluster.workers} "
            f"{section.fabric.rate / 1e9:4.0f}G {section.fabric.topology.value:10}"
        )
        if not result.valid:
            print(f"{what} invalid: {result.verdict.splitlines()[0]}", flush=True)
            return
        row = _farthest(judged)
        fluid, bound = _off(judged) + 1, row.iteration_time_s / row.lower_bound_s
        print(f"{what} {row.iteration_time_s * 1e3:9.3f} ms  x fluid {fluid:.4f}  x bound {bound:.3f}", flush=True)


def _off(judged: JudgedRun) -> float:
    """How far a valid run is off its estimate, as a share of it, with its sign."""
    ratio = _farthest(judged).fluid_ratio
    assert ratio is not None
    return ratio - 1


def _farthest(judged: JudgedRun) -> PointResult:
    """Of several jobs, the one that is farthest off."""
    rows = [row for row in judged.job_results if row.fluid_ratio is not None] or [judged.result]
    return max(rows, key=lambda row: abs((row.fluid_ratio or 1.0) - 1))


def print_summary(runs: Sequence[JudgedRun]) -> None:
    """Prints the points that are off, each with its cause, and how many are near."""
    valid = sorted((run for run in runs if run.result.valid), key=lambda run: -abs(_off(run)))
    print()
    for run in valid:
        if run.agreement is not None and run.agreement.cause is not Cause.NONE:
            print(
                f"{run.point.origin}, {run.point.section.strategy.name}: {_off(run):+.1%}: {run.agreement.sentence}.\n"
            )
    near = ", ".join(f"{sum(abs(_off(run)) <= share for run in valid)} within {share:.1%}" for share in NEAR)
    print(f"{len(valid)} of {len(runs)} points are valid: {near}.")
    causes = Counter(str(run.agreement.cause) for run in valid if run.agreement is not None and run.agreement.cause)
    print(f"Causes: {', '.join(f'{cause} {count}' for cause, count in causes.most_common()) or 'none needed'}.")


def main() -> None:
    """Reads the arguments, runs the points and compares them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--todays-every", type=int, default=4, help="0: none of today's strategies")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=Path("runs/fluid-agreement"))
    arguments = parser.parse_args()
    points = list(random_points(arguments.seed, arguments.points, arguments.todays_every))
    planned = plan_runs(points, arguments.out, Clock())
    print_summary(compared(Campaign(planned, arguments.out, LocalPool(arguments.jobs), Printed()).run()))


if __name__ == "__main__":
    main()
