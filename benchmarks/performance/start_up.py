"""From the start of a point until the first byte of its rate probe has arrived: boot, network, controller and agents."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.performance.cost import Cost, Spread
from benchmarks.start_up import TO_FIRST_BYTE, measure

HOSTS = (8, 64, 512)
ONCE = 512
"""So many hosts are measured once, for their ring takes minutes after the first byte."""


def started(rounds: int) -> Iterator[Cost]:
    """Wall and CPU time to the first byte."""
    for hosts in HOSTS:
        stages = [measure(hosts) for _ in range(rounds if hosts < ONCE else 1)]
        walls_s, cpus_s = ([sum(each[stage][part] for stage in TO_FIRST_BYTE) for each in stages] for part in (0, 1))
        yield Cost(f"{hosts} hosts", Spread.of(walls_s), Spread.of(cpus_s), 0.0, 0, at=hosts)
