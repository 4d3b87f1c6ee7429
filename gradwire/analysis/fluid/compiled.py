"""Compiles the engine's inner loops to machine code with numba, and keeps the result on disk.

A plan has up to millions of ops, and an iteration touches each several times. That takes 0.6 us per op; the agents'
interpreter, which is Python, takes 14 us. Compiling takes 25 s of a core, once (second_compiler.py), so the machine code is kept in
gradwire's cache folder. numba compiles a function anew when its own file has changed, but not when a function that it
calls has changed in another file. So the folder carries a hash of all files of the engine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config
from numba.core.config import _OptLevel
from numba.core.cpu import CPUTargetOptions

Function = TypeVar("Function", bound=Callable[..., Any])


def _cache_folder() -> Path:
    """Folder for the machine code of these sources, by this Python and this numba."""
    sha = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        sha.update(source.read_bytes())
    base = os.environ.get("GRADWIRE_CACHE")
    root = Path(base) if base else Path.home() / ".cache" / "gradwire"
    return root / f"fluid-{sha.hexdigest()[:12]}"


def _is_usable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


FOLDER = _cache_folder()
"""Folder of the machine code."""
KEPT = _is_usable(FOLDER)
"""Whether machine code is kept. If the folder cannot be written, functions are compiled in each process."""
if KEPT:
    config.CACHE_DIR = str(FOLDER)  # type: ignore[attr-defined] # numba sets its settings at run time
# A tenth less time to compile than at numba's level 3 (11.4 s of a core, not 13.4), and the loops are as fast.
config.OPT = _OptLevel(1)  # type: ignore[attr-defined,no-untyped-call]

_OPTIONS: dict[str, Any] = {"cache": KEPT}
if hasattr(CPUTargetOptions, "_nrt"):
    # No counting of references to arrays, which none of these functions makes or drops: an op takes 0.5 us with this,
    # and 4 us without. numba does not document the option.
    _OPTIONS["_nrt"] = False


def compiled(function: Function) -> Function:
    """Compiles a function at its first call.

    It may use arrays of numpy, named tuples of them, and other compiled functions, but must make no array.
    """
    return cast(Function, numba.njit(**_OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Compiles a short function into its callers. A call passes some hundred numbers, which is too much for what is
    often called."""
    return cast(Function, numba.njit(inline="always", **_OPTIONS)(function))
