"""The parts of docs/performance.md, each a measurement: growth of cost, other tools, start-up, compiled agents, whole
commands."""

from __future__ import annotations

import itertools
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.message_cost import POINTS, machine_times
from benchmarks.message_cost import measure as measure_messages
from benchmarks.performance.cost import Cost, MessageFigure, Spread
from benchmarks.performance.other_tools import fluid, ns3, simgrid
from benchmarks.start_up import TO_FIRST_BYTE
from benchmarks.start_up import measure as measure_start
from gradwire.analysis.transfers import ideal_s, transfer_time_s
from gradwire.datatypes.plan import Plan
from gradwire.network.fabric import ETHERNET_HEADER_BYTES, Fabric
from gradwire.runs.replay import replay_plans
from gradwire.workloads.patterns import Transfer, all_to_all, compile_transfers, ring

HOSTS = (2, 4, 8, 16, 32, 64)
RATES_GBPS = (10, 25, 40, 100)
SIZES_MB = (1, 4, 16, 64)
MESSAGES = (16, 160, 1600, 16_000)

RATE_BPS = 10e9
RING_BYTES = 64_000_000
FLOW_BYTES = 32_000_000
MESSAGES_BYTES = 100_000_000
"""Of each of eight flows in the sweep over messages: 6 MB to 6 kB per message."""
EIGHT = 8


def over_hosts(rounds: int) -> Iterator[Cost]:
    """A ring: every host sends as much to the next."""
    for hosts in HOSTS:
        plan = compile_transfers("ring", hosts, ring(hosts, RING_BYTES))
        yield replayed(f"{hosts} hosts", plan, Fabric(hosts, RATE_BPS), rounds, at=hosts)


def over_rates(rounds: int) -> Iterator[Cost]:
    """The same bytes between eight hosts at higher rates."""
    plan = compile_transfers("all-to-all", EIGHT, all_to_all(EIGHT, FLOW_BYTES))
    for rate in RATES_GBPS:
        yield replayed(f"{rate} Gbit/s", plan, Fabric(EIGHT, rate * 1e9), rounds, at=rate)


def over_sizes(rounds: int) -> Iterator[Cost]:
    """More bytes between eight hosts at one rate."""
    for size in SIZES_MB:
        plan = compile_transfers("all-to-all", EIGHT, all_to_all(EIGHT, size * 1_000_000))
        yield replayed(f"{size} MB per flow", plan, Fabric(EIGHT, RATE_BPS), rounds, at=size)


def over_messages(rounds: int) -> Iterator[Cost]:
    """The same bytes round a ring of eight in more messages, each of which begins when the one ahead of it has left."""
    for messages in MESSAGES:
        flows = [
            Transfer(flow.src, flow.dst, flow.size_bytes, messages=messages) for flow in ring(EIGHT, MESSAGES_BYTES)
        ]
        plan = compile_transfers("messages", EIGHT, flows)
        yield replayed(f"{EIGHT * messages} messages", plan, Fabric(EIGHT, RATE_BPS), rounds, at=EIGHT * messages)


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


TOOL_HOSTS = 8
TOOL_RATE_BPS = 10e9
TOOL_FLOW_BYTES = 64_000_000
"""56 flows: 3.58 GB."""


def with_other_tools(rounds: int, flow_bytes: int = TOOL_FLOW_BYTES) -> Iterator[Cost]:
    """Each of them; ns-3, which takes minutes, and single frames once only."""
    fabric = Fabric(TOOL_HOSTS, TOOL_RATE_BPS)
    plan = compile_transfers("all-to-all", TOOL_HOSTS, all_to_all(TOOL_HOSTS, flow_bytes))
    frames = replace(fabric, gso_bytes=fabric.mtu_bytes + ETHERNET_HEADER_BYTES)
    yield replayed("gradwire, bursts of 64 KiB (default)", plan, fabric, rounds)
    yield replayed("gradwire, single frames", plan, frames, 1)
    yield ns3(TOOL_HOSTS, flow_bytes, TOOL_RATE_BPS, 1)
    yield fluid(plan, fabric, rounds)
    yield simgrid(TOOL_HOSTS, flow_bytes, TOOL_RATE_BPS, rounds, fabric)


STARTED_HOSTS = (8, 64, 512)
ONCE = 512
"""So many hosts are measured once, for their ring takes minutes after the first byte."""


def started(rounds: int) -> Iterator[Cost]:
    """Wall and CPU time to the first byte."""
    for hosts in STARTED_HOSTS:
        stages = [measure_start(hosts) for _ in range(rounds if hosts < ONCE else 1)]
        walls_s, cpus_s = ([sum(each[stage][part] for stage in TO_FIRST_BYTE) for each in stages] for part in (0, 1))
        yield Cost(f"{hosts} hosts", Spread.of(walls_s), Spread.of(cpus_s), 0.0, 0, at=hosts)


TRAFFIC = {
    "p3": "P3, VGG-19: 200 KB each",
    "slicing": "slices, ResNet-50: 100 KB each, and requests",
    "ring": "ring, ResNet-50: 80 KB each",
}
CODES = ("python", "compiled")


def messages_by_code(_: int) -> Iterator[MessageFigure]:
    """Each traffic with each code."""
    for name, traffic in TRAFFIC.items():
        for code in CODES:
            cost = measure_messages([*POINTS[name], f"transport.agent_code={code}"], 1)
            spent, message_us = cost.spent, 1e6 / cost.messages
            yield MessageFigure(
                name=traffic,
                code=code,
                stops=spent.stops / cost.messages,
                kernel_us=(spent.kernel_user_s + spent.kernel_system_s) * message_us,
                processes_us=(spent.processes_user_s + spent.processes_system_s) * message_us,
                iteration_s=cost.times_s[0],
            )


COMPARE = ("compare", "--model", "resnet50", "--device", "v100", "--workers", "8", "--rate", "10gbit")
COMMANDS = {
    "Table II: `run geryon-table2`": ("run", "geryon-table2"),
    "Table II, `--fidelity 1%`": ("run", "geryon-table2", "--fidelity", "1%"),
    "all strategies: `compare --model resnet50 ...`": COMPARE,
    "all strategies, `--set run.fidelity=1%`": (*COMPARE, "--set", "run.fidelity=1%"),
}
"""The comparison is on 8 workers with a V100 each, at 10 Gbit/s."""


def timed_commands(rounds: int) -> Iterator[Cost]:
    """Wall and CPU time of each. Ends this program if a command fails."""
    for name, arguments in COMMANDS.items():
        walls_s, cpus_s = [], []
        for _ in range(rounds):
            wall_s, cpu_s = _command_once(arguments)
            walls_s.append(wall_s)
            cpus_s.append(cpu_s)
        yield Cost(name, Spread.of(walls_s), Spread.of(cpus_s), 0.0, 0)


def _command_once(arguments: tuple[str, ...]) -> tuple[float, float]:
    with TemporaryDirectory(prefix="gradwire-") as folder:
        out = Path(folder) / "out"
        before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "gradwire", *arguments, "--out", str(out)],
            capture_output=True,
            text=True,
            check=False,
        )
        wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"gradwire {' '.join(arguments)}: {done.stderr[-2000:]}")
        return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
