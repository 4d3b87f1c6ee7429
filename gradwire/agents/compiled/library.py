"""The compiled agent as Python reaches it: a library without dependencies, which only the virtual-time kernel can serve."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Long, Int, Pointer = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
ITERATED, FINISHED, FAILED = 1, 2, 3
DETAILS = 5


class Lists(ctypes.Structure):
    """struct lists of replay.h."""

    _fields_ = (("start", Pointer), ("of", Pointer))


class End(ctypes.Structure):
    """struct end of replay.h."""

    _fields_ = (
        ("descriptor", Int),
        ("connection", Int),
        ("destination", Int),
        ("has_line", Int),
        ("ns_per_byte", ctypes.c_double),
        ("payload_bytes", Long),
        ("header_bytes", Long),
        ("overhead_bytes", Long),
    )


class Given(ctypes.Structure):
    """struct given of replay.h."""

    _fields_ = (
        *((name, Long) for name in ("ops", "queues", "streams", "slots", "own", "iterations", "workers")),
        *((name, Long) for name in ("senders", "receivers")),
        *((name, Pointer) for name in ("kind", "rank", "lane", "chunk", "order", "duration_ns", "size_bytes")),
        *((name, Pointer) for name in ("combine", "received_as", "is_remote", "tensor", "stream", "slot", "recv")),
        *((name, Pointer) for name in ("sender", "waits_first", "waits_later", "own_ops", "lag")),
        *((name, Lists) for name in ("successors", "produces", "consumes", "needs")),
        *((name, Pointer) for name in ("worker", "whole", "wholes", "discipline")),
        ("orders", Lists),
        ("outgoing", ctypes.POINTER(End)),
        ("incoming", ctypes.POINTER(End)),
        ("payload", Int),
        ("spare", Int),
        ("start_ns", Long),
        ("log", Pointer),
        ("lateness_ns", Pointer),
    )


class Set(ctypes.Structure):
    """struct contributions of replay.h."""

    _fields_ = (("iteration", Long), ("workers", ctypes.POINTER(ctypes.c_uint64)))


class Told(ctypes.Structure):
    """struct told of replay.h."""

    _fields_ = (
        *((name, Long) for name in ("iterations_done", "rows", "timers")),
        *((name, Long) for name in ("messages_sent", "messages_received", "bytes_sent", "bytes_received")),
        ("failure", Long),
        ("detail", Long * DETAILS),
        ("arrived", Set),
        ("total", Set),
    )


def load(path: Path) -> ctypes.CDLL | None:
    """The library; None where the kernel's file has none, or the kernel does not carry out lists of calls."""
    if not path.exists():
        return None
    library = ctypes.CDLL(str(path))
    library.open_replay.restype = Pointer
    library.open_replay.argtypes = [ctypes.POINTER(Given)]
    library.go_on.argtypes = [Pointer]
    library.told_by.restype = ctypes.POINTER(Told)
    library.told_by.argtypes = [Pointer]
    library.close_replay.argtypes = [Pointer]
    return library if library.takes_lists() else None


class Columns:
    """The arrays that a structure points to, which must live as long as it is used."""

    def __init__(self) -> None:
        self._kept: list[npt.NDArray[Any]] = []

    def at(self, values: Any, kind: npt.DTypeLike) -> int:
        """The address of numbers as an array of `kind`: their own where they are one already, and else a copy's."""
        array = np.ascontiguousarray(np.asarray(values), kind)
        self._kept.append(array)
        return array.ctypes.data

    def lists(self, start: Any, of: Any) -> Lists:
        """List i is of[start[i]:start[i + 1]]."""
        return Lists(self.at(start, np.int64), self.at(of, np.int32))

    def lists_by(self, places: npt.NDArray[Any], values: npt.NDArray[Any], count: int) -> Lists:
        """Of each of `count` places, the values beside it, in their order."""
        start = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(places, minlength=count), out=start[1:])
        return self.lists(start, values[np.argsort(places, kind="stable")])


def fill(given: Given, columns: Columns, arrays: Mapping[str, tuple[Any, npt.DTypeLike]]) -> None:
    """Sets fields to the addresses of arrays."""
    for name, (values, kind) in arrays.items():
        setattr(given, name, columns.at(values, kind))
