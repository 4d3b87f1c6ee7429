"""The strategies that gradwire comes with, that installed packages add, and that a program registers.

`strategy(name)` looks one up; `strategy_names()` lists them all. gradwire's own are whatever the modules of
workloads/strategies list as their STRATEGIES. Packages add theirs through the entry-point group `gradwire.strategies`
(workloads/installed_packages.py), each entry a `Strategy`; a notebook registers a strategy for its process
(`register`).

Strategies in users' files
==========================

Looking one up runs the file's code, if `gradwire.named_code` permits that.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gradwire.faults import Fault, InputFault, InternalFault
from gradwire.named_code import code_in, running
from gradwire.nearest_names import did_you_mean, nearest_names
from gradwire.reading_budget import not_reading
from gradwire.workloads import strategies
from gradwire.workloads.installed_packages import STRATEGIES
from gradwire.workloads.strategy import Strategy
from gradwire.workloads.trace_replay.replay_strategy import REPLAY


def strategy_in(path: Path, name: str | None = None) -> Strategy:
    """The strategy of that name in a file, or its only one.

    Raises InputFault if the file may not run or does not, or has no such strategy.
    """
    declared = strategies_in(path)
    if name is None and len(declared) > 1:
        first = declared[0].name
        names = ", ".join(candidate.name for candidate in declared)
        raise InputFault(f"{path}: has several strategies ({names}): say which, like {path.name}:{first}")
    matching = [candidate for candidate in declared if name in (None, candidate.name)]
    if not matching:
        raise InputFault(
            f"{path}: has no strategy '{name}'; its STRATEGIES: {', '.join(candidate.name for candidate in declared)}"
        )
    return matching[0]


def strategies_in(path: Path) -> tuple[Strategy, ...]:
    """Returns the strategies that a file lists in STRATEGIES. Raises InputFault if it cannot be read or may not run, or
    lists no strategies there."""
    text = code_in(path)
    with not_reading(), running(f"{path}: cannot be run: "):  # its code may take what it likes
        return _declared_in(path, getattr(_module(path, text), "STRATEGIES", None))


def _declared_in(path: Path, declared: Any) -> tuple[Strategy, ...]:
    if declared is None or declared == ():
        raise InputFault(f"{path}: has no STRATEGIES: end it with a line like STRATEGIES = (STRATEGY,)")
    if not isinstance(declared, tuple | list) or not declared:
        raise InputFault(
            f"{path}: STRATEGIES = {declared!r}: must be a tuple of Strategy: end the file with a line like "
            "STRATEGIES = (STRATEGY,)"
        )
    for candidate in declared:
        if not isinstance(candidate, Strategy):
            raise InputFault(
                f"{path}: STRATEGIES has a {type(candidate).__name__}: it must be a Strategy (gradwire.plugin)"
            )
    names = [candidate.name for candidate in declared]
    if len(set(names)) < len(names):
        raise InputFault(f"{path}: two of its strategies are called '{max(names, key=names.count)}'")
    return tuple(declared)


@cache
def _module(path: Path, text: str) -> types.ModuleType:
    """Runs a file's text as a module, once for each text. No byte code is written next to the file."""
    module = types.ModuleType(f"gradwire_strategy_file_{hashlib.sha256(f'{path} {text}'.encode()).hexdigest()[:16]}")
    module.__file__ = str(path)
    # Classes look their module up by its name, as pydantic does to resolve the annotations of options.
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del sys.modules[module.__name__]
        if isinstance(error, Fault):  # of a Strategy whose fields are of the wrong kind
            raise InputFault(f"{path}: {error}") from error
        raise
    return module


def by_name(declared: Iterable[Strategy]) -> Mapping[str, Strategy]:
    """The strategies by name. Raises InternalFault if two share one."""
    named: dict[str, Strategy] = {}
    for strategy in declared:
        if strategy.name in named:
            raise InternalFault(f"two strategies of gradwire are called '{strategy.name}': rename one")
        named[strategy.name] = strategy
    return named


