"""How windows are opened, and what passes between one and the job."""

from __future__ import annotations

import base64
import json
import os
import socket
from pathlib import Path

import pytest

from gradwire.inside.typed_protocol import Keys, Open, Opening, Resized, Shut, TerminalSize, WindowCommand
from gradwire.programs.windows import CommandWindows, way_to_open


def program(folder: Path, name: str, text: str) -> None:
    """A program of that name that a search path of the folder finds."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("variables", "opens"),
    [
        ({"TMUX": "/tmp/tmux,1,0"}, "tmux"),
        ({"DISPLAY": ":0"}, "xterm"),
        ({"TMUX": "/tmp/tmux,1,0", "DISPLAY": ":0"}, "tmux"),
        ({}, None),
    ],
)
def test_tmux_comes_before_a_display(tmp_path: Path, variables: dict[str, str], opens: str | None) -> None:
    for name in ("tmux", "xterm"):
        program(tmp_path, name, "")
    way = way_to_open("h1", ["client", "a b"], {"PATH": str(tmp_path), **variables})
    assert (way and Path(way.argv[0]).name) == opens
    without = way_to_open("h1", ["client"], {"PATH": str(tmp_path / "nothing"), **variables})
    assert without is None


def test_what_is_done_at_a_window_reaches_the_job_and_back(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)  # longer than the path of a socket may be
    folder.mkdir()
    program(tmp_path, "tmux", "echo tmux window 7")
    sent: list[WindowCommand] = []
    windows = CommandWindows(folder, sent.append, {"PATH": str(tmp_path), "TMUX": "x"})
    assert not windows
    assert windows.open("h2") == Opening(1, "h2: tmux window 7")
    assert windows
    with socket.socket(socket.AF_UNIX) as client:
        opened = os.open(folder, os.O_PATH)
        client.connect(f"/proc/self/fd/{opened}/windows")
        os.close(opened)
        windows.serve(None)
        client.sendall(json.dumps({"window": 1, "kind": "screen", "rows": 20, "columns": 80}).encode() + b"\n{")
        windows.serve(None)
        assert sent == [Open(1, TerminalSize(20, 80), "screen")]
        keys = {"data": base64.b64encode(b"ls\r").decode()}
        client.sendall(json.dumps(keys).encode()[1:] + b'\n{"rows": 5, "columns": 6}\n')
        windows.serve(None)
        assert sent[1:] == [Keys(1, b"ls\r"), Resized(1, TerminalSize(5, 6))]
        windows.show(1, b"file\r\n")
        assert client.recv(100) == b"file\r\n"
    windows.serve(None)
    assert sent[3:] == [Shut(1)]
    assert not windows
    windows.close()


@pytest.mark.parametrize("said", [b"\n", b'{"window": 2}\n', b'{"kind": "\xff"}\n', b"x" * (1 << 21)])
def test_what_is_no_window_is_not_heard(tmp_path: Path, said: bytes) -> None:
    program(tmp_path, "tmux", "echo tmux window 7")
    sent: list[WindowCommand] = []
    windows = CommandWindows(tmp_path, sent.append, {"PATH": str(tmp_path), "TMUX": "x"})
    windows.open("h1")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "windows"))
        client.setblocking(False)
        for at in range(0, len(said), 1 << 16):
            try:
                client.sendall(said[at : at + (1 << 16)])
            except (BlockingIOError, BrokenPipeError):
                break
            windows.serve()
        windows.serve()
    assert sent == []
    windows.close()


def test_a_tmux_that_refuses_says_why(tmp_path: Path) -> None:
    program(tmp_path, "tmux", "echo no server running >&2; exit 1")
    windows = CommandWindows(tmp_path, lambda _: None, {"PATH": f"{tmp_path}:/bin", "TMUX": "x"})
    opening = windows.open("h1")
    assert opening == Opening(-1, "no window can be opened for h1: tmux: no server running")
    assert not windows
    windows.close()


@pytest.mark.parametrize("name", ["h\0", "h\x1b]0;x\a", "h\n1", "h" * 65, "\udcff"])
def test_a_name_that_cannot_stand_in_a_title_opens_nothing(tmp_path: Path, name: str) -> None:
    program(tmp_path, "tmux", f"touch {tmp_path}/called")
    windows = CommandWindows(tmp_path, lambda _: None, {"PATH": f"{tmp_path}:/bin", "TMUX": "x"})
    opening = windows.open(name)
    assert opening.window == -1
    assert opening.said.isprintable()
    assert not (tmp_path / "called").exists()
    assert not windows
    windows.close()


def test_windows_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwire.programs.windows.MOST_WINDOWS", 2)
    program(tmp_path, "tmux", "echo tmux window 7")
    windows = CommandWindows(tmp_path, lambda _: None, {"PATH": str(tmp_path), "TMUX": "x"})
    assert [windows.open("h1").window for _ in range(3)] == [1, 2, -1]
    windows.end(1)
    assert windows.open("h1").window > 0
    windows.close()


def test_an_xterm_that_finds_no_display_leaves_no_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(tmp_path, "xterm", "exit 1")
    sent: list[WindowCommand] = []
    windows = CommandWindows(tmp_path, sent.append, {"PATH": str(tmp_path), "DISPLAY": ":0"})
    assert windows.open("h1") == Opening(1, "h1: a window")
    windows.serve(None)
    assert not windows
    assert sent == []
    assert "no window for h1: xterm ended with 1" in capsys.readouterr().err
    windows.close()


def test_a_window_whose_program_reads_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwire.programs.windows.SHOW_LIMIT_S", 0.01)
    program(tmp_path, "tmux", "echo tmux window 7")
    sent: list[WindowCommand] = []
    windows = CommandWindows(tmp_path, sent.append, {"PATH": str(tmp_path), "TMUX": "x"})
    windows.open("h1")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "windows"))
        windows.serve(None)
        client.sendall(b'{"window": 1}\n')
        windows.serve(None)
        windows.show(1, bytes(1 << 24))
    assert sent[1:] == [Shut(1)]
    assert not windows
    windows.close()
