"""Strategies that a program or a notebook registers for its own process."""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.workloads.registry.built_in import BUILT_IN
from gradwire.workloads.registry.plugins import STRATEGIES
from gradwire.workloads.strategy import Strategy

REGISTERED: dict[str, Strategy] = {}
"""By name. A later one of the same name replaces the earlier, so that a notebook's cell can be run again."""


def register(strategy: Strategy) -> Strategy:
    """Makes a strategy known by its name in this process, and returns it; one that was registered by that name before
    is replaced.

    Plans are compiled in this process and replayed as data, so the strategy need not be importable elsewhere. Raises
    InputFault if the name belongs to a strategy of gradwire or of an installed package.
    """
    if not isinstance(strategy, Strategy):
        raise InputFault(f"{strategy!r} is a {type(strategy).__name__}: register a Strategy (gradwire.plugin)")
    owners = STRATEGIES.origins(strategy.name, BUILT_IN)
    if owners:
        raise InputFault(
            f"strategy '{strategy.name}' is already one of {' and of '.join(owners)}: give yours another name"
        )
    REGISTERED[strategy.name] = strategy
    return strategy
