"""Replays the network traffic of distributed training on an emulated network, and measures how each strategy performs.

`run`, `compare`, `plan`, `estimate`, `map` and `open` are what Python and notebooks begin with (docs/python.md). Each is
imported when it is first asked for, since every process of a run imports this package, and the command line answers at
once.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwire import faults, plugin
    from gradwire.api.estimating import estimate
    from gradwire.api.mapping import Map, map  # noqa: A004 (gradwire.map draws maps)
    from gradwire.api.plans import Plans
    from gradwire.api.run import InvalidPointWarning, ProgramRun, Run, Why
    from gradwire.api.running import compare, open, plan, run  # noqa: A004 (gradwire.open opens runs)

__all__ = [
    "InvalidPointWarning",
    "Map",
    "Plans",
    "ProgramRun",
    "Run",
    "Why",
    "compare",
    "estimate",
    "faults",
    "map",
    "open",
    "plan",
    "plugin",
    "run",
]

PACKAGE = Path(__file__).resolve().parent
"""The folder of the package. A process that imports the package needs the parent of this folder on its path."""
_HOMES = {
    "InvalidPointWarning": "gradwire.api.run",
    "Map": "gradwire.api.mapping",
    "Plans": "gradwire.api.plans",
    "ProgramRun": "gradwire.api.run",
    "Run": "gradwire.api.run",
    "Why": "gradwire.api.run",
    "compare": "gradwire.api.running",
    "estimate": "gradwire.api.estimating",
    "map": "gradwire.api.mapping",
    "open": "gradwire.api.running",
    "plan": "gradwire.api.running",
    "run": "gradwire.api.running",
}
"""The module of each name; the names in `__all__` without one are modules themselves."""


def __getattr__(name: str) -> Any:
    """Imports one of `__all__` when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'gradwire' has no attribute '{name}'")
    if name not in _HOMES:
        return importlib.import_module(f"gradwire.{name}")
    globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    """Names of the module, for completion."""
    return sorted({*globals(), *__all__})
