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
from tempfile import TemporaryFile
from typing import Any, TypeVar, cast

import numba
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.config import _OptLevel
from numba.core.cpu import CPUTargetOptions

from gradwire.cache_files import saving_time, warn_of_unkept

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
        with TemporaryFile(dir=folder):
            return True
    except OSError as error:
        warn_of_unkept(folder / "engine", error)
        return False


class _KeptCode(FunctionCache):
    """Machine code of a function on the disk, without which it is compiled again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types; None if there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001 (whatever unpickling a file finds that is cut off or damaged)
            with saving_time(FOLDER / "engine"):
                self.flush()  # type: ignore[no-untyped-call] # its index, which is read again before one is written
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps the code for these types, if that is possible."""
        with saving_time(FOLDER / "engine"):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


FOLDER = _cache_folder()
"""Folder of the machine code."""
KEPT = _is_usable(FOLDER)
"""Whether machine code is kept. If the folder cannot be written, functions are compiled in each process."""
if KEPT:
    config.CACHE_DIR = str(FOLDER)  # type: ignore[attr-defined] # numba sets its settings at run time
# A tenth less time to compile than at numba's level 3 (11.4 s of a core, not 13.4), and the loops are as fast.
config.OPT = _OptLevel(1)  # type: ignore[attr-defined,no-untyped-call]

_OPTIONS: dict[str, Any] = {}
if hasattr(CPUTargetOptions, "_nrt"):
    # No counting of references to arrays, which none of these functions makes or drops: an op takes 0.5 us with this,
    # and 4 us without. numba does not document the option.
    _OPTIONS["_nrt"] = False


def compiled(function: Function) -> Function:
    """Compiles a function at its first call.

    It may use arrays of numpy, named tuples of them, and other compiled functions, but must make no array.
    """
    return _kept(function, numba.njit(**_OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Compiles a short function into its callers. A call passes some hundred numbers, which is too much for what is
    often called."""
    return _kept(function, numba.njit(inline="always", **_OPTIONS)(function))


def _kept(function: Function, dispatcher: Any) -> Function:
    """Has the machine code of a function kept, as numba's own option `cache` would."""
    if KEPT:
        try:
            dispatcher._cache = _KeptCode(function)  # type: ignore[no-untyped-call]
        except (OSError, RuntimeError) as error:  # numba finds no folder that it can write to
            warn_of_unkept(FOLDER / "engine", OSError(str(error)))
    return cast(Function, dispatcher)
