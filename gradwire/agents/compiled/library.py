"""The compiled agent as Python reaches it: a library without dependencies for the virtual-time kernel alone."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradwire.agents.compiled.border import REMEDY, border_digest
from gradwire.agents.compiled.structures import Given, Ints, Lists, Longs, Told
from gradwire.faults import InternalFault

_Replay = ctypes.c_void_p
"""A replay in C, of which Python knows nothing."""


def load(path: Path) -> ctypes.CDLL | None:
    """The library; None where the kernel's file has none, or the kernel does not carry out lists of calls.

    Raises InternalFault for one that was compiled for other structures than Python's.
    """
    if not path.exists():
        return None
    library = ctypes.CDLL(str(path))
    _refuse_other_border(library)
    library.open_replay.restype = _Replay
    library.open_replay.argtypes = [ctypes.POINTER(Given)]
    library.go_on.argtypes = [_Replay]
    library.told_by.restype = ctypes.POINTER(Told)
    library.told_by.argtypes = [_Replay]
    library.close_replay.argtypes = [_Replay]
    return library if library.takes_lists() else None


def _refuse_other_border(library: ctypes.CDLL) -> None:
    compiled, here = "none", f"{border_digest():016x}"
    if hasattr(library, "border_digest"):
        library.border_digest.restype = ctypes.c_uint64
        compiled = f"{library.border_digest():016x}"
    if compiled != here:
        raise InternalFault(
            f"the compiled agent shares border {compiled} with Python, and Python has {here}: "
            f"after a change to what they share, `{REMEDY}` and `gradwire kernel`; otherwise `gradwire kernel --force`"
        )


class SharedArrays:
    """The arrays that a structure points to, which must live as long as it is used."""

    def __init__(self) -> None:
        self._kept: list[npt.NDArray[Any]] = []

    def at(self, values: Any, pointer: Any) -> Any:
        """A pointer to numbers as an array of what such a pointer leads to: their own where they are one already, and
        else a copy."""
        array = np.ascontiguousarray(np.asarray(values), np.dtype(pointer._type_))
        self._kept.append(array)
        return ctypes.cast(array.ctypes.data, pointer)

    def lists(self, start: Any, of: Any) -> Lists:
        """List i is of[start[i]:start[i + 1]]."""
        return Lists(self.at(start, Longs), self.at(of, Ints))

    def lists_by(self, places: npt.NDArray[Any], values: npt.NDArray[Any], count: int) -> Lists:
        """Returns lists of the values for each of `count` places, in the order of the values."""
        start = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(places, minlength=count), out=start[1:])
        return self.lists(start, values[np.argsort(places, kind="stable")])


def fill(given: Given, columns: SharedArrays, arrays: Mapping[str, Any]) -> None:
    """Sets fields of `given` to pointers to these arrays, of the types that Given declares."""
    pointers = {name: pointer for name, pointer, *_ in Given._fields_}
    for name, values in arrays.items():
        setattr(given, name, columns.at(values, pointers[name]))
