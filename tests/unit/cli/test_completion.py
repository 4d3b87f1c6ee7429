"""Completion in real shells: the script that is printed, the one that is installed, and what gradwire answers."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import shellingham

from gradwire.cli import completion_files
from gradwire.cli.completion import SHELLS
from gradwire.cli.completion_files import SCRIPTS
from tests.shared.command_line import gradwire_says

OWN = {**completion_files.OWN, "fish": SCRIPTS["fish"]}
"""The file of each shell that a user may have put something else in the place of."""
BIN = Path(sys.executable).parent
INSTALLED = ("bash", "zsh", "fish")


def in_shell(shell: str, script: str, home: Path) -> str:
    """What a script prints in a shell that finds this gradwire."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home)}
    return subprocess.run([shell, "-c", script], env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("shell", INSTALLED)
def test_the_shell_is_found_out(shell: str, tmp_path: Path) -> None:
    # A second command, or the shell would put gradwire in its own place.
    found = in_shell(shell, "gradwire --show-completion; true", tmp_path)
    assert f"_GRADWIRE_COMPLETE=complete_{shell}" in found
    assert found == in_shell("bash", f"gradwire --show-completion {shell}", tmp_path)


@pytest.mark.parametrize("shell", INSTALLED)
def test_completion_is_installed_in_the_home_of_the_user(shell: str, tmp_path: Path) -> None:
    said = in_shell(shell, "gradwire --install-completion; true", tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and str(path) in said]
    assert [f"complete_{shell}" in file.read_text() for file in files] == [True]


def test_bash_completes_commands_and_scenarios(tmp_path: Path) -> None:
    script = (
        'eval "$(gradwire --show-completion bash)"\n'
        'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gradwire_completion gradwire; echo ${COMPREPLY[@]}; }\n'
        "ask gradwire ru; ask gradwire run geryon-table"
    )
    commands, scenarios = in_shell("bash", script, tmp_path).splitlines()
    assert commands == "run"
    assert scenarios.split() == ["geryon-table2", "geryon-table3", "geryon-table4"]


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
@pytest.mark.parametrize("found", [shellingham.ShellDetectionFailure(), ("ksh", "/bin/ksh")])
def test_a_shell_that_cannot_be_found_out_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, found: object
) -> None:
    def detect() -> object:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(shellingham, "detect_shell", detect)
    status, out, err = gradwire_says(monkeypatch, capsys, option)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert f"{option} bash" in err


def test_a_shell_that_is_not_known_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = gradwire_says(monkeypatch, capsys, "--show-completion", "ksh")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert all(shell in err for shell in SHELLS)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("held", [b"alias x=y", b"# caf\xe9\n", b""])
def test_the_shells_own_file_keeps_what_it_has_and_gets_lines_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, shell: str, held: bytes
) -> None:
    own = home / OWN[shell]
    own.write_bytes(held)
    contents = []
    for _ in range(2):
        assert gradwire_says(monkeypatch, capsys, "--install-completion", shell)[0] == 0
        contents.append(own.read_bytes())
    assert contents[0] == contents[1]
    assert contents[0].startswith(held + b"\n")
    assert len(contents[0]) > len(held) + 20


@pytest.mark.parametrize("shell", OWN)
@pytest.mark.parametrize("number", range(5))
def test_what_is_no_file_is_refused_or_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, shell: str, number: int
) -> None:
    own = home / OWN[shell]
    own.parent.mkdir(parents=True, exist_ok=True)
    makers: list[Callable[[Path], object]] = [os.mkfifo, Path.mkdir, _socket]
    makers += [lambda path: path.symlink_to(path), lambda path: path.symlink_to("/dev/null")]
    makers[number](own)
    status, _, err = gradwire_says(monkeypatch, capsys, "--install-completion", shell)
    assert (status, str(own) in err) == (2, True) or (status == 0 and own.is_file())


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_full_disk_leaves_the_shells_own_file_as_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, shell: str
) -> None:
    held = b"alias x=y\n" * 100
    (home / OWN[shell]).write_bytes(held)
    write = os.write

    def full(file: int, data: bytes) -> int:
        """Takes a part, as a disk does that has little room left, and then nothing."""
        if os.fstat(file).st_size > len(held):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:10])

    monkeypatch.setattr(os, "write", full)
    assert gradwire_says(monkeypatch, capsys, "--install-completion", shell)[0] == 3
    assert (home / OWN[shell]).read_bytes() == held


def _nobody(number: int) -> NoReturn:
    raise KeyError(number)


@pytest.mark.parametrize("value", ["relative", None])
def test_without_a_home_nothing_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str | None, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    if value is None:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", _nobody)
    else:
        monkeypatch.setenv("HOME", value)
    status, _, err = gradwire_says(monkeypatch, capsys, "--install-completion", "bash")
    assert (status, "HOME" in err, list(tmp_path.iterdir())) == (2, True, [])


def test_a_profile_that_only_the_shell_knows_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    status, _, err = gradwire_says(monkeypatch, capsys, "--install-completion", "pwsh")
    assert (status, "--show-completion pwsh" in err, list(home.iterdir())) == (2, True, [])
