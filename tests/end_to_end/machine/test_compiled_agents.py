"""Compiled agents in the virtual-time kernel: its lists of calls, and runs beside those of agents in Python."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from gradwire.analysis.iterations import iteration_times_s
from gradwire.datatypes.records import OpLog
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.vm.batch_job import run_virtual
from gradwire.vm.machine import Boot
from tests.end_to_end.machine.lists import EAGAIN, EFAULT, ENOSYS, MESSAGES, NOT_MADE, READING_NS
from tests.end_to_end.test_point import gradwire
from tests.shared.points_csv import read_points_csv

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

PROGRAM = Path(__file__).with_name("lists.py")
LATEST_NS = 2_000
"""How far the same op may be from itself: whether another timer of the machine is half a microsecond before an op's depends on what was
done before the replay. Where flows share a port for long, which of them is ahead in the middle does too, and their ends do not."""
DRIFT = 2e-5
"""Of the time since the start: TCP reads the clock for nothing in the compiled agent's lists of calls, and for 16 ns in calls of Python
(um-free-reads.patch). 45 us in 2.8 s were seen."""


def test_a_list_of_calls_is_what_its_calls_are_alone(virtual_kernel: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    status = run_virtual(
        Boot(
            [sys.executable, str(PROGRAM)],
            env={},
            cpu=max(os.sched_getaffinity(0)),
            memory_mb=512,
            workdir=tmp_path,
            openvswitch=False,
            kernel=virtual_kernel,
        ),
        time_limit_s=100,
        on_line=lines.append,
    )
    assert status == 0, lines
    tried = json.loads(lines[-1])
    pid = tried["pid"]
    assert tried["none"] == [0, []]
    assert tried["results"] == [4, [pid, 2, -ENOSYS, -EAGAIN]]
    assert tried["expected"] == [4, [pid, NOT_MADE, pid, NOT_MADE]]
    assert tried["news"] == [2, [pid, pid, NOT_MADE, NOT_MADE]]
    assert tried["no news"] == [2, [pid, pid]]
    assert tried["fault"] == [-EFAULT, [-EFAULT, NOT_MADE]]
    assert tried["no list"] == [-1, [EFAULT]]
    # Of two pipes one has five bytes, and nothing is to be called for the other.
    assert tried["ready"][1][0] == 1
    assert tried["read"] == [5, [NOT_MADE, *b"abc", 0, 0]]
    assert tried["other events"][1][0] == 1
    assert tried["not read"][0] == NOT_MADE
    # A call that fails takes a microsecond, and one that asks for the time 16 ns.
    in_a_list, (alone,) = tried["time"]
    assert in_a_list == alone
    # TCP reads the clock when it hands over a message, and when one is read: in a list, that takes no time.
    in_a_list, (alone,) = tried["tcp"]
    assert in_a_list == READING_NS
    assert alone >= READING_NS * (1 + 2 * MESSAGES)


def run(folder: Path, code: str, settings: tuple[str, ...]) -> StoredRun:
    out = folder / code
    done = gradwire(
        *(
            "run",
            "geryon-table2",
            "--out",
            str(out),
            "--set",
            "run.iterations=1",
            "--set",
            "run.warmup=1",
            "--set",
            "cluster.workers=4",
            "--set",
            f"transport.agent_code={code}",
        ),
        *(word for each in settings for word in ("--set", each)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = read_points_csv(out / "points.csv")
    assert row.valid, row.verdict
    (point,) = (out / "points").iterdir()
    return StoredRun(point)


def sorted_ends(log: OpLog) -> np.ndarray:
    return log.end_ns[np.lexsort((log.op, log.iteration))]


@pytest.mark.parametrize(
    "settings",
    [
        ("model.name=resnet50", "strategy.name=ring"),
        ("model.name=resnet50", "strategy.name=p3", "transport.send_ends=buffered"),
        ("model.name=alexnet", "strategy.name=geryon", "transport.agents=per-host"),
        ("model.name=alexnet", "strategy.name=tictac"),
        (
            "model.name=resnet50",
            "strategy.name=ring",
            'costs.compute_while_communicating={ value = 0.6, source = "a test" }',
        ),
    ],
)
def test_a_run_is_the_same_with_agents_in_python(tmp_path: Path, settings: tuple[str, ...]) -> None:
    compiled, in_python = (run(tmp_path, code, settings) for code in ("compiled", "python"))
    for stored, code in ((compiled, "compiled"), (in_python, "python")):
        assert {agent.code for agent in stored.record().agents} == {code}
    logs = [stored.log() for stored in (compiled, in_python)]
    ends_ns = [sorted_ends(log) for log in logs]
    assert len(ends_ns[0]) == len(ends_ns[1])
    if "model.name=resnet50" in settings:
        assert np.median(np.abs(ends_ns[0] - ends_ns[1]) - DRIFT * ends_ns[0]) <= LATEST_NS
    plan = compiled.plan()
    times_s = [iteration_times_s(plan, log, 2) for log in logs]
    assert times_s[0] == pytest.approx(times_s[1], rel=5e-4)
