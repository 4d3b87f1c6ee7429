"""Points compiled in processes: the same plans in the same order, each compiled once, and no process left when the caller stops."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from gradwire import PACKAGE
from gradwire.faults import InputFault, MachineFault
from gradwire.runs import planned
from gradwire.runs.compiling import many_points as shared_plans
from gradwire.runs.compiling.many_points import side_by_side
from gradwire.runs.planned import plan_runs, planning
from gradwire.scenario.loading import Scenario, resolve
from gradwire.scenario.resolution.compilation import compile_plans
from gradwire.vm.machines import Clock
from tests.shared.parts import in_order

DOCUMENT: dict[str, Any] = {
    "title": "small",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "ring"},
}
SWEEP = {"fabric.rate": ["1gbit", "10gbit", "100gbit"], "strategy.name": ["ring", "vanilla", "kvstore"]}


@pytest.fixture(autouse=True)
def _in_processes_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "ALONE_S", -1.0)


def swept() -> Scenario:
    return resolve({**DOCUMENT, "sweep": SWEEP}, "test", "small")


def test_points_come_in_their_order_with_the_same_plans_and_keys(tmp_path: Path) -> None:
    points = swept().points
    one_by_one, in_processes = (plan_runs(points, tmp_path, Clock(), jobs) for jobs in (1, 2))
    assert [run.point.parameters for run in in_processes] == [point.parameters for point in points]
    assert [run.key for run in in_processes] == [run.key for run in one_by_one]
    assert [run.folder for run in in_processes] == [run.folder for run in one_by_one]


def test_points_that_differ_in_their_rate_alone_share_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def noted(point: Any, job: Any) -> Any:
        compiled.append(point.strategy.name)
        return compile_plans(point, job)

    monkeypatch.setattr(shared_plans, "compile_plans", noted)
    runs = list(planning(swept().points, tmp_path, Clock()))
    assert sorted(compiled) == ["kvstore", "ring", "vanilla"]
    assert len({run.key for run in runs}) == len(runs)


def test_the_first_wrong_point_is_told_and_no_process_goes_on(tmp_path: Path) -> None:
    document = {**DOCUMENT, "sweep": {"cluster.workers": [2, 4], "strategy.name": ["ring", "no-such"]}}
    with pytest.raises(InputFault, match="no-such"):
        plan_runs(resolve(document, "test", "small").points, tmp_path, Clock(), 2)
    assert not multiprocessing.active_children()


def waits_for_ever(number: int) -> int:
    if number:
        signal.pause()
    return number


def test_who_stops_asking_does_not_wait() -> None:
    results: Iterator[int] = side_by_side(waits_for_ever, [0, 1, 2, 3], jobs=3)
    assert next(results) == 0
    assert multiprocessing.active_children()
    results.close()  # type: ignore[attr-defined]
    # The pool may start another process while it is being closed, which ends as the others do.
    while children := multiprocessing.active_children():
        for child in children:
            child.join()


def sends_a_half(part: tuple[int, int, int]) -> int:
    """Of the second part, once something is in a pipe, the first byte of its result, and then something into another."""
    number, go, begun = part

    def begin(connection: Connection, message: bytes) -> None:
        os.write(connection.fileno(), struct.pack("!i", len(message)) + message[:1])
        os.write(begun, b"begun")
        signal.pause()

    if number:
        Connection._send_bytes = begin  # type: ignore[attr-defined] # in this process alone
        os.read(go, 1)
    return number


def test_who_stops_asking_in_the_middle_of_a_result_does_not_wait() -> None:
    (go, start), (has_begun, begun) = os.pipe(), os.pipe()
    before = set(threading.enumerate())
    results: Iterator[int] = side_by_side(sends_a_half, [(0, go, begun), (1, go, begun)], jobs=2)
    assert next(results) == 0
    os.write(start, b"!")
    assert os.read(has_begun, 5) == b"begun"
    reading = set(threading.enumerate()) - before
    results.close()  # type: ignore[attr-defined]
    assert reading
    for thread in reading:
        thread.join(60)
        assert not thread.is_alive()


def ends_its_process(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_killed_process_is_a_fault_of_the_machine() -> None:
    with pytest.raises(MachineFault, match=in_order("2 processes", "killed")):
        list(side_by_side(ends_its_process, [0, 1, 2], jobs=2))


PROGRAM = """
import os, signal, sys
from gradwire.runs.compiling.many_points import side_by_side
signal.signal(signal.SIGINT, signal.default_int_handler)
def work(number):
    os.write(1, b"at work\\n")  # whole, whatever the other process writes
    signal.pause()
try:
    list(side_by_side(work, [1, 2], jobs=2))
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


def test_an_interrupt_of_the_whole_group_leaves_one_line() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert program.stdout
    assert list(itertools.islice(program.stdout, 2)) == ["at work\n"] * 2
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    assert errors == "interrupted\n"
    assert program.returncode == 1
