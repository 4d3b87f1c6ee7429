"""What a copy of the process that reads a line tells of it."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradwire.faults import MachineFault
from gradwire.programs.keyboard import LineReader
from gradwire.programs.windows import CommandWindows


@pytest.fixture
def typed_at() -> Iterator[None]:
    """The input is a terminal."""
    before = os.dup(0)
    master, slave = pty.openpty()
    os.dup2(slave, 0)
    yield
    os.dup2(before, 0)
    for fd in (before, master, slave):
        os.close(fd)


def read_by_copy(read: Callable[[], bytes], folder: Path) -> bytes:
    windows = CommandWindows(folder, lambda _: None, {})
    reader = LineReader(read, windows)
    while not reader.has_ended:
        windows.serve(None)
    windows.close()
    return reader.line()


@pytest.mark.usefixtures("typed_at")
def test_a_copy_reads_a_line(tmp_path: Path) -> None:
    line = "ä" * 100_000  # more than a pipe holds
    assert read_by_copy(line.encode, tmp_path) == line.encode()


@pytest.mark.usefixtures("typed_at")
def test_a_copy_that_fails_is_not_taken_for_ctrl_c(tmp_path: Path) -> None:
    def interrupted() -> bytes:
        raise KeyboardInterrupt

    def failing() -> bytes:
        raise OSError("the terminal is gone")

    with pytest.raises(KeyboardInterrupt):
        read_by_copy(interrupted, tmp_path)
    with pytest.raises(MachineFault, match="ended with 1"):
        read_by_copy(failing, tmp_path)
    with pytest.raises(MachineFault, match="ended with 3"):
        read_by_copy(lambda: os._exit(3), tmp_path)
