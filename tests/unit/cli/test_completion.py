"""Completion in real shells: the script that is printed, the one that is installed, and what gradwire answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import shellingham

from gradwire.cli.completion import SHELLS
from tests.shared.command_line import gradwire_says

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
