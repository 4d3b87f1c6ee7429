"""What a machine costs before its first byte: CPU seconds of each stage from boot to the rate probe, and of the rest
around the replay.

    .venv/bin/python -m benchmarks.start_up [HOSTS ...] [--rounds N]

HOSTS is a number of hosts (default: 8, 64 and 512). Up to 48 are on one switch, more in leaf/spine with 32 to a leaf.
They replay a ring of one small model. "boot" ends when the job's own program has been imported: kernel, Open vSwitch
and Python. "network" is Mininet, Open vSwitch, tc and the controller, and "agents" ends when they have done the rate
probe's first iteration. CPU time is that of the kernel and of all its processes, user and system. Of several rounds,
the fastest of each stage counts: other work on the machine makes a stage slower, never faster.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.message_cost import CpuTimes, machine_times
from gradwire.inside.point_protocol import (
    AgentsStarted,
    Event,
    NetworkStarted,
    PointRecorded,
    Probed,
    ReplayEnded,
    ReplayStarted,
)
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun, plan_runs, virtual_clock
from gradwire.scenario.loading import scenario_of

STAGES: Mapping[type, str] = {
    NetworkStarted: "boot",
    AgentsStarted: "network",
    Probed: "agents",
    ReplayStarted: "probe",
    ReplayEnded: "replay",
    PointRecorded: "record",
}
"""What a stage is called, by the first event of the kind that ends it."""
TO_FIRST_BYTE = ("boot", "network", "agents")
HOSTS_PER_LEAF = 32
ONE_SWITCH_HOSTS = 48


def scenario(hosts: int) -> dict[str, Any]:
    """A ring that exchanges 1 MB at 10 Gbit/s."""
    leaves = -(-hosts // HOSTS_PER_LEAF)
    tiers = {} if hosts <= ONE_SWITCH_HOSTS else {"topology": "leaf-spine", "leaves": leaves, "spines": 2}
    layer = {"name": "fc1", "size": ["1MB"], "forward": "1ms", "backward": "1ms"}
    return {
        "title": f"start-up of {hosts} hosts",
        "cluster": {"workers": hosts},
        "fabric": {"rate": "10gbit", **tiers},
        "model": {"name": "one-layer", "layers": [layer]},
        "strategy": {"name": "ring"},
        "run": {"warmup": 1, "iterations": 1},
    }


class Stopwatch:
    """A Watcher that reads wall and CPU time at the end of each stage."""

    def __init__(self) -> None:
        self._last = time.perf_counter(), CpuTimes()
        #: Wall and CPU seconds by stage.
        self.stages: dict[str, tuple[float, float]] = {}

    def started(self, planned: PlannedRun) -> None:  # noqa: ARG002
        """The machine boots."""
        self._last = time.perf_counter(), CpuTimes()

    def heard(self, planned: PlannedRun, event: Event) -> None:  # noqa: ARG002
        """A stage may have ended."""
        stage = STAGES.get(type(event))
        if stage is not None and stage not in self.stages:
            now = time.perf_counter(), machine_times()
            self.stages[stage] = now[0] - self._last[0], now[1].since(self._last[1]).total_s
            self._last = now

    def ended(self, judged: JudgedRun) -> None:
        """Nothing more."""


def measure(hosts: int) -> dict[str, tuple[float, float]]:
    """Runs a point once, in a temporary folder; wall and CPU seconds by stage."""
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="gradwire-") as name:
        folder = Path(name)
        points = scenario_of(scenario(hosts)).points
        # Divides what is too much for the virtual clock, as `gradwire run` does: 512 hosts at 10 Gbit/s.
        planned = plan_runs(points, folder, virtual_clock(points))
        (judged,) = Campaign(planned, folder, LocalPool(1), stopwatch).run()
    if not judged.result.valid:
        sys.exit(f"{hosts} hosts: {judged.result.verdict}")
    return stopwatch.stages


def line(hosts: int, rounds: list[dict[str, tuple[float, float]]]) -> str:
    """What the rounds of a size say, stage by stage."""
    fastest = {stage: [min(each[stage][part] for each in rounds) for part in (0, 1)] for stage in STAGES.values()}
    wall_s, cpu_s = (sum(fastest[stage][part] for stage in TO_FIRST_BYTE) for part in (0, 1))
    stages = ", ".join(f"{stage} {seconds[1]:.2f}" for stage, seconds in fastest.items())
    return f"{hosts} hosts: {cpu_s:.2f} s of CPU to the first byte, {wall_s:.2f} s of wall time ({stages})"


def main() -> None:
    """Prints a line a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", nargs="*", type=int, default=[8, 64, 512])
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for hosts in options.hosts:
        print(line(hosts, [measure(hosts) for _ in range(options.rounds)]), flush=True)


if __name__ == "__main__":
    main()
