"""The strategies that gradwire comes with: whatever the modules of workloads/strategies list as their STRATEGIES."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping

from gradwire.faults import InternalFault
from gradwire.workloads import strategies
from gradwire.workloads.strategy import Strategy


def by_name(declared: Iterable[Strategy]) -> Mapping[str, Strategy]:
    """The strategies by name. Raises InternalFault if two share one."""
    named: dict[str, Strategy] = {}
    for strategy in declared:
        if strategy.name in named:
            raise InternalFault(f"two strategies of gradwire are called '{strategy.name}': rename one")
        named[strategy.name] = strategy
    return named


def _declared() -> Iterator[Strategy]:
    """Imports every strategy module, those of folders included. Raises InternalFault for one without STRATEGIES."""
    for found in pkgutil.walk_packages(strategies.__path__, f"{strategies.__name__}."):
        if found.ispkg:
            continue
        module = importlib.import_module(found.name)
        if not hasattr(module, "STRATEGIES"):
            raise InternalFault(
                f"{found.name} has no STRATEGIES: list its strategies, or move it out of workloads/strategies"
            )
        yield from module.STRATEGIES


BUILT_IN = by_name(_declared())
