"""Compiles the engine on two cores where it is compiled for the first time.

numba compiles one function after the other, 25 s of a core for all of the engine, and keeps each on disk. So a second
process compiles some of those that `proceed` calls, while this one is at the others: what it comes to and finds on
disk, it loads. Results are the same, whoever was first.

    python -m gradwire.analysis.fluid.second_compiler       the second process, which reads from standard input for which types
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from numba import float64, int64, typeof

from gradwire import PACKAGE
from gradwire.analysis.fluid import compiled, replay
from gradwire.analysis.fluid.draining import share_ports

type_of: Callable[[object], Any] = cast(Any, typeof)
LEAST_CORES = 2


def compile_if_never(state: replay.Replay) -> None:
    """Compiles `proceed` for the types of `state`, with the help of a second process, unless that was done before."""
    proceed = cast(Any, replay.proceed)
    if proceed.overloads or not compiled.KEPT or is_compiled(compiled.FOLDER):
        return
    if len(os.sched_getaffinity(0)) >= LEAST_CORES:
        with _second_process(state):
            proceed.compile((type_of(state), int64))


def is_compiled(folder: Path) -> bool:
    """Whether a cache folder has the machine code of `proceed`, without which that of others is not complete."""
    return any(folder.rglob("replay.proceed-*.nbi"))


@contextmanager
def _second_process(state: replay.Replay) -> Iterator[None]:
    """Runs while the block does. Whether it succeeds changes nothing but the time, so nobody asks."""
    types = pickle.dumps((type_of(state), type_of(state.network), type_of(state.agenda)))
    second = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONSAFEPATH": "1"},
    )
    try:
        assert second.stdin is not None
        with second.stdin as told:
            told.write(types)
        yield
    finally:
        second.kill()
        second.wait()


def _help() -> None:
    """Compiles what `proceed` calls after `_settle`, which takes as long, but for what is left to `_happen`: were both
    at the same function, one would work in vain."""
    whole, network, agenda = pickle.load(sys.stdin.buffer)  # of the process that started this one
    cast(Any, share_ports).compile((network, agenda, int64, float64))
    for function in (replay._feel, replay._go_on):
        cast(Any, function).compile((whole, int64, float64))
    cast(Any, replay._arrive).compile((whole, float64))


if __name__ == "__main__":
    _help()
