"""`gradwire reproduce world` says what it does before its first point, on a terminal or not."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from gradwire.runs.executing.executor_choice import Where
from reproduction.world import command, predicting
from tests.shared.parts import tells


class Begun(Exception):
    """Where the first thing that takes long would begin."""


def begin(*_: object) -> NoReturn:
    raise Begun


def test_what_is_predicted_is_said_before_anything_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "make_kernel_ready", begin)
    with pytest.raises(Begun):
        command.reproduce_world(["world-pytorch_ddp"], Where(), tmp_path / "out", None)
    (line,) = capsys.readouterr().out.splitlines()
    assert tells(line, "4 printed values", "pytorch_ddp")


def test_what_is_run_and_estimated_is_said_before_the_first_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "make_kernel_ready", lambda _: False)
    monkeypatch.setattr(predicting.Predictions, "estimate", begin)
    with pytest.raises(Begun):
        command.reproduce_world(["world-pytorch_ddp"], Where(), tmp_path / "out", None)
    assert tells(capsys.readouterr().out, "8 scenarios", "packets", "44 by estimate")
