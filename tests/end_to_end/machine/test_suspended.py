"""A run that signals stop and let go on ends as one to which nothing happened, in whichever order its processes hear of it.

The kernel traces its processes, and takes a signal to one of them for its death: see gradwire/vm/kernel_death.py.
"""

from __future__ import annotations

import csv
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from benchmarks.promises import descended_from, signalled
from gradwire import PACKAGE
from gradwire.runs.stored.stored_run import COMPLETION_FILE
from gradwire.vm.machine import BOX_NAME
from gradwire.vm.streaming import is_stopped

pytestmark = pytest.mark.kernel

LIMIT_S = 300.0
POLL_S = 0.02
SCENARIO = """
title = "Stopped"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "one-layer"
layers = [{ name = "fc1", size = ["8MB"], forward = "2ms", backward = "4ms" }]
[strategy]
name = "ring"
[run]
warmup = 1
iterations = 40
"""
OPEN_VSWITCH = 4
"""Processes in which a kernel carries its own, from when it has started Open vSwitch: its first, both daemons, and one that it keeps."""


def until(happened: Callable[[], object], what: str) -> None:
    """Waits for a state of the machine."""
    end_s = time.monotonic() + LIMIT_S
    while not happened():
        assert time.monotonic() < end_s, f"not within {LIMIT_S:g} s: {what}"
        time.sleep(POLL_S)


@contextmanager
def running(folder: Path, **options: int) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose kernel is up and has not ended."""
    (folder / "stopped.toml").write_text(SCENARIO)
    command = [sys.executable, "-m", "gradwire", "run", "stopped.toml", "--out", "results"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    with subprocess.Popen(command, cwd=folder, env=environment, **options) as process:  # type: ignore[call-overload]
        try:
            boxes = f"results/points/*/{BOX_NAME}"
            until(lambda: list(folder.glob(boxes)) or process.poll() is not None, "a kernel that boots")
            until(lambda: len(descended_from(process.pid)) > 2 + OPEN_VSWITCH, "a kernel with processes of its own")
            yield process
        finally:
            signalled(descended_from(process.pid), signal.SIGKILL)


def row(folder: Path) -> dict[str, str]:
    """The only row of points.csv, without what the wall clock says."""
    with (folder / "results" / "points.csv").open() as file:
        (found,) = csv.DictReader(file)
    del found["wall_s"]
    return found


@pytest.fixture(scope="module")
def undisturbed(virtual_kernel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with running(folder) as process:
        assert process.wait(LIMIT_S) == 0
    return row(folder)


def children_first(pids: list[int]) -> list[int]:
    return pids[::-1]


def parents_first(pids: list[int]) -> list[int]:
    return pids


def mixed(pids: list[int]) -> list[int]:
    return random.Random(7).sample(pids, len(pids))


@pytest.mark.parametrize("order", [children_first, parents_first, mixed])
def test_whatever_the_order_in_which_its_processes_go_on(
    undisturbed: dict[str, str], tmp_path: Path, order: Callable[[list[int]], list[int]]
) -> None:
    with running(tmp_path) as process:
        pids = descended_from(process.pid)
        signalled(pids, signal.SIGSTOP)
        until(lambda: is_stopped(process.pid), "the command stands still")
        signalled(order(pids), signal.SIGCONT)
        assert process.wait(LIMIT_S) == 0
    assert row(tmp_path) == undisturbed
    (completion,) = tmp_path.glob(f"results/points/*/{COMPLETION_FILE}")
    assert '"stopped": 1' in completion.read_text()
    assert "by a signal" in (tmp_path / "results" / "table.md").read_text()


def test_at_a_terminal_by_ctrl_z(undisturbed: dict[str, str], tmp_path: Path) -> None:
    """Ctrl-Z stops the command alone; its kernel goes on, and waits for it at the end."""
    terminal, of_command = pty.openpty()
    with os.fdopen(terminal, "rb+", buffering=0), os.fdopen(of_command, "rb+", buffering=0):
        streams = {"stdin": of_command, "stdout": of_command, "stderr": of_command, "process_group": 0}
        with running(tmp_path, **streams) as process:
            os.killpg(process.pid, signal.SIGTSTP)
            until(lambda: is_stopped(process.pid), "the command stands still")
            os.killpg(process.pid, signal.SIGCONT)
            until(lambda: _drained(terminal) and process.poll() is not None, "the end of the command")
            assert process.returncode == 0
    assert row(tmp_path) == undisturbed


def _drained(terminal: int) -> bool:
    """Reads what was written to a terminal, which keeps only some kilobytes."""
    os.set_blocking(terminal, False)
    with suppress(BlockingIOError, OSError):
        while os.read(terminal, 1 << 16):
            pass
    return True
