"""Compiles the engine on two cores when it is compiled for the first time.

numba compiles one function after the other, 25 s of a core for all of the engine, and keeps each on disk. So a second
process compiles some of the functions that `proceed` calls, while this one is at the others, and this one loads those
that it finds on disk. Results do not depend on which process was first.

    python -m gradwire.analysis.fluid.second_compiler

runs the second process, which reads the types to compile for from standard input.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

from numba import float64, int64, typeof

from gradwire import PACKAGE
from gradwire.analysis.fluid import compiled, replay
from gradwire.analysis.fluid.draining import share_ports
from gradwire.reading_budget import not_reading

type_of: Callable[[object], Any] = cast(Any, typeof)
LEAST_CORES = 2


def compile_if_never(state: replay.Replay) -> None:
    """Compiles `proceed` for the types of `state`, or reads it if it was compiled before. Where it is kept, a second process
    helps."""
    proceed = cast(Any, replay.proceed)
    if proceed.overloads:
        return
    is_helped = (
        compiled.KEPT
        and len(os.sched_getaffinity(0)) >= LEAST_CORES
        and not is_compiled(Path(proceed.stats.cache_path))
    )
    # The machine code is not of the file that is being read, if one is.
    with not_reading(), _second_process(state) if is_helped else nullcontext():
        proceed.compile((type_of(state), int64))


def is_compiled(folder: Path) -> bool:
    """Returns whether numba's folder for these sources, at this place, has the machine code of `proceed`, which is kept
    last."""
    return any(folder.glob("replay.proceed-*.nbi"))


def first_use() -> str:
    """Returns words before those of a line on progress, with a space behind them, if what is done next waits until the engine
    is compiled for the first time; "" if it is compiled."""
    proceed = cast(Any, replay.proceed)
    if proceed.overloads or not compiled.KEPT or is_compiled(Path(proceed.stats.cache_path)):
        return ""
    return "compiling the engine, once (25 s), then "


@contextmanager
def _second_process(state: replay.Replay) -> Iterator[None]:
    """Runs while the block does. Whether it starts and succeeds changes nothing but the time, so nobody asks."""
    types = pickle.dumps((type_of(state), type_of(state.network), type_of(state.agenda)))
    try:
        second = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONSAFEPATH": "1"},
        )
    except OSError:  # a limit of processes or of memory
        yield
        return
    try:
        assert second.stdin is not None
        with suppress(BrokenPipeError), second.stdin as told:
            told.write(types)
        yield
    finally:
        second.kill()
        second.wait()


def help_compiling() -> list[Any]:
    """Compiles, and returns, what `proceed` calls after `_settle`, which takes as long, but for what is left to `_happen`: were both
    at the same function, one would work in vain."""
    whole, network, agenda = pickle.load(sys.stdin.buffer)  # of the process that started this one
    wanted: list[tuple[Any, tuple[Any, ...]]] = [(share_ports, (network, agenda, int64, float64))]
    wanted += [(function, (whole, int64, float64)) for function in (replay._feel, replay._go_on)]
    wanted += [(replay._arrive, (whole, float64))]
    for function, arguments in wanted:
        function.compile(arguments)
    return [function for function, _ in wanted]


if __name__ == "__main__":
    help_compiling()
