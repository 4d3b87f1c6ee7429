"""What `run.fidelity` costs and saves: random points and Table II, each as it is and with bytes and rates divided.

    .venv/bin/python benchmarks/fidelity.py [--fidelity 1%] [--points 100] [--seed 3] [--jobs 2] [--out FOLDER] \\
        [--table]

Runs each point twice on the virtual clock and prints by what its bytes were divided, how far its iteration time is
off, and what was predicted from the ideal network. The summary counts the points that are off by no more than was
asked for. Points that ran in the folder before do not run again. --table: the twelve points of Table II instead.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.runs.point_protocol import Event
from gradwire.scenario.loading import Point, load_scenario
from gradwire.scenario.scenario_files import scenario_path
from gradwire.vm.machines import Clock
from gradwire.workloads.units import SHARE
from tests.shared.random_points import random_points


class Silent:
    """A watcher that prints a dot per point."""

    def started(self, planned: PlannedRun) -> None:
        """Nothing to say."""

    def heard(self, planned: PlannedRun, event: Event) -> None:
        """Nothing to say."""

    def ended(self, judged: JudgedRun) -> None:
        """One more."""
        print("." if judged.result.valid else "x", end="", flush=True, file=sys.stderr)


def run(points: Sequence[Point], out: Path, jobs: int) -> list[JudgedRun]:
    """Runs points in a folder."""
    return list(Campaign(plan_runs(points, out, Clock(), jobs), out, LocalPool(jobs), Silent()).run())


def with_fidelity(point: Point, fidelity: float) -> Point:
    """The same point, divided."""
    section = point.section
    divided = section.model_copy(update={"run": section.run.model_copy(update={"fidelity": fidelity})})
    return Point(point.parameters, divided, point.origin)


def print_rows(exact: Sequence[JudgedRun], divided: Sequence[JudgedRun], fidelity: float) -> None:
    """Prints a line per pair, and the summary."""
    pairs = [pair for pair in zip(exact, divided, strict=True) if all(judged.result.valid for judged in pair)]
    offs = []
    for whole, quick in sorted(pairs, key=lambda pair: -abs(off(*pair))):
        completion = quick.stored.completion()
        assert completion is not None
        offs.append(abs(off(whole, quick)))
        seconds = " -> ".join(f"{judged.speed.replay_s:6.2f} s" for judged in (whole, quick) if judged.speed)
        print(
            f"{whole.point.parameters['model'][:14]:14} {whole.point.section.strategy.name:24} / "
            f"{completion.divided_by:<5} off {off(whole, quick):+8.3%}, predicted {completion.division_error:7.3%}; "
            f"replay {seconds}"
        )
    met = sum(value <= fidelity for value in offs)
    print(f"{len(pairs)} of {len(exact)} pairs are valid; {met} are off by no more than {SHARE.text(fidelity)}.")
    for name, runs in (("as they are", exact), ("divided", divided)):
        speeds = [judged.speed for judged in runs if judged.speed]
        print(
            f"{name}: {sum(speed.total_s for speed in speeds):.0f} core seconds, "
            f"{sum(s.replay_s for s in speeds):.0f} of them replaying"
        )


def off(whole: JudgedRun, quick: JudgedRun) -> float:
    """How far the divided run is off."""
    return quick.result.iteration_time_s / whole.result.iteration_time_s - 1


def main() -> None:
    """Reads the arguments, runs the points and compares them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fidelity", default="1%")
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=Path("runs/fidelity"))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    fidelity = SHARE.parse(arguments.fidelity)
    points = (
        load_scenario(scenario_path(Path("geryon-table2"))).points
        if arguments.table
        else list(random_points(arguments.seed, arguments.points))
    )
    exact = run(points, arguments.out / "exact", arguments.jobs)
    quick = [with_fidelity(point, fidelity) for point in points]
    print_rows(exact, run(quick, arguments.out / arguments.fidelity.strip("%"), arguments.jobs), fidelity)


if __name__ == "__main__":
    main()
