"""From the start of the command that boots a machine until its agents have their first plan."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.message_cost import machine_times
from benchmarks.performance.cost import Cost, Spread
from gradwire.runner.replay import replay_plans
from gradwire.topo.fabric import Fabric
from gradwire.workloads.patterns import compile_transfers, ring

HOSTS = (8, 64)
RATE_BPS = 10e9
SMALL_BYTES = 1000


def started(rounds: int) -> Iterator[Cost]:
    """Boot, network, controller, agents, and a kilobyte from each host to the next."""
    for hosts in HOSTS:
        plan = compile_transfers("ring", hosts, ring(hosts, SMALL_BYTES))
        walls_s: list[float] = []
        cpus_s: list[float] = []

        def read_clock(_: str, cpus_s: list[float] = cpus_s) -> None:
            cpus_s.append(machine_times().total_s)

        for _ in range(rounds):
            began_s = time.perf_counter()
            replay_plans({"ring": plan}, Fabric(hosts, RATE_BPS), 1, on_plan=read_clock)
            walls_s.append(time.perf_counter() - began_s)
        yield Cost(f"{hosts} hosts", Spread.of(walls_s), Spread.of(cpus_s), 0.0, 0, at=hosts)
