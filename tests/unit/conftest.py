"""What tests of several folders begin with."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.shared.command_line import gradwire_says


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Runs the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return partial(gradwire_says, monkeypatch, capsys)
