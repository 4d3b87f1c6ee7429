"""Runs tests in a copy of the tree, in a separate process that has read all packages of others before it is forked."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutants.changes import Change
from benchmarks.mutants.reach import Chosen, Observer, Reach

PYTEST = (
    "-q",
    "-x",
    "-n",
    "0",
    "-p",
    "no:cacheprovider",
    "--hypothesis-seed=0",
    "-m",
    "not (kernel or root or programs)",
)
CPU_S, CPU_FACTOR = 10.0, 3.0
"""Reading the packages takes 1 to 2 s; and a test that takes three times as long as it did has not come to its end."""
WALL_S, WALL_FACTOR = 60.0, 20.0
"""The same by the wall, on a machine that others use too: a test that waits for what never comes takes no CPU time."""
MEMORY_BYTES = 8 << 30
OURS = ("gradwire", "tests", "benchmarks")


class Ending(Enum):
    """How tests ended with a change."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNREACHED = "no test calls it"


def copied(tree: Path, to: Path) -> None:
    """Copies what git has or would take of a tree, links as links."""
    listed = subprocess.run(
        ["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (tree / name).is_symlink() or (tree / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, to / name, follow_symlinks=False)


def observed(tree: Path, tests: Sequence[str], paths: Sequence[str]) -> Reach:
    """Runs the tests as they are. Raises RuntimeError if they do not pass."""

    def run() -> tuple[list[str], int, Reach, list[str]]:
        observer = Observer(paths)
        status = int(pytest.main([*PYTEST, *tests], plugins=[observer]))
        return (
            observer.failed,
            status,
            observer.done(),
            [name for name in sys.modules if name.split(".")[0] not in OURS],
        )

    result = _in_child(tree, run, cpu_s=3600.0, wall_s=3600.0)
    if result is None or result[1]:
        which = " ".join(result[0] if result and result[0] else tests)
        raise RuntimeError(f"{which}: does not pass as it is; run it with pytest")
    for name in result[3]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    reach: Reach = result[2]
    return reach


def ending(tree: Path, path: str, change: Change, reach: Reach, budget_s: float) -> Ending:
    """Whether tests that need `budget_s` seconds of CPU at most notice a change."""
    module = tree / path
    source, times = module.read_text(encoding="utf-8"), module.stat()
    tests: list[str] = []
    left_s = budget_s
    for test in reach.tests_of(path, source, change.line):
        left_s -= reach.cpu_s[test]
        if left_s < 0 and tests:
            break
        tests.append(test)
    if not tests:
        return Ending.UNREACHED
    files = sorted({test.split("::")[0] for test in tests})
    module.write_text(change.made_in(source), encoding="utf-8")
    # Bytecode is distinguished by its source's time in seconds and its size: no two contents may share both.
    os.utime(module, (times.st_atime, times.st_mtime + 2 + change.begin))
    try:
        run = lambda: int(pytest.main([*PYTEST, *files], plugins=[Chosen(tests)]))  # noqa: E731
        needed_s = sum(reach.cpu_s[test] for test in tests)
        limits = {"cpu_s": CPU_S + CPU_FACTOR * needed_s, "wall_s": WALL_S + WALL_FACTOR * needed_s}
        status = _in_child(tree, run, **limits)
    finally:
        module.write_text(source, encoding="utf-8")
        os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns))
    return Ending.SURVIVED if status == pytest.ExitCode.OK else Ending.KILLED


def _in_child(tree: Path, run: Callable[[], Any], *, cpu_s: float, wall_s: float) -> Any:
    """What `run` returns in a process that works in this tree; None if it does not come to its end."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            _begin(tree, cpu_s)
            with os.fdopen(theirs, "wb") as pipe:
                pipe.write(pickle.dumps(run()))
                pipe.flush()
        finally:
            os._exit(0)  # whatever is raised must not reach the caller's blocks, which remove the tree
    os.close(theirs)
    os.set_blocking(ours, False)
    data, end_s = b"", time.monotonic() + wall_s
    with os.fdopen(ours, "rb") as pipe:
        while time.monotonic() < end_s:
            data += pipe.read() or b""
            if os.waitpid(child, os.WNOHANG)[0]:
                data += pipe.read() or b""
                child = 0
                break
            time.sleep(0.02)
    if child:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return pickle.loads(data) if data else None


def _begin(tree: Path, cpu_s: float) -> None:
    """Makes this process one that begins in `tree`, in silence and within limits."""
    os.setsid()
    os.chdir(tree)
    sys.path[0] = str(tree)
    # Only the run of the tests as they are writes bytecode.
    sys.dont_write_bytecode = cpu_s < 3600.0
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    null = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(null, each)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s) + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
