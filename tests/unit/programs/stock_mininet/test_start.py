"""How a script is started, and how it asks for its input."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from gradwire.programs.stock_mininet import start


def started(folder: Path, text: str, answers: Sequence[str | None] = (), *words: str) -> tuple[int, str, str]:
    """Runs a script whose input is answered so; its status and its outputs."""
    script = folder / "lab.py"
    script.write_text(text)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s"))
        listening.listen()

        def answer() -> None:
            asker, _ = listening.accept()
            with asker:
                for line in answers:
                    assert asker.recv(1) == b"?"
                    asker.sendall(json.dumps(line).encode() + b"\n")

        thread = threading.Thread(target=answer, daemon=True)
        if answers:
            thread.start()
        command = [sys.executable, start.__file__, str(folder / "s"), str(script), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if answers:
            thread.join()
    return done.returncode, done.stdout, done.stderr


def test_a_script_sees_its_own_name_arguments_and_modules(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    text = "import sys, beside\nif __name__ == '__main__': print(beside.VALUE, sys.argv[1:], __file__)\nsys.exit(5)\n"
    assert started(tmp_path, text, (), "-x", "y") == (5, f"7 ['-x', 'y'] {tmp_path / 'lab.py'}\n", "")


def test_lines_are_asked_for_and_end(tmp_path: Path) -> None:
    text = "import sys\nprint(input('? '))\nprint(sys.stdin.read(3), sys.stdin.readline(), list(sys.stdin))\n"
    status, out, err = started(tmp_path, text, ["one\n", "second line\n", "third\n", ""])
    assert (status, err) == (0, "")
    assert out == "? one\nsec ond line\n ['third\\n']\n"


def test_an_interrupt_at_the_prompt_is_an_interrupt_of_the_script(tmp_path: Path) -> None:
    text = "try: input()\nexcept KeyboardInterrupt: print('caught')\ninput()\n"
    assert started(tmp_path, text, [None, None]) == (130, "caught\n", "interrupted\n")


@pytest.mark.parametrize("text", ["import nowhere\n", "def f(): import nowhere\nf()\n"])
def test_a_trace_shows_the_script_alone(tmp_path: Path, text: str) -> None:
    status, _, err = started(tmp_path, text)
    assert status == 1
    assert "start.py" not in err
    assert err.startswith(f'Traceback (most recent call last):\n  File "{tmp_path / "lab.py"}"')
    assert err.endswith("ModuleNotFoundError: No module named 'nowhere'\n")
