"""The strategies that gradwire comes with: each module lists its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gradwire.faults import InternalFault
from gradwire.workloads.strategies import (
    allreduce,
    geryon_contenders,
    gradientflow,
    kvstore,
    multicast_ps,
    multicast_ring,
    netops_ps,
    p3,
    tictac,
)
from gradwire.workloads.strategies.strategy import Strategy

MODULES = (allreduce, gradientflow, geryon_contenders, kvstore, multicast_ps, multicast_ring, netops_ps, p3, tictac)


def by_name(strategies: Iterable[Strategy]) -> Mapping[str, Strategy]:
    """The strategies by their names. Raises InternalFault if two share one."""
    found: dict[str, Strategy] = {}
    for strategy in strategies:
        if strategy.name in found:
            raise InternalFault(f"two strategies of gradwire are called '{strategy.name}': rename one")
        found[strategy.name] = strategy
    return found


BUILT_IN = by_name(strategy for module in MODULES for strategy in module.STRATEGIES)
