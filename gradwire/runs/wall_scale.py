"""Chooses the number by which the wall clock divides bytes and rates: the least with which this machine carries a
network whose hosts all send at once.

It is not computed from the machine's description. The network itself is built, smaller and smaller, until it keeps its
time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradwire.faults import MachineFault
from gradwire.inside.point_protocol import Faulted, heard, read_json, write_json
from gradwire.inside.wall_scale_job import FOUND_FILE, TASK_FILE, Carried, CarryTask
from gradwire.network.fabric import Fabric
from gradwire.runs.replay import DEFAULT_SOCKETS
from gradwire.vm.machines import Clock, run_job
from gradwire.vm.owners import temporary_folder
from gradwire.workloads.stand_in import scaled_fabric

FIRST_BPS = 2e10
"""All hosts together, to begin with: more than two cores carry through a switch in the kernel."""
GLANCE_S, HOLD_S = 0.05, 1.0
"""Seconds for which the hosts send: first to see how much too fast they are, then to see that the machine keeps
up."""
RATIO_MOST = 1.0075
"""Largest ratio of measured to ideal time: half of the excess that the verdict's rate probe allows."""
BUSIEST_MOST = 0.75
"""Five sixths of what the verdict's CPU saturation allows: a strategy's messages cost more than those of a plain
pattern."""
LOWEST_HOST_BPS = 1e6
"""Lowest rate of a host, at which a frame takes 12 ms: a network in name only."""
LEAST_STEP = 1.25
TIME_LIMIT_S = 120.0


@dataclass(frozen=True)
class ChosenScale:
    """A scale, and the measurements at it."""

    number: int
    #: For reports.
    measured: str

    def announcement(self) -> str:
        """One line about it."""
        return f"bytes and rates are divided by {self.number}: {self.measured}"


@dataclass(frozen=True)
class ScaleTrial:
    """The result of one scale."""

    scale: int
    carried: Carried

    @property
    def holds(self) -> bool:
        """Whether the machine keeps up, with something to spare."""
        return self.carried.ratio <= RATIO_MOST and self.carried.busiest <= BUSIEST_MOST

    def next_scale(self) -> int:
        """The scale to try next: as much larger as this one was too small."""
        carried = self.carried
        return _rounded(self.scale * max(LEAST_STEP, carried.ratio, carried.busiest / BUSIEST_MOST))


Measure = Callable[[Fabric, float], Carried]
"""Lets all hosts of a network send for some seconds."""


def demand_bps(fabric: Fabric) -> float:
    """Rate at which all hosts of a network send together, in bits per second."""
    return fabric.hosts * fabric.rate_bps


def choose_scale(fabrics: Sequence[Fabric], measure: Measure | None = None) -> ChosenScale:
    """The scale for a campaign on these networks: the one that the most demanding of them needs.

    measure: by default on this machine, which takes some 3 s per trial. Raises MachineFault where no scale holds, and
    without root.
    """
    measure = measure or carry
    fabric = max(fabrics, key=demand_bps)
    scale = _rounded(max(1.0, demand_bps(fabric) / FIRST_BPS))
    trials: list[ScaleTrial] = []
    duration_s = GLANCE_S
    while fabric.rate_bps / scale >= LOWEST_HOST_BPS:
        trial = ScaleTrial(scale, measure(scaled_fabric(fabric, scale), duration_s))
        trials.append(trial)
        if trial.holds and duration_s == HOLD_S:
            return ChosenScale(scale, _told(fabric, trials))
        if trial.holds or trial.carried.ratio < LEAST_STEP:
            duration_s = HOLD_S
        if not trial.holds:
            scale = trial.next_scale()
    last = trials[-1].carried
    raise MachineFault(
        f"--clock wall: this machine does not carry {fabric.hosts} hosts at any rate: at "
        f"{fabric.rate_bps / trials[-1].scale / 1e6:.3g} "
        f"Mbit/s each they took {last.ratio:.3f} of the ideal time, and waited {last.waited:.0%} of it for a core: "
        "keep other work off it, choose a --scale yourself, or use --clock virtual"
    )


def _told(fabric: Fabric, trials: Sequence[ScaleTrial]) -> str:
    last = trials[-1]
    before = list(dict.fromkeys(trial.scale for trial in trials if trial.scale != last.scale))
    tried = f"; {', '.join(map(str, before))} did not hold" if before else ""
    return (
        f"{fabric.hosts} hosts sent {demand_bps(fabric) / last.scale / 1e6:.3g} Mbit/s together in "
        f"{last.carried.ratio:.4f} of the ideal "
        f"time, the busiest thread computed {last.carried.busiest:.0%} of it, and all took {last.carried.computed:.2f} "
        f"cores{tried}"
    )


def _rounded(scale: float) -> int:
    """Up to two digits, so that small differences between measurements do not make another scale."""
    if scale <= 10:
        return math.ceil(scale)
    step: int = 10 ** (math.floor(math.log10(scale)) - 1)
    return math.ceil(scale / step - 1e-9) * step


def carry(fabric: Fabric, duration_s: float) -> Carried:
    """Builds a network on this machine and lets all its hosts send for some seconds. Raises MachineFault."""
    said: list[str] = []

    def listen(line: str) -> None:
        match heard(line):
            case Faulted(message=message):
                said.append(message)
            case None:
                said.append(line)

    with temporary_folder() as folder:
        write_json(folder / TASK_FILE, CarryTask(fabric.to_json(), DEFAULT_SOCKETS, duration_s))
        status = run_job(
            "gradwire.inside.wall_scale_job",
            folder,
            Clock("wall"),
            time_limit_s=TIME_LIMIT_S,
            on_line=listen,
        )
        if status:
            raise MachineFault(f"measuring what this machine carries ended with status {status}: {' '.join(said[-3:])}")
        return read_json(folder / FOUND_FILE, Carried)
