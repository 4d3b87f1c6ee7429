"""docs/python.md: its blocks, one after another in one namespace, on a made-up machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gradwire
from gradwire.api.run import Run
from gradwire.workloads.strategy_registry import REGISTERED
from tests.shared.command_line import needs_no_kernel
from tests.shared.snippets import ROOT, snippets
from tests.unit.runs.stored.test_named_run import replaying_job
from tests.unit.runs.test_campaign import machine

GUIDE = ROOT / "docs" / "python.md"


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the guide's blocks leave behind."""
    monkeypatch.chdir(tmp_path)
    machine(monkeypatch, replaying_job)
    needs_no_kernel(monkeypatch)
    left: dict[str, Any] = {"__name__": "guide"}
    for snippet in snippets(GUIDE):
        if snippet.language == "python":
            exec(compile(snippet.text, snippet.place, "exec"), left)
    REGISTERED.clear()
    return left


def test_the_guide_runs_and_names_every_column(namespace: dict[str, Any], tmp_path: Path) -> None:
    run: Run = namespace["run"]
    assert run.valid
    assert len(run.points) == len(namespace["again"].points) == 4
    assert (tmp_path / "alexnet.pdf").stat().st_size > 0
    table = GUIDE.read_text().split("| columns | what they are |")[1].split("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    assert named == set(namespace["ops"].columns)
    assert len(namespace["longest"]) == 5


def test_the_guide_names_every_function_and_method() -> None:
    text = GUIDE.read_text()
    functions = {name for name in gradwire.__all__ if name.islower() and name not in ("faults", "plugin")}
    assert {name for name in functions if f"gradwire.{name}(" not in text} == set()
    methods = {name for name in vars(Run) if not name.startswith("_")} - {"title", "report"}
    assert {name for name in methods if f"run.{name}" not in text} == set()
