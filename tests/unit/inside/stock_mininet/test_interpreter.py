"""The Python and the Mininet of a script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.programs.interpreter import interpreter_of, own_interpreter


def test_ours_has_mininet_and_mn() -> None:
    own = own_interpreter()
    assert (own.mininet / "net.py").is_file()
    assert own.python == Path(sys.executable)
    assert own.mn is not None


def test_another_keeps_its_name() -> None:
    """A virtual environment is known by the path that its Python is called by."""
    found = interpreter_of(sys.executable, os.defpath)
    assert (found.python, found.mininet) == (Path(sys.executable), own_interpreter().mininet)


def test_a_python_without_mininet_gets_ours(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    assert interpreter_of(str(bare), os.defpath).mininet == own_interpreter().mininet


@pytest.mark.parametrize(
    ("python", "why"),
    [("nowhere", "no such program"), ("true", "does not answer as one"), ("false", "ended with status 1")],
)
def test_what_is_no_python_is_refused(python: str, why: str) -> None:
    with pytest.raises(InputFault, match=why):
        interpreter_of(python, os.defpath)


@pytest.mark.parametrize("answer", ["[1, 2]", '["", null]', "[]", "3", "[" * 50_000])
def test_what_answers_something_else_is_no_python(tmp_path: Path, answer: str) -> None:
    other = tmp_path / "python"
    other.write_text(f"#!/bin/sh\necho '{answer}'\n")
    other.chmod(0o755)
    with pytest.raises(InputFault, match="does not answer as one"):
        interpreter_of(str(other), os.defpath)
