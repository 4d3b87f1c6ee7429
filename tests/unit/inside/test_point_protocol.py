"""Messages between the halves of the run loop: which lines are events, and files of other versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradwire.agents.connections import SocketOptions
from gradwire.faults import InternalFault
from gradwire.inside.point_protocol import (
    Event,
    Faulted,
    FirstByte,
    Iterated,
    PlanFile,
    PointRecorded,
    PointTask,
    ReplayNote,
    heard,
    read_json,
    say,
    write_json,
)
from gradwire.network.fabric import Fabric, MulticastGroup
from tests.unit.runs.test_campaign import record

FABRIC = Fabric(hosts=3, rate_bps=1e9, groups=(MulticastGroup(0, (1, 2)),))
LEAST_TASK = {
    "fabric": FABRIC.to_json(),
    "plans": [["coarse", "plan-0.npz"], ["fine", "plan-1.npz"]],
    "iterations": 4,
    "warmup": 1,
    "search_iterations": 1,
    "sockets": {"buffer_bytes": 4194304, "unsent_bytes": 1048576},
    "per_host": False,
    "clock": "virtual",
    "switch_prefix": "",
}
"""A task that says nothing which has a default."""


@pytest.mark.parametrize(
    "event", [FirstByte(), Iterated(3), PointRecorded("coarse"), Faulted("AgentDied", 'agent 0\ndied: "é"')]
)
def test_an_event_is_one_line_and_comes_back(event: Event, capsys: pytest.CaptureFixture[str]) -> None:
    say(event)
    line, end = capsys.readouterr().out.split("\n")
    assert end == ""
    assert heard(line) == event


@pytest.mark.parametrize(
    "line",
    ["", "Traceback (most recent call last):", '{"command": "go"}', '{"event": "iter', '{"event":"done","plan":'],
)
def test_other_lines_and_broken_ones_are_no_events(line: str) -> None:
    assert heard(line) is None


@pytest.mark.parametrize("line", ['{"event": "unheard of"}', '{"event": "iteration", "done": "3"}'])
def test_an_event_that_nobody_defined_is_a_bug(line: str) -> None:
    with pytest.raises(InternalFault, match="not an event"):
        heard(line)


def test_a_task_is_read_without_what_has_a_default(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text(json.dumps(LEAST_TASK))
    task = read_json(tmp_path / "task.json", PointTask)
    assert (task.fabric, task.capture, task.sockets) == (FABRIC, (), SocketOptions(4194304, 1048576))
    assert task.plans == (PlanFile("coarse", "plan-0.npz"), PlanFile("fine", "plan-1.npz"))
    assert task.plan_file("fine") == "plan-1.npz"
    write_json(tmp_path / "again.json", task)
    again = json.loads((tmp_path / "again.json").read_text())
    assert again == {
        **LEAST_TASK,
        "capture": [],
        "capture_snaplen": 160,
        "programs": False,
        "faults": [],
        "stall_limit_ns": 0,
        "queue_period_ns": 0,
        "controller_app": "",
        "compiled_agent": "",
    }


def test_a_message_comes_back_from_its_file(tmp_path: Path) -> None:
    note = ReplayNote(2, record(4, 1).counts)
    write_json(tmp_path / "note.json", note, indent=1)
    assert read_json(tmp_path / "note.json", ReplayNote) == note
    assert (tmp_path / "note.json").read_text().endswith("\n}\n")
