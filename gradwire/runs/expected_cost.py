"""Predicts the cost of points, before they run and while they do, as wall time on one core: users know how long they
will wait.

The constants are rough. A machine may be twice as fast or as slow as the one that they were measured on, which
`TimeLeft` learns from the points that have ended, and remembers for the next command (runs/lasting_pace.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradwire.agents.connections import needs_python
from gradwire.network.fabric import MAX_GSO_BYTES
from gradwire.runs.lasting_pace import LastingPace
from gradwire.runs.memory_fit import memory_warnings
from gradwire.runs.network_notes import network_notes
from gradwire.runs.plan_warnings import by_label, plan_warnings
from gradwire.runs.planned import PlannedRun, too_coarse
from gradwire.runs.planned_point import PlannedPoint

BOOT_S, HOST_S, LATER_HOST_S = 1.1, 0.01, 0.02
"""From the start of a machine to its first byte (benchmarks/performance/figures.json, `start_up`: with 8 hosts 0.76 s, with
64 hosts 1.25 s, with 512 hosts 10.1 s), and 0.37 s of judging: fitted, as the two below, to the 89 points named there."""
FEW_HOSTS = 64
"""Number of hosts up to which each costs less than those beyond."""
PAYLOAD_BYTES_PER_S = 5.4e9
"""Payload that is replayed per second, in messages of 40 kB to 3 MB in bursts of 64 KiB. It was fitted together with
MESSAGE_S to 89 points of a map's cells (docs/map.md) with 4 to 48 workers: they took 0.49 to 1.87 times the time that
the two predict, 80 % of them 0.7 to 1.2 times, side by side on two cores. Messages of tens of megabytes go twice as
fast."""
BURST_S = 3e-6
"""Seconds of each burst beyond those that the bytes make at 64 KiB: where ports drop or mark, hosts send single frames.
Fitted to four workers with AlexNet, 6 GB, CPU seconds on two machines that are 1.9 and 2.1 times as slow as expected in
bursts of 64 KiB (4.3 and 5): 18.1 and 32 in single frames, 21.7 and 30 with finite buffers, 25.8 and 22 with marks."""
MESSAGE_S = 7e-6
"""Seconds that a message costs in addition to its bytes, within a host as well, if the compiled agent replays it."""
PYTHON_MESSAGE_S = 40e-6
"""Seconds that a message costs agents in Python at least: per message they take 32 to 69 us more than the compiled
agent (benchmarks/message_cost.py, docs/performance.md)."""

REPORT_S = 2.0
"""Seconds from the end of the last point until the report is written: 2.0 to 2.4 s of CPU with 2 to 12 points."""


def expected_s(planned: PlannedPoint) -> float:
    """Expected wall time of a point on one core; 0 if it is not known, as for programs."""
    if not planned.iterations:
        return 0.0
    messages = planned.iteration_messages * planned.iterations
    hosts = planned.fabric.hosts
    start_s = BOOT_S + HOST_S * min(hosts, FEW_HOSTS) + LATER_HOST_S * max(0, hosts - FEW_HOSTS)
    message_s = PYTHON_MESSAGE_S if _by_python(planned) else MESSAGE_S
    more_bursts = planned.cost_bytes * (1 / planned.fabric.gso_bytes - 1 / MAX_GSO_BYTES)
    return start_s + planned.cost_bytes / PAYLOAD_BYTES_PER_S + message_s * messages + BURST_S * more_bursts


def _by_python(planned: PlannedPoint) -> bool:
    """Returns whether agents in Python replay a point, by the same rule as agents/__main__.py."""
    if not isinstance(planned, PlannedRun):
        return False
    section = planned.point.section
    return bool(
        planned.clock.name != "virtual"
        or section.transport.agent_code == "python"
        or section.fault
        or needs_python(planned.fabric)
        or any(plan.multicasts() for plan in planned.plans.values())
    )


class TimeLeft:
    """Time left of several runs, by their expected times and the times of those that have ended.

    pace: that of the machine in its last runs, which is asked before any of these has ended, and told of those that
    have; None for the machine that the constants were measured on.
    """

    def __init__(self, runs: Sequence[PlannedPoint], jobs: int, pace: LastingPace | None = None) -> None:
        self._pace, self._slower = pace, pace.slower if pace else 1.0
        self._expected_s = {run.folder: expected_s(run) for run in runs}
        self._left = dict(self._expected_s)
        self._jobs = max(1, min(jobs, len(runs)))
        self._lock = threading.Lock()
        self._took_s = 0.0
        self._took_expected_s = 0.0

    def ended(self, folder: Path, took_s: float) -> None:
        """The run in this folder has ended; `took_s` is 0 if it had run before."""
        with self._lock:
            expected = self._left.pop(folder, 0.0)
            if took_s > 0:
                self._took_s += took_s
                self._took_expected_s += expected
                if self._pace:
                    self._pace.note(expected, took_s)

    def left_s(self, share_done: dict[Path, float] | None = None) -> float:
        """Wall time until all have ended. share_done: how much of each run under way is done, from 0 to 1."""
        done = share_done or {}
        with self._lock:
            slower = self._took_s / self._took_expected_s if self._took_expected_s else self._slower
            left = {run: expected * (1 - done.get(run, 0.0)) for run, expected in self._left.items()}
        return slower * max(sum(left.values()) / self._jobs, max(left.values(), default=0.0))


def announcement(runs: Sequence[PlannedPoint], jobs: int, pace: LastingPace | None = None) -> str:
    """One line about the points that are going to run. pace: as for `TimeLeft`."""
    if not runs:
        return "nothing to run: all points are there already; `gradwire run --fresh` runs them again"
    slower = pace.slower if pace else 1.0
    longest_s = max(map(expected_s, runs)) * slower
    memory_mb = max(run.memory_mb for run in runs)
    points = f"{_points(len(runs))} to run, {max(1, min(jobs, len(runs)))} at a time"
    if longest_s:
        all_s = TimeLeft(runs, jobs, pace).left_s() + REPORT_S * slower
        points += f": about {in_words(all_s)} (the longest {in_words(longest_s)})"
    return f"{points}, with up to {memory_mb:,} MiB of memory each"


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"


def in_words(duration_s: float) -> str:
    """A rough duration: "40 s", "6 min", "3 h 20 min"."""
    if duration_s < 90:
        return f"{max(1, round(duration_s)):d} s"
    minutes = round(duration_s / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def warnings(runs: Sequence[PlannedRun]) -> Iterator[str]:
    """Yields warnings before these runs begin: of what a network's file has besides, a time limit that is too short, small
    windows, or a model that does not fit its device.

    A division that no run may have is among them, for those who plan and do not run.
    """
    yield from network_notes(run.point.section for run in runs)
    for run in runs:
        if words := too_coarse(run):
            yield f"{run.label}: {words}. `gradwire run` refuses this point"
        limit_s = run.point.section.run.time_limit
        if expected_s(run) > limit_s:
            yield (
                f"{run.label}: is expected to take {in_words(expected_s(run))}, but run.time_limit is "
                f"{in_words(limit_s)}: it would be ended then; set a longer one, or fewer run.iterations"
            )
    yield from by_label(
        (run.label, plan_warnings(run.point.section, run.fabric, list(run.plans.values()))) for run in runs
    )
    yield from memory_warnings([run.point for run in runs])
