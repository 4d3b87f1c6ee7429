"""Places that the user may not read or write: one line and status 2, whichever command meets them. Also Ctrl-C while gradwire starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gradwire import __main__
from gradwire.cli import command_line
from tests.shared.commands import gradwire_command

MINIMAL = """
title = "A test"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "ring"
"""
UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""For root: without the capabilities that pass over permissions."""


@pytest.fixture
def locked(tmp_path: Path) -> Any:
    """A folder with a scenario in it that nobody may enter, and beside it a file that nobody may read and a scenario that all may."""
    for name in ("locked/scenario.toml", "secret.toml", "open.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(MINIMAL)
    (tmp_path / "secret.toml").chmod(0)
    (tmp_path / "locked").chmod(0)
    yield tmp_path
    (tmp_path / "locked").chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "locked/scenario.toml"),
        ("plan", "secret.toml"),
        ("run", "open.toml", "--out", "locked/out"),
        ("report", "locked"),
        ("why", "locked", "p"),
        ("utilisation", "locked", "p"),
        ("trace", "locked", "p"),
        ("trace", "open", "p", "--out", "locked/trace.json"),
    ],
    ids=" ".join,
)
def test_a_place_without_permission_is_one_line_that_names_it(locked: Path, words: tuple[str, ...]) -> None:
    prefix = UNPRIVILEGED if os.geteuid() == 0 else ()
    ended = gradwire_command(*words, cwd=locked, prefix=prefix)
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert line.startswith("error (input): ")
    assert any(name in line for name in ("locked", "secret.toml"))
    assert "Permission denied" in line


def test_ctrl_c_while_gradwire_is_imported_or_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["gradwire", "strategies"])
    for place, name in (
        (command_line.Commands, "invoke"),
        (command_line.Commands, "make_context"),
        (command_line, "main"),
    ):
        with monkeypatch.context() as patched:
            parent = place.__mro__[1] if isinstance(place, type) else place
            patched.setattr(parent, name, interrupted)
            with pytest.raises(SystemExit) as ended:
                __main__.main()
        assert ended.value.code == 130
        assert capsys.readouterr().err == "interrupted\n"
