"""Communication strategies: one readable file each, a pure function from model and cluster to plan.

`strategy(name)` finds one; `strategy_names()` lists them. Installed packages add their own through the entry point group
`gradwire.strategies`, each entry a `Strategy`.
"""

from __future__ import annotations

import difflib
from importlib.metadata import entry_points

from vm.faults import InputFault
from workloads.strategies.catalogue import BUILT_IN
from workloads.strategies.strategy import Strategy

ENTRY_POINTS = "gradwire.strategies"


def strategy(name: str) -> Strategy:
    """The strategy of that name; raises InputFault with the known names."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        loaded = entry.load()
        if not isinstance(loaded, Strategy):
            raise InputFault(
                f"entry point {ENTRY_POINTS}:{name} ({entry.value}) is a {type(loaded).__name__}, not a Strategy"
            )
        return loaded
    near = difflib.get_close_matches(name, strategy_names(), n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    raise InputFault(f"strategy '{name}' is unknown{hint} Known: {', '.join(strategy_names())}")


def strategy_names() -> list[str]:
    """Names of all strategies, built in and installed."""
    return sorted({*BUILT_IN, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})
