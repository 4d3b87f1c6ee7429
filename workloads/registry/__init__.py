"""Strategies by name: those that gradwire comes with, and those that installed packages add.

`strategy(name)` looks one up; `strategy_names()` lists them all. Packages add theirs through the entry-point group
`gradwire.strategies` (plugins.py), each entry a `Strategy`.
"""

from __future__ import annotations

import difflib

from gradwire.faults import InputFault
from gradwire.workloads.registry.built_in import BUILT_IN
from gradwire.workloads.registry.plugins import ENTRY_POINTS, distribution_of, load_plugin, plugin_entries
from gradwire.workloads.strategy import Strategy

GRADWIRE = "gradwire"


def strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises InputFault with the known names if there is none, if several packages claim the name, or if its package cannot be imported.
    """
    origins = strategy_origins(name)
    if len(origins) > 1:
        raise InputFault(
            f"strategy '{name}' is claimed by {' and by '.join(origins)}: uninstall all but one, or rename the others' "
            f"entry points in group {ENTRY_POINTS}"
        )
    if name in BUILT_IN:
        return BUILT_IN[name]
    if origins:
        return load_plugin(plugin_entries()[name][0])
    near = difflib.get_close_matches(name, strategy_names(), n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    raise InputFault(f"strategy '{name}' is unknown{hint} Known: {', '.join(strategy_names())}")


def strategy_origins(name: str) -> list[str]:
    """Where a strategy of that name comes from: gradwire itself, or packages by name and version. Normally one origin."""
    return [
        *([GRADWIRE] if name in BUILT_IN else []),
        *(distribution_of(entry) for entry in plugin_entries().get(name, ())),
    ]


def strategy_names() -> list[str]:
    """Names of all strategies, built in and installed."""
    return sorted({*BUILT_IN, *plugin_entries()})
