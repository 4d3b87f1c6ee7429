"""How far random points on random networks are from an ideal network: connected graphs of 3 to 10 switches and 4 to 16
hosts, whose links have 1 to 100 Gbit/s and delays of 0 to 5 ms, some of them parallel; made-up models by any strategy
that knows graphs.

    .venv/bin/python benchmarks/random_graphs.py [--points 100] [--seed 1] [--several] [--jobs 2] [--out FOLDER]

Runs each point on the virtual clock, and prints its iteration time over that of its plan on the fluid engine's ideal
network (`x fluid`). With --several, each point is of two or three jobs, and the line is of the job that is farthest off.
At the end, each point that is off has its cause, as a report would give it, and a summary counts how many are near.
Points that ran in the folder before do not run again.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.fluid_agreement import Printed, print_summary
from gradwire.runs.agreement import compared
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.planned import plan_runs
from gradwire.vm.machines import Clock
from tests.shared.random_graphs import random_graph_points, random_job_points


def main() -> None:
    """Reads the arguments, runs the points and compares them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--several", action="store_true", help="points of several jobs")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    drawn = random_job_points if arguments.several else random_graph_points
    out = arguments.out or Path(f"runs/random-{'jobs' if arguments.several else 'graphs'}")
    planned = plan_runs(list(drawn(arguments.seed, arguments.points)), out, Clock())
    print_summary(compared(Campaign(planned, out, LocalPool(arguments.jobs), Printed()).run()))


if __name__ == "__main__":
    main()
