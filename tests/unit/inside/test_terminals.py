"""What a window's shell says of itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from gradwire.inside.processes import Processes, Running, Streams
from gradwire.inside.terminals import MarkReader, ShellWindows, rc_text
from gradwire.inside.typed_protocol import Keys, Open, Over, Resized, TerminalSize, WindowOutput
from tests.unit.inside.listener import Listener

TOKEN = "f00d"
COMMAND, PROMPT = f"\x1b]133;C;{TOKEN}\a".encode(), f"\x1b]133;A;{TOKEN}\a".encode()
SIZE = TerminalSize(20, 80)


@pytest.mark.parametrize("part_bytes", [1, 2, 3, 7, 1000])
def test_marks_are_taken_out_wherever_they_are_cut(part_bytes: int) -> None:
    written = b"\x1b]0;title\a$ ls\r\n" + COMMAND + b"file\r\n\x1b]133;A;other\a" + PROMPT + b"$ "
    reader = MarkReader(TOKEN)
    shown = b"".join(reader.shown(written[at : at + part_bytes]) for at in range(0, len(written), part_bytes))
    assert shown == b"\x1b]0;title\a$ ls\r\nfile\r\n\x1b]133;A;other\a$ "
    assert reader.at_prompt
    reader.shown(COMMAND)
    assert not reader.at_prompt


class Here:
    """A host and a machine that are where the tests are."""

    name = "here"

    def births(self) -> AbstractContextManager[None]:
        return nullcontext()

    def enter(self, folder: str) -> None:
        os.chdir(folder)


def processes_here(listener: Listener) -> Processes:
    return Processes([Here()], Here(), listener)


def test_a_name_is_nothing_but_text_in_the_prompt(tmp_path: Path) -> None:
    rc = tmp_path / "rc"
    rc.write_text(rc_text("h1';\\$(`touch x`)'", TOKEN))
    shown = subprocess.run(
        ["/bin/bash", "-c", f'. {rc}; echo "${{PS1@P}}"'], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "h1??????touch?x???\x1b" in shown.stdout.replace("\x01", "").replace("\x02", "")
    assert list(tmp_path.iterdir()) == [rc]


def test_a_shell_that_cannot_begin_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwire.inside.terminals.FOLDER", tmp_path)
    listener = Listener()
    processes = processes_here(listener)

    def begin(_: Open, __: list[str], streams: Streams) -> Running:
        return processes.start(0, [str(tmp_path / "nothing")], {}, "/", streams=streams)

    windows = ShellWindows(processes, listener, lambda _: "h7", begin, 0.01)  # type: ignore[arg-type]
    windows.obey(Open(1, SIZE, "dumb"))
    assert Over(1) in listener.said
    assert list(tmp_path.iterdir()) == []


def test_a_window_rests_while_its_shell_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwire.inside.terminals.FOLDER", tmp_path)
    listener = Listener()
    processes = processes_here(listener)

    def begin(_: Open, argv: list[str], streams: Streams) -> Running:
        return processes.start(0, argv, {**os.environ, "TERM": "dumb"}, "/", streams=streams)

    windows = ShellWindows(processes, listener, lambda _: "h7", begin, 0.01)  # type: ignore[arg-type]
    windows.obey(Open(1, SIZE, "dumb"))
    rest: Callable[[], bool] = windows.at_rest

    def settle() -> None:
        while not rest():
            windows.follow(rest, float("inf"), lambda _: None)

    settle()
    windows.obey(Resized(1, TerminalSize(11, 22)))
    windows.obey(Keys(1, b"stty size; read -t 0.2 x\r"))
    assert not rest()
    settle()
    screen = b"".join(event.data for event in listener.said if isinstance(event, WindowOutput))
    assert b"11 22\r\n" in screen
    assert screen.endswith(b"h7\x1b[0m:/# " if os.geteuid() == 0 else b"h7\x1b[0m:/$ ")
    assert b"133;" not in screen
    windows.obey(Keys(1, b"exit\r"))
    processes.follow(lambda: rest() and Over(1) in listener.said)
    assert list(tmp_path.iterdir()) == []
