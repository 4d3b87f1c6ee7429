"""`gradwire diff` on run folders and on reproductions."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gradwire.runs.campaign import Campaign
from gradwire.runs.executing.executor import LocalPool
from gradwire.runs.stored.run_folder import write_run_folder
from gradwire.vm.machines import Clock
from tests.unit.runs.test_campaign import TEXT, Silent, good_job, machine, planned_runs

GATE = "iteration_time > 1%"


def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, good_job)
    write_run_folder(folder, tomllib.loads(TEXT), Clock())
    Campaign(planned_runs(folder), folder, LocalPool(1), Silent()).run()


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second = tmp_path / "runs" / "first", tmp_path / "runs" / "second"
    for folder in (first, second):
        made(folder, monkeypatch)
    return first, second


def test_runs_that_are_the_same(call: Any, two: tuple[Path, Path]) -> None:
    status, out, err = call("diff", "first", "second", "--fail-if", GATE)
    assert (status, err) == (0, "")
    assert out.startswith("2 of 2 points")
    assert "nothing" in call("diff", "first", "second", "--all")[1]


def test_a_point_that_became_invalid_fails_the_gate(call: Any, two: tuple[Path, Path]) -> None:
    first, second = two
    point = sorted((second / "points").iterdir())[0]
    (point / "completed.json").unlink()
    (point / "verdict.json").write_text('{"valid": false, "checks": [], "summary": "invalid: it broke"}')
    status, out, err = call("diff", str(first), str(second), "--fail-if", GATE)
    assert status == 1
    assert "invalid: it broke" in err
    assert "1 of 2 points" in out
    told = json.loads(call("diff", str(first), str(second), "--json")[1])
    assert [point["change"] for point in told["runs"][0]["points"]].count(None) == 1


def test_wrong_input_is_told(call: Any, two: tuple[Path, Path], tmp_path: Path) -> None:
    assert call("diff", "first", "third")[0] == 2
    assert "metrics: iteration_time" in call("diff", "first", "second", "--fail-if", "x > 1%")[2]
    (tmp_path / "runs" / "first" / "claims.csv").write_text("scenario,claim\n")
    assert "two of a kind" in call("diff", "first", "second")[2]


def test_two_reproductions_claim_by_claim(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, measured in (("before", "1"), ("after", "2")):
        made(tmp_path / name / "runs" / "some-scenario", monkeypatch)
        (tmp_path / name / "claims.csv").write_text(f"scenario,claim,measured,verdict\nsome,one,{measured},holds\n")
    status, out, _ = call("diff", "before", "after")
    assert status == 0
    assert "some/one" in out
    assert "all claims" in call("diff", "before", "before")[1]
