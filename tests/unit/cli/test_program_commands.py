"""`gradwire exec` and `gradwire shell` on the command line: what is the program's and what is ours, and what is refused before a boot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from gradwire.cli import command_line, user_programs
from gradwire.cli.user_work_commands import PROGRAM

SIZE = ("--workers", "2", "--rate", "10gbit")


@pytest.fixture(autouse=True)
def _no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def boot(_: Any) -> None:
        raise AssertionError("the kernel is asked for")

    monkeypatch.setattr(user_programs, "make_kernel_ready", boot)


def test_what_follows_two_dashes_is_the_programs_own() -> None:
    group: Any = typer.main.get_command(command_line.app)
    words = ["small.toml", "--hosts", "h1", "--", "iperf3", "-c", "--", "--help"]
    context = group.commands["exec"].make_context("exec", words)
    assert context.meta[PROGRAM] == ("iperf3", "-c", "--", "--help")
    assert (str(context.params["scenario"]), context.params["hosts"]) == ("small.toml", "h1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*SIZE,), "which program? Give it after --"),
        (("hostname", *SIZE), "which program? Give it after --"),
        (("--", "hostname"), "which network?"),
        ((*SIZE, "--", "no-such-program"), "no such program on the PATH"),
        ((*SIZE, "--hosts", "h3", "--", "hostname"), "hosts are h1 to h2"),
        ((*SIZE, "--launch", "slurm", "--", "hostname"), "must be one of each, torch, mpi"),
        ((*SIZE, "--memory", "1M", "--", "hostname"), "need 512 MiB"),
        ((*SIZE, "--time-limit", "soon", "--", "hostname"), "--time-limit soon"),
        ((*SIZE, "--capture", "h9", "--", "hostname"), "'h9'"),
    ],
)
def test_what_is_wrong_is_told_in_one_message_before_anything_boots(
    call: Any, words: tuple[str, ...], said: str
) -> None:
    status, out, err = call("exec", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("error") == 1


def test_a_folder_with_files_is_not_written_to(call: Any, tmp_path: Any) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    status, _, err = call("exec", *SIZE, "--out", "mine", "--", "hostname")
    assert status == 2
    assert "is not empty" in err


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_folder_is_not_written_to(call: Any, tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "mine")
    status, _, err = call("exec", *SIZE, "--out", "mine", "--", "hostname")
    assert (status, "mine" in err, "--out" in err) == (2, True, True)


def test_a_shell_needs_a_network(call: Any) -> None:
    status, _, err = call("shell")
    assert status == 2
    assert "which network?" in err


def test_the_help_shows_where_the_program_goes(call: Any) -> None:
    status, out, _ = call("exec", "--help")
    assert status == 0
    assert "-- PROGRAM [ARGS]..." in " ".join(out.split())
