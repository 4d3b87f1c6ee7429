"""Strategies in files of the user's own. Looking one up runs the file's code.

So a file is run for those alone who gave a scenario that names it (`allow`): to `gradwire run`, `plan`, `estimate` and
the like. What reads a run folder, which may be somebody else's, has a scenario as well, and allows nothing.
"""

from __future__ import annotations

import hashlib
import sys
import types
from functools import cache
from pathlib import Path

from gradwire.faults import Fault, InputFault
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.workloads.strategy import Strategy

_ALLOWED: set[str] = set()
"""Paths of files, as scenarios name them, that this process may run."""


def allow(path: str) -> None:
    """Lets `allowed_strategy` run a file, which a scenario names that was given to be compiled."""
    _ALLOWED.add(path)


def allowed_strategy(path: str, name: str) -> Strategy:
    """The strategy of that name in a file. Raises InputFault as `strategy_in`, and without running the file if nobody
    allowed that."""
    if path not in _ALLOWED:
        raise InputFault(
            f"strategy '{name}': its file {path} is not run, since what only reads a run folder runs no code that the folder names; "
            "`gradwire run`, `plan` and `estimate` of the scenario run it"
        )
    return strategy_in(Path(path), name)


def strategy_in(path: Path, name: str | None = None) -> Strategy:
    """The strategy of that name in a file, or its only one. Raises InputFault if the file does not run, or has no such
    strategy."""
    declared = strategies_in(path)
    if name is None and len(declared) > 1:
        first = declared[0].name
        names = ", ".join(each.name for each in declared)
        raise InputFault(f"{path}: has several strategies ({names}): say which, like {path.name}:{first}")
    found = [each for each in declared if name in (None, each.name)]
    if not found:
        raise InputFault(
            f"{path}: has no strategy '{name}'; its STRATEGIES: {', '.join(each.name for each in declared)}"
        )
    return found[0]


def strategies_in(path: Path) -> tuple[Strategy, ...]:
    """What a file lists in STRATEGIES. Raises InputFault if it cannot be read or run, or lists no strategies there."""
    try:
        text = read_text(path, MESSAGE_BYTES, follow=True)
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such strategy file") from error
    except OSError as error:
        raise InputFault(f"{path}: cannot be read as a strategy file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputFault(f"{path}: cannot be read as a strategy file: {error}") from error
    declared = getattr(_module(path, text), "STRATEGIES", None)
    if declared is None or declared == ():
        raise InputFault(f"{path}: has no STRATEGIES: end it with a line like STRATEGIES = (STRATEGY,)")
    if not isinstance(declared, tuple | list) or not declared:
        raise InputFault(
            f"{path}: STRATEGIES = {declared!r}: must be a tuple of Strategy: end the file with a line like STRATEGIES = (STRATEGY,)"
        )
    for each in declared:
        if not isinstance(each, Strategy):
            raise InputFault(f"{path}: STRATEGIES has a {type(each).__name__}: it must be a Strategy (gradwire.plugin)")
    names = [each.name for each in declared]
    if len(set(names)) < len(names):
        raise InputFault(f"{path}: two of its strategies are called '{max(names, key=names.count)}'")
    return tuple(declared)


@cache
def _module(path: Path, text: str) -> types.ModuleType:
    """Runs a file's text as a module, once for each text. No byte code is written beside the file."""
    module = types.ModuleType(f"gradwire_strategy_file_{hashlib.sha256(f'{path} {text}'.encode()).hexdigest()[:16]}")
    module.__file__ = str(path)
    # Classes look their module up by its name, as pydantic does to resolve the annotations of options.
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    except Fault as fault:  # of a Strategy whose fields are of the wrong kind
        del sys.modules[module.__name__]
        raise InputFault(f"{path}: {fault}") from fault
    except Exception as error:  # the user's code may raise anything
        del sys.modules[module.__name__]
        raise InputFault(f"{path}: cannot be run: {type(error).__name__}: {error}") from error
    return module