def _declared_strategies() -> Iterator[Strategy]:
    """Imports every strategy module, those of folders included. Raises InternalFault for one without STRATEGIES."""
    for info in pkgutil.walk_packages(strategies.__path__, f"{strategies.__name__}."):
        if info.ispkg:
            continue
        module = importlib.import_module(info.name)
        if not hasattr(module, "STRATEGIES"):
            raise InternalFault(
                f"{info.name} has no STRATEGIES: list its strategies, or move it out of workloads/strategies"
            )
        yield from module.STRATEGIES


BUILT_IN = by_name(_declared_strategies())


REGISTERED: dict[str, Strategy] = {}
"""Strategies by name. A later one of the same name replaces the earlier, so that a notebook's cell can be run again."""


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


MEANT: Mapping[str, Sequence[str]] = {
    "ps": ("vanilla", "kvstore"),
    "parameter-server": ("vanilla", "kvstore"),
    "ps-lite": ("kvstore",),
    "mxnet": ("kvstore",),
    "tensorflow": ("vanilla",),
    "allreduce": ("ring", "ddp"),
    "all-reduce": ("ring", "ddp"),
    "ring-allreduce": ("ring",),
    "baidu": ("ring",),
    "tree": ("double-tree",),
    "rabenseifner": ("halving-doubling",),
    "recursive-doubling": ("butterfly",),
    "hierarchical": ("hierarchical-ring",),
    "data-parallel": ("ddp",),
    "dp": ("ddp",),
    "pytorch": ("ddp", "fsdp"),
    "zero": ("zero1", "zero2", "fsdp"),
    "zero3": ("fsdp",),
    "deepspeed": ("zero1", "zero2", "fsdp"),
    "pipeline": ("megatron",),
    "tensor-parallel": ("megatron",),
    "gpipe": ("megatron",),
    "1f1b": ("megatron",),
    "local-sgd": ("diloco",),
}
"""Words of the field and names of systems, with the strategies that they mean; the likeliest first."""


def strategies_meant_by(word: str) -> Sequence[str]:
    """The strategies that a word means; none if it is not known."""
    return MEANT.get(word.lower().replace("_", "-"), ())


THIS_PROCESS = "this process, which registered it"


def strategy(name: str, files: Mapping[str, str] | None = None) -> Strategy:
    """The strategy of that name.

    files: names of strategies, each with the path of its file; they take precedence over what is installed. Only those
    run that are permitted (`gradwire.named_code`).

    Raises InputFault with the known names if there is none, if several packages claim the name, or if its package or
    file cannot or may not be imported.
    """
    if files and name in files:
        return strategy_in(Path(files[name]), name)
    STRATEGIES.refuse_clash(name, BUILT_IN)
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name == REPLAY.name:  # not one of `strategy_names`, which take models
        return REPLAY
    if name in REGISTERED:
        return REGISTERED[name]
    if name in STRATEGIES.entries():
        return _of_package(name)
    known = sorted([*strategy_names(), REPLAY.name])
    near = strategies_meant_by(name) or nearest_names(name, known)
    hint = f"; {did_you_mean(near)}" if near else "."
    raise InputFault(f"strategy '{name}' is unknown{hint} Known: {', '.join(known)}")


def _of_package(name: str) -> Strategy:
    (entry,) = STRATEGIES.entries()[name]
    loaded = STRATEGIES.loaded(entry)
    origin = STRATEGIES.place(entry)
    if not isinstance(loaded, Strategy):
        raise InputFault(f"{origin} is a {type(loaded).__name__}: it must be a Strategy (gradwire.plugin)")
    if loaded.name != name:
        raise InputFault(f"{origin} calls itself '{loaded.name}': give the entry point and the Strategy the same name")
    return loaded


def strategy_origins(name: str) -> list[str]:
    """The origins of a strategy of that name: gradwire itself, packages by name and version, or this process.

    Normally one origin.
    """
    return [*STRATEGIES.origins(name, BUILT_IN), *([THIS_PROCESS] if name in REGISTERED else [])]


def strategy_names() -> list[str]:
    """Names of all strategies: built in, installed and registered."""
    return sorted({*BUILT_IN, *STRATEGIES.entries(), *REGISTERED})
