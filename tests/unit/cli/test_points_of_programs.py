"""What `why` and `trace` tell of runs of programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.datatypes.pauses import PAUSES_FILE, PauseEvents
from gradwire.runs.stored.run_folder import folder_name, write_run_folder
from gradwire.scenario.program_scenarios import programs_of
from gradwire.vm.machines import Clock
from tests.shared.parts import tells
from tests.unit.runs.test_program_verdicts import paused, stored

CONTENT: dict[str, Any] = {
    "title": "programs",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit", "lossless": {}},
    "program": {"client": {"command": "ask", "hosts": ["h2"]}},
}


def made(folder: Path, content: dict[str, Any]) -> Path:
    """A run folder with one point, of which h1 was paused seven times; returns the point's."""
    scenario = programs_of(content)
    write_run_folder(folder, scenario.document, Clock())
    point = folder / "points" / folder_name(scenario.points[0])
    point.mkdir(parents=True)
    return stored(point, paused(7, 7))


@pytest.fixture
def point(tmp_path: Path) -> Path:
    """One that paused, and kept when."""
    ports = ("h1-eth0", "s1-eth1", "h2-eth0", "s1-eth2")
    times = np.array([1_000_000, 1_500_000])
    folder = made(tmp_path / "run", CONTENT)
    PauseEvents(ports, times, np.array([1, 1]), np.array([1, 1]), np.array([1, 0])).save(folder / PAUSES_FILE)
    return folder


def test_why_tells_what_ports_carried_and_who_paused_whom(call: Any, point: Path) -> None:
    status, out, err = call("why", str(point.parents[1]), "10gbit")
    assert (status, err) == (0, "")
    for text in ("0.010000 s from the start of the first program", "h1-eth0", "10gbit", "paused 7 times, for 1.000 ms"):
        assert text in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith(" h1 out  s1-eth1")]
    assert row[3:] == ["0", "7", "1.000", "100.0", "40%"]


def test_a_trace_has_each_pause(call: Any, point: Path) -> None:
    status, out, err = call("trace", str(point.parents[1]), "10gbit")
    assert (status, err) == (0, "")
    assert "3 events" in out
    written = json.loads((point / "trace.json").read_text())
    named, begins, ends = written["traceEvents"]
    assert named["args"] == {"name": "network: pauses"}
    assert begins["name"] == ends["name"]
    assert tells(begins["name"], "h1 out", "s1-eth1", "class 0")
    assert (begins["ts"], ends["ts"]) == (1000.0, 1500.0)
    assert "iteration" not in written["otherData"]


@pytest.mark.parametrize("command", ["why", "trace"])
def test_programs_have_no_iterations(call: Any, point: Path, command: str) -> None:
    status, _, err = call(command, str(point.parents[1]), "10gbit", "--iteration", "1")
    assert status == 2
    assert tells(" ".join(err.split()), "--iteration 1:", "programs")


def test_a_run_without_the_file_says_how_to_have_it(call: Any, point: Path) -> None:
    (point / PAUSES_FILE).unlink()
    status, _, err = call("trace", str(point.parents[1]), "10gbit")
    assert status == 2
    assert tells(" ".join(err.split()), "`gradwire run`", "`gradwire reproduce`")


def test_pauses_of_another_network_are_refused(call: Any, point: Path) -> None:
    none = np.array([], dtype=np.int64)
    PauseEvents(("h9-eth0",), none, none, none, none).save(point / PAUSES_FILE)
    status, _, err = call("trace", str(point.parents[1]), "10gbit")
    assert status == 4  # a file of this machine's own runs that is wrong is a defect of gradwire
    assert "ports" in " ".join(err.split())


def test_a_network_that_does_not_pause_has_no_trace_but_ports(call: Any, tmp_path: Path) -> None:
    made(tmp_path / "run", {**CONTENT, "fabric": {"rate": "10gbit"}})
    status, _, err = call("trace", str(tmp_path / "run"), "10gbit")
    assert status == 2
    assert "fabric.lossless" in err
    status, out, _ = call("why", str(tmp_path / "run"), "10gbit")
    assert status == 0
    assert "h1-eth0" in out
    assert "paused" not in out
