"""Commands in surroundings that lack what programs usually have: standard streams, a current folder, an encoding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shared.commands import gradwire_command
from tests.shared.snippets import ROOT

SCENARIO = """
title = "größe ✓ 网络"
cluster.workers = 2
model = { name = "alexnet", device = "k40" }
strategy.name = "ring"
fabric.rate = "10gbit"
"""
COMMANDS = ("--version", "--help", "scenarios", "models --json", "explain ring", "plan own.toml", "estimate own.toml")
CLOSINGS = (">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-", "> /dev/full", "| true")


def said(command: str, folder: Path, around: str, **variables: str) -> tuple[int, str]:
    """The exit status of a command in a shell, and all that it wrote where it could."""
    line = f"set -o pipefail; {sys.executable} -m gradwire {command} {around}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, check=False, timeout=300
    )
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(SCENARIO, encoding="utf-8")
    return tmp_path


def is_orderly(text: str) -> bool:
    return not any(words in text for words in ("Traceback", "Exception ignored", "lost sys.stderr"))


def each_with_one_in_turn() -> list[Any]:
    """All closings with a command that imports little; `make test` tries each with one of the others, in turn."""
    tried = [pytest.param("--version", around) for around in CLOSINGS]
    for turn, command in enumerate(("scenarios", "plan own.toml")):
        for number, around in enumerate(CLOSINGS):
            tried.append(pytest.param(command, around, marks=[] if (number + turn) % 2 == 0 else [pytest.mark.long]))
    return tried


@pytest.mark.parametrize(("command", "around"), each_with_one_in_turn())
def test_streams_that_are_closed_or_full(folder: Path, command: str, around: str) -> None:
    status, text = said(command, folder, around)
    assert is_orderly(text), text
    full = around in ("> /dev/full", "| true")  # a pipe may end before or after the command
    assert status in ((0, 3, 141) if full else (0,)), text


@pytest.mark.parametrize("command", COMMANDS)
def test_an_encoding_that_lacks_most_characters(folder: Path, command: str) -> None:
    status, text = said(command, folder, "", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (status, is_orderly(text)) == (0, True), text
    assert text.isascii() or command == "models --json"


@pytest.fixture
def gone(tmp_path: Path) -> Path:
    """A folder that is there until a command is in it."""
    (tmp_path / "gone").mkdir()
    return tmp_path / "gone"


def test_python_starts_in_a_current_folder_that_is_gone(gone: Path) -> None:
    line = f"rmdir {gone}; {sys.executable} -m gradwire plan own.toml"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", line], cwd=gone, env=environment, capture_output=True, text=True, check=False)
    assert is_orderly(done.stderr), done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    "command", [*COMMANDS, "map own.toml --over fabric.rate=1gbit,2gbit --over run.seed=1,2", "exec -- true"]
)
def test_a_current_folder_that_is_gone(gone: Path, command: str) -> None:
    done = gradwire_command(*command.split(), cwd=gone, gone=True)
    assert not gone.exists()
    assert is_orderly(done.stderr), done.stderr
    assert done.returncode in (0, 2), done.stderr


def test_a_child_does_not_write_into_a_file_that_took_a_streams_number(folder: Path) -> None:
    status, _ = said("estimate own.toml --out rows.csv", folder, ">&- 2>&-")
    lines = (folder / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert (status, len(lines)) == (0, 2)
