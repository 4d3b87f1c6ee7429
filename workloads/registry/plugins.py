"""Strategies of other installed packages, which name them in the entry-point group `gradwire.strategies`.

Packages are found by their metadata. None is imported until a scenario names its strategy, so a broken package affects only the
scenarios that use it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from gradwire.faults import InputFault
from gradwire.workloads.strategy import Strategy

ENTRY_POINTS = "gradwire.strategies"


def plugin_entries() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points by strategy name; a name has several if several packages claim it."""
    return _entries(tuple(sys.path))


@cache
def _entries(_: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Cached, because reading the metadata of every package takes tens of milliseconds and a sweep looks it up for every point."""
    by_name: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        by_name[entry.name] = (*by_name.get(entry.name, ()), entry)
    return by_name


def distribution_of(entry: EntryPoint) -> str:
    """Name and version of the package that an entry point belongs to."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


def load_plugin(entry: EntryPoint) -> Strategy:
    """Imports an entry point's strategy. Raises InputFault, naming the package, if that fails or yields something else."""
    place = f"strategy '{entry.name}' of {distribution_of(entry)} (entry point {entry.value})"
    try:
        loaded = entry.load()
    except Exception as error:  # third-party code may raise anything on import
        raise InputFault(
            f"{place} cannot be imported: {type(error).__name__}: {error}. Fix the package, or uninstall it"
        ) from error
    if not isinstance(loaded, Strategy):
        raise InputFault(f"{place} is a {type(loaded).__name__}: it must be a Strategy (gradwire.plugin)")
    if loaded.name != entry.name:
        raise InputFault(f"{place} calls itself '{loaded.name}': give the entry point and the Strategy the same name")
    return loaded
