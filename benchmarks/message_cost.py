"""What a replayed message costs: CPU seconds of the machine, for plans of many messages.

    .venv/bin/python benchmarks/message_cost.py [POINT ...] [--iterations N] [KEY=VALUE ...]

POINT is one of POINTS (default: all). Prints, an iteration and a message: CPU time (user and system) of all processes
of the virtual-time kernel, between the end of the first iteration and the end of the last; and the iteration time in
virtual time, which no change that only saves work may move. Wall time depends on whatever else the machine does; CPU
time much less (a busy neighbour that shares the caches adds a tenth). A settled point is not read back from an earlier
run: each is run anew in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.records import OpLog
from gradwire.inside.point_protocol import Event, Iterated
from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.scenario.loading import load_scenario
from gradwire.vm.machines import Clock

SCENARIO = Path(__file__).resolve().parent.parent / "scenarios" / "geryon-table2.toml"
POINTS: Mapping[str, list[str]] = {
    "p3": ["strategy.name=p3", "model.name=vgg19", "model.device=p4000"],
    "p3-burst": ["strategy.name=p3", "model.name=vgg19", "model.device=p4000", "transport.unsent=64KB"],
    "slicing": ["strategy.name=partition-slicing", "model.name=resnet50"],
    "ring": ["strategy.name=ring", "model.name=resnet50"],
    "geryon": ["strategy.name=geryon", "model.name=resnet50"],
}
"""VGG-19 or ResNet-50 on 8 workers and 10 Gbit/s: slices of 50,000 parameters with default and with small socket
buffers; many messages of a few hundred bytes; rings of small chunks; two classes."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds so far. kernel: of the process that is the kernel. processes: of those that run its processes' code.

    stops: how often one of these had to wait for the kernel: a system call or a page fault each.
    """

    kernel_user_s: float = 0.0
    kernel_system_s: float = 0.0
    processes_user_s: float = 0.0
    processes_system_s: float = 0.0
    stops: float = 0.0

    def since(self, earlier: CpuTimes) -> CpuTimes:
        """What was spent after `earlier`."""
        return CpuTimes(*(now - then for now, then in zip(self.columns(), earlier.columns(), strict=True)))

    def columns(self) -> tuple[float, ...]:
        """All of them."""
        return astuple(self)

    @property
    def total_s(self) -> float:
        """CPU seconds of all."""
        return sum(self.columns()[:4])


def machine_times() -> CpuTimes:
    """Of the machine that this process started; processes that have ended count with their parent, which is the
    kernel."""
    me, kernel, processes, stops = os.getpid(), np.zeros(2), np.zeros(2), 0
    stats = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            status = (folder / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        user, system, user_waited, system_waited = (int(field) for field in fields[11:15])
        waits = int(re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)[0])
        stats[int(folder.name)] = int(fields[1]), (user, system), (user_waited, system_waited), waits
    leaders = {pid for pid, (parent, *_) in stats.items() if parent == me}
    for pid, (parent, own, waited, waits) in stats.items():
        if pid in leaders:
            kernel += own
            processes += waited
        elif parent in leaders:
            processes += own
            stops += waits
    kernel_user, kernel_system = (kernel * TICK_S).tolist()
    user, system = (processes * TICK_S).tolist()
    return CpuTimes(kernel_user, kernel_system, user, system, stops)


class Meter:
    """A Watcher that reads the CPU times at the end of each iteration."""

    def __init__(self) -> None:
        self.at_iteration: dict[int, CpuTimes] = {}

    def started(self, planned: PlannedRun) -> None:
        """Nothing yet."""

    def heard(self, planned: PlannedRun, event: Event) -> None:  # noqa: ARG002
        """An iteration ended."""
        if isinstance(event, Iterated):
            self.at_iteration[event.done] = machine_times()

    def ended(self, judged: JudgedRun) -> None:
        """Nothing more."""


@dataclass(frozen=True)
class MessageCost:
    """What an iteration's messages cost."""

    messages: int
    size_bytes: int
    #: Of an iteration.
    spent: CpuTimes
    #: Virtual time of each iteration.
    times_s: tuple[float, ...]

    @property
    def message_s(self) -> float:
        """CPU time of a message."""
        return self.spent.total_s / self.messages

    def text(self) -> str:
        """In a line."""
        columns = [f"{seconds:.2f}" for seconds in self.spent.columns()[:4]]
        return (
            f"{self.messages} messages, {self.size_bytes / 1e9:.2f} GB per iteration: {self.spent.total_s:.2f} s of "
            f"CPU ({' + '.join(columns)}: kernel user + system, processes user + system), {1e6 * self.message_s:.0f} "
            f"us and {self.spent.stops / self.messages:.2f} stops a message, "
            f"{self.size_bytes / 1e9 / self.spent.total_s:.2f} GB/s; iterations take "
            f"{', '.join(f'{seconds:.6f}' for seconds in self.times_s)} s"
        )


def measure(settings: list[str], iterations: int) -> MessageCost:
    """Runs a point."""
    loaded = load_scenario(SCENARIO, [*settings, f"run.iterations={iterations}", "run.warmup=1"])
    meter = Meter()
    with tempfile.TemporaryDirectory(prefix="gradwire-") as name:
        folder = Path(name)
        planned = plan_runs(loaded.points, folder, Clock())
        (judged,) = Campaign(planned, folder, LocalPool(1), meter).run()
        if not judged.result.valid:
            sys.exit(f"{judged.label}: {judged.result.verdict}")
        plan = judged.stored.plan()
        log = OpLog.load(planned[0].folder / "ops.npz")
    times_s = iteration_times_s(plan, log, iterations + 1)[1:]
    spent = meter.at_iteration[iterations + 1].since(meter.at_iteration[1])
    messages, size_bytes = int(plan.is_remote().sum()), int(plan.ops.size_bytes[plan.is_remote()].sum())
    of_one = CpuTimes(*(column / iterations for column in spent.columns()))
    return MessageCost(messages, size_bytes, of_one, tuple(map(float, times_s)))


def main() -> None:
    """Prints a line a point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="POINT or KEY=VALUE")
    parser.add_argument("--iterations", type=int, default=1, help="measured, after a first one")
    arguments = parser.parse_intermixed_args()
    settings = [word for word in arguments.what if "=" in word]
    for name in [word for word in arguments.what if "=" not in word] or POINTS:
        print(f"{name}: {measure([*POINTS[name], *settings], arguments.iterations).text()}", flush=True)


if __name__ == "__main__":
    main()
