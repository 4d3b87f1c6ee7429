"""A run comes through the functions that docs/architecture.md lists, in that order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import gradwire
from gradwire.vm.kernel import CACHE_VARIABLE, cache_folder
from tests.shared.one_run import ROOT, one_run

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SCENARIO = {
    "title": "followed",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "p3"},
    "run": {"iterations": 1},
}


def in_order(wanted: Iterable[tuple[str, str]], entered: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What is wanted and was not entered after all that is wanted before it."""
    there = iter(entered)
    return [step for step in wanted if step not in there]


def test_steps_are_found_in_their_order_only() -> None:
    a, b = ("a.py", "f"), ("b.py", "g")
    assert in_order([a, b], [b, a, a, b]) == []
    assert in_order([a, b], [b, a]) == [b]


def forget_checked_plans(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with all that is in the user's, but the notes of plans that need not be checked again."""
    cache.mkdir()
    for path in cache_folder().iterdir():
        if path.name != "checked":
            (cache / path.name).symlink_to(path)
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))


def test_a_run_enters_what_the_documentation_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_checked_plans(tmp_path / "cache", monkeypatch)
    outside = [(step.file, step.name.rpartition(".")[2]) for step in one_run() if not step.is_inside]
    entered: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            step = (frame.f_code.co_filename[len(str(ROOT)) + 1 :], frame.f_code.co_name)
            if step in outside:
                entered.append(step)

    threading.setprofile(note)  # points run in threads
    sys.setprofile(note)
    try:
        run = gradwire.run(SCENARIO, out=tmp_path / "run", jobs=1, progress=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert run.valid
    assert in_order(outside, entered) == []
