"""What is tried before the first point runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import UnfitMachine
from gradwire.runs.launch import machine_trial as module
from gradwire.runs.launch.machine_trial import trial_on
from gradwire.vm.code_digest import machine_modules
from gradwire.vm.machines import Clock


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cached_kernel", lambda: Path("kernel"))


def test_only_the_virtual_clock_has_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module, "try_kernel", lambda *words: tried.append(words))
    monkeypatch.setattr(module, "require_root", lambda: None)
    trial_on(Clock("wall", 200))(1024)
    assert tried == []
    monkeypatch.setattr(module, "byte_code_folder", tried.append)
    trial_on(Clock())(1024)
    assert tried == [(Path("kernel"), 1024), machine_modules()]


def test_a_cache_that_cannot_be_written_is_found_before_the_first_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise UnfitMachine("not writable")

    monkeypatch.setattr(module, "try_kernel", lambda *_: 0.3)
    monkeypatch.setattr(module, "byte_code_folder", fail)
    with pytest.raises(UnfitMachine, match="not writable"):
        trial_on(Clock())(1024)
