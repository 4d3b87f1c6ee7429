"""Whether a cluster gives what this machine gives: a scenario's points on both, while a worker of the cluster is
killed.

    .venv/bin/python benchmarks/dask_cluster.py [SCENARIO] [--set KEY=VALUE ...] [--workers 2] [--jobs 2] [--out FOLDER]

Runs the points on this machine, then on a Dask cluster of worker processes here, one of which is killed (SIGKILL) as
soon as its first point replays. Prints for each point whether every time of every op is the same, which worker ran it,
and how often it began. Ends with status 1 if a time differs, or if a point is lost or doubled. Points that ran in the
folder before do not run again.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gradwire.datatypes.records import OpLog
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.cluster.pool import DaskPool, connected
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.runs.point_protocol import Event, Iterated
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.scenario_files import scenario_path
from gradwire.vm.kernel import ensure_kernel
from gradwire.vm.machines import Clock


class Counted:
    """A watcher that counts beginnings and rows, and sets `replaying` at the first iteration of a point."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.replaying = threading.Event()

    def started(self, planned: PlannedRun) -> None:
        """One more beginning."""
        self.begun[planned.folder.name] += 1

    def heard(self, planned: PlannedRun, event: Event) -> None:
        """Looks out for the first iteration of a point."""
        if isinstance(event, Iterated) and self.begun[planned.folder.name]:
            self.replaying.set()

    def ended(self, judged: JudgedRun) -> None:
        """One more row."""
        self.rows[judged.folder.name] += 1


def kill_one(client: Any, watcher: Counted) -> None:
    """Kills a worker that has a point, once a point replays."""
    watcher.replaying.wait()
    victim = next(worker for worker, keys in client.processing().items() if keys)
    os.kill(client.run(os.getpid, workers=[victim])[victim], signal.SIGKILL)
    print(f"killed {victim}")


def on_cluster(planned: list[PlannedRun], out: Path, workers: int) -> tuple[list[JudgedRun], Counted]:
    """Runs points on a cluster of this machine, of which a worker is killed."""
    watcher = Counted()
    with connected(None, workers) as client:
        pool = DaskPool(client, ensure_kernel(lambda *_: None), workers, print)
        threading.Thread(target=kill_one, args=(client, watcher), daemon=True).start()
        try:
            return Campaign(planned, out, pool, watcher).run(), watcher
        finally:
            pool.close()


def same_times(one: Path, other: Path) -> bool:
    """Whether two runs' ops began and ended at the same nanoseconds."""
    logs = [OpLog.load(folder / "ops.npz") for folder in (one, other)]
    return all(np.array_equal(*(getattr(log, column.name) for log in logs)) for column in fields(OpLog))


def main() -> int:
    """Runs, compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="?", type=Path, default=Path("geryon-table2"))
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/dask-cluster"))
    arguments = parser.parse_args()
    points = load_scenario(scenario_path(arguments.scenario), arguments.settings).points
    begin_s = time.monotonic()
    here = plan_runs(points, arguments.out / "here", Clock())
    near = Campaign(here, arguments.out / "here", LocalPool(arguments.jobs), Counted()).run()
    here_s = time.monotonic() - begin_s
    begin_s = time.monotonic()
    far, watcher = on_cluster(
        plan_runs(points, arguments.out / "cluster", Clock()), arguments.out / "cluster", arguments.workers
    )
    cluster_s = time.monotonic() - begin_s
    good = True
    for one, other in zip(near, far, strict=True):
        name, completion = other.folder.name, other.stored.completion()
        same = one.result.valid and other.result.valid and same_times(one.folder, other.folder)
        good &= same and watcher.rows[name] == 1
        worker = completion.worker if completion else "nobody"
        print(
            f"{other.label}: {'the same to the nanosecond' if same else 'DIFFERS'}; by {worker}, begun "
            f"{watcher.begun[name]} times, {watcher.rows[name]} row; {other.result.verdict}"
        )
    print(f"{len(near)} points: {here_s:.0f} s of wall time on this machine, {cluster_s:.0f} s on the cluster")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
