"""Strategies of other installed packages, which name them in the entry-point group `gradwire.strategies`.

Packages are known by their metadata. None is imported before a scenario names its strategy, so that a broken one fails only those who
use it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from gradwire.faults import InputFault
from gradwire.workloads.strategies.strategy import Strategy

ENTRY_POINTS = "gradwire.strategies"


def plugin_entries() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points by strategy name; more than one where packages claim the same name."""
    return _entries(tuple(sys.path))


@cache
def _entries(_: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Reading the metadata of every package takes tens of milliseconds, and a sweep asks for its strategy at every point."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def distribution_of(entry: EntryPoint) -> str:
    """Name and version of the package that an entry point belongs to."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


def load_plugin(entry: EntryPoint) -> Strategy:
    """Imports an entry point's strategy. Raises InputFault, naming the package, if it cannot be imported or is something else."""
    place = f"strategy '{entry.name}' of {distribution_of(entry)} (entry point {entry.value})"
    try:
        loaded = entry.load()
    except Exception as error:  # another's module may raise anything while it is imported
        raise InputFault(
            f"{place} cannot be imported: {type(error).__name__}: {error}. Mend the package, or uninstall it"
        ) from error
    if not isinstance(loaded, Strategy):
        raise InputFault(
            f"{place} is a {type(loaded).__name__}: it must be a Strategy (workloads/strategies/strategy.py)"
        )
    if loaded.name != entry.name:
        raise InputFault(f"{place} calls itself '{loaded.name}': give the entry point and the Strategy the same name")
    return loaded
