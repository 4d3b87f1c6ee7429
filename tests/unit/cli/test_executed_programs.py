"""What is shown of the folder of a `gradwire exec`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.cli.stored_runs import trace, why
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.runs.ran_programs import executed_in
from gradwire.runs.stored.run_folder import run_folder
from tests.shared.parts import tells

COUNTS: dict[str, Any] = {
    "bands": [{"port": "h1-eth0", "band": 1, "bytes_sent": 5000, "packets_sent": 4, "drops": 0}],
    "tcp_segments_sent": 4,
    "tcp_retransmits": 1,
    "upcalls": 0,
    "table_miss_packets": 0,
}
REPORT = {
    "event": "report",
    "duration_s": 0.5,
    "timed_out": False,
    "counts": COUNTS,
    "killed_for_memory": 0,
}
SUMMARY: dict[str, Any] = {
    "command": [["sh"]],
    "statuses": {"h1": 3},
    "failed": "h1",
    "wall_s": 1.0,
    "memory_bytes": 1000,
    "report": REPORT,
}


def run_in(folder: Path, summary: Any = SUMMARY, task: Any = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "task.json").write_text(json.dumps(task or {"fabric": Fabric(2, 10e9).to_json(), "folder": "/"}))
    return folder


def test_what_the_network_carried_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why(run_in(tmp_path / "run"), "", None, every=False)
    said = capsys.readouterr().out
    assert all(part in said for part in ("0.500000 s", "h1-eth0", "1 TCP"))
    assert tells(said, "h1", "status 3")


@pytest.mark.parametrize(
    ("point", "iteration", "said"), [("all", None, "has no points; leave 'all' out"), ("", 2, "--iteration 2")]
)
def test_what_only_other_runs_have_is_refused(tmp_path: Path, point: str, iteration: int | None, said: str) -> None:
    with pytest.raises(InputFault, match=said):
        why(run_in(tmp_path / "run"), point, iteration, every=False)


def test_a_trace_needs_packets(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="--capture h1"):
        trace(run_in(tmp_path / "run"), "", None, None)


def test_a_mininet_script_and_other_folders_are_told_apart(tmp_path: Path) -> None:
    assert executed_in(tmp_path) is None
    folder = run_in(tmp_path / "run", task={"script": "lab.py"})
    with pytest.raises(InputFault, match="a Mininet script"):
        executed_in(folder)
    with pytest.raises(InputFault, match="no points"):
        run_folder(folder)
    (folder / "scenario.toml").touch()
    assert executed_in(folder) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [],
        {**SUMMARY, "wall_s": -1},
        {**SUMMARY, "failed": "nobody"},
        {**SUMMARY, "report": {**REPORT, "duration_s": 1e300}},
        {**SUMMARY, "report": {**REPORT, "counts": {**COUNTS, "tcp_retransmits": -1}}},
        {**SUMMARY, "report": {**REPORT, "counts": {**COUNTS, "bands": [{**COUNTS["bands"][0], "port": "h9-eth0"}]}}},
    ],
)
def test_files_from_others_that_are_wrong_are_named(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InputFault, match=r"summary\.json"):
        why(run_in(tmp_path / "run", wrong), "", None, every=False)
    (tmp_path / "run" / "link").symlink_to("/etc/passwd")
    with pytest.raises(InputFault, match="is a link"):
        why(tmp_path / "run", "", None, every=False)
