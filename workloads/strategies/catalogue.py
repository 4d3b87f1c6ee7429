"""The strategies that gradwire comes with: each module lists its own."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.strategies import (
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
from workloads.strategies.strategy import Strategy

MODULES = (allreduce, gradientflow, geryon_contenders, kvstore, multicast_ps, multicast_ring, netops_ps, p3, tictac)

BUILT_IN: Mapping[str, Strategy] = {strategy.name: strategy for module in MODULES for strategy in module.STRATEGIES}
