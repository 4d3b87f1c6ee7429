"""How far random points are from an ideal network: iteration times of the emulated network over those of the fluid engine.

    .venv/bin/python benchmarks/fluid_agreement.py [--points 20] [--seed 1] [--out FOLDER] [KEY=VALUE ...]

Runs each point on the virtual clock and prints the ratio, with both rules for the end of a SEND in the fluid engine. Points that ran in the
folder before do not run again.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gradwire.analysis.fluid.estimate import Buffered, Departure, estimate
from gradwire.runner.campaign import Campaign
from gradwire.runner.judged import JudgedRun
from gradwire.runner.planned import PlannedRun, plan_runs
from gradwire.runner.protocol import Event
from gradwire.runner.stored.spines import Spines
from gradwire.vm.machines import Clock
from tests.shared.random_points import random_points


class Printed:
    """A watcher that prints a line per point that has ended."""

    def started(self, planned: PlannedRun) -> None:
        """Nothing to say."""

    def heard(self, planned: PlannedRun, event: Event) -> None:
        """Nothing to say."""

    def ended(self, judged: JudgedRun) -> None:
        """Prints the ratios."""
        section = judged.point.section
        what = f"{section.strategy.name:24} {section.cluster.workers} {section.fabric.rate / 1e9:4.0f}G {section.fabric.topology.value:10}"
        if not judged.result.valid:
            print(f"{judged.point.origin:22} {what} {judged.result.verdict.splitlines()[0]}", flush=True)
            return
        plan, fabric = judged.stored.plan(), judged.stored.built_fabric()
        spine_of = Spines(fabric).spine_of
        measured_s = judged.result.iteration_time_s
        ratios = [
            measured_s / estimate(plan, fabric, spine_of, send_ends=ends).iteration_s
            for ends in (Departure(), Buffered(section.transport.unsent))
        ]
        times = np.array(judged.iteration_times_s) * 1e3
        print(
            f"{judged.point.origin:22} {what} {measured_s * 1e3:9.3f} ms  departure {ratios[0]:.4f}  buffered {ratios[1]:.4f}  "
            f"bound {measured_s / judged.result.lower_bound_s:.3f}  {np.array2string(times, precision=2)}",
            flush=True,
        )


def main() -> None:
    """Reads the arguments and runs the points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/fluid-agreement"))
    arguments = parser.parse_args()
    points = list(random_points(arguments.seed, arguments.points))
    planned = plan_runs(points, arguments.out, Clock())
    Campaign(planned, arguments.out, len(os.sched_getaffinity(0)), Printed()).run()


if __name__ == "__main__":
    main()
