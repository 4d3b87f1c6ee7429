"""Plans on the virtual-time kernel, replayed several times in one machine, with the wall and CPU time of each replay."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

from benchmarks.message_cost import machine_times
from benchmarks.performance.cost import Cost, Spread
from gradwire.analysis.transfers import ideal_s, transfer_time_s
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.plan import Plan
from gradwire.runs.replay import replay_plans

BOOTED = "booted"
"""Name of a replay before the others, from whose end on time is taken."""


@dataclass(frozen=True)
class _Moment:
    wall_s: float
    cpu_s: float

    @classmethod
    def now(cls) -> _Moment:
        return cls(time.perf_counter(), machine_times().total_s)


def replayed(name: str, plan: Plan, fabric: Fabric, rounds: int, *, at: float = 0.0) -> Cost:
    """What one iteration of the plan costs, with its connections. Raises a Fault of the machine."""
    moments: list[_Moment] = []
    names = [BOOTED, *map(str, range(rounds))]
    done = replay_plans(dict.fromkeys(names, plan), fabric, 1, on_plan=lambda _: moments.append(_Moment.now()))
    last = done[names[-1]]
    data = plan.is_remote() & (plan.ops.traffic_class >= 0)
    pairs = list(itertools.pairwise(moments))
    return Cost(
        name,
        Spread.of([end.wall_s - begin.wall_s for begin, end in pairs]),
        Spread.of([end.cpu_s - begin.cpu_s for begin, end in pairs]),
        transfer_time_s(last.plan, last.log, 0) / ideal_s(last.plan, last.fabric),
        int(plan.ops.size_bytes[data].sum()),
        int(data.sum()),
        at,
    )
