"""Strategies by name: those that gradwire comes with, those that installed packages add, and those that a program
registers.

`strategy(name)` looks one up; `strategy_names()` lists them all. Packages add theirs through the entry-point group
`gradwire.strategies` (plugins.py), each entry a `Strategy`; a notebook registers its own (registered.py). Models and
devices are looked up the same way as those of packages (catalogue.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from gradwire.faults import InputFault
from gradwire.workloads.registry.built_in import BUILT_IN
from gradwire.workloads.registry.plugins import STRATEGIES
from gradwire.workloads.registry.registered import REGISTERED
from gradwire.workloads.registry.strategy_files import allowed_strategy
from gradwire.workloads.replay.strategy import REPLAY
from gradwire.workloads.strategy import Strategy

THIS_PROCESS = "this process, which registered it"


def strategy(name: str, files: Mapping[str, str] | None = None) -> Strategy:
    """The strategy of that name.

    files: paths of strategies' own files by name, which go before what is installed. Only those are run that a
    scenario names which was given to be compiled (strategy_files.py).

    Raises InputFault with the known names if there is none, if several packages claim the name, or if its package or
    file cannot or may not be imported.
    """
    if files and name in files:
        return allowed_strategy(files[name], name)
    STRATEGIES.refuse_clash(name, BUILT_IN)
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name == REPLAY.name:  # not one of `strategy_names`, all of which take any model
        return REPLAY
    if name in REGISTERED:
        return REGISTERED[name]
    if name in STRATEGIES.entries():
        return _of_package(name)
    known = sorted([*strategy_names(), REPLAY.name])
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    raise InputFault(f"strategy '{name}' is unknown{hint} Known: {', '.join(known)}")


def _of_package(name: str) -> Strategy:
    (entry,) = STRATEGIES.entries()[name]
    loaded = STRATEGIES.loaded(entry)
    place = STRATEGIES.place(entry)
    if not isinstance(loaded, Strategy):
        raise InputFault(f"{place} is a {type(loaded).__name__}: it must be a Strategy (gradwire.plugin)")
    if loaded.name != name:
        raise InputFault(f"{place} calls itself '{loaded.name}': give the entry point and the Strategy the same name")
    return loaded


def strategy_origins(name: str) -> list[str]:
    """Where a strategy of that name comes from: gradwire itself, packages by name and version, or this process.
    Normally one origin."""
    return [*STRATEGIES.origins(name, BUILT_IN), *([THIS_PROCESS] if name in REGISTERED else [])]


def strategy_names() -> list[str]:
    """Names of all strategies: built in, installed and registered."""
    return sorted({*BUILT_IN, *STRATEGIES.entries(), *REGISTERED})
