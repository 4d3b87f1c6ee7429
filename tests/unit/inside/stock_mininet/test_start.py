"""How a script is started, and how it asks for its input."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from gradwire.inside.stock_mininet import start


def started(
    folder: Path,
    text: str,
    answers: Sequence[str | None] = (),
    *words: str,
    questions: list[dict[str, list[str]]] | None = None,
    typed: bytes = b"",
) -> tuple[int, str, str]:
    """Runs a script whose input is answered so; its status and its outputs. questions: what it asked, if a person types;
    typed: what they typed before."""
    script = folder / "lab.py"
    script.write_text(text)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s"))
        listening.listen()

        def answer() -> None:
            asker, _ = listening.accept()
            with asker, asker.makefile("rb") as lines:
                for line in answers:
                    question = json.loads(lines.readline())
                    if questions is not None:
                        questions.append(question)
                    asker.sendall(json.dumps(line).encode() + b"\n")

        thread = threading.Thread(target=answer, daemon=True)
        if answers:
            thread.start()
        how = start.NOT_TYPED if questions is None else start.TYPED
        command = [sys.executable, start.__file__, str(folder / "s"), how, str(script), *words]
        stdin, silent = os.pipe()
        os.write(silent, typed)
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False, cwd=folder)
        os.close(stdin)
        os.close(silent)
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


PROMPT = """
import cmd, readline
readline.add_history("an earlier line")
class Prompt(cmd.Cmd):
    def do_pingall(self, line): print("pinged", readline.get_history_item(2))
    def do_exit(self, line): return True
    def completedefault(self, *words): return ["h1", "h2"]
Prompt().cmdloop()
"""


def test_who_types_is_told_words_and_earlier_lines(tmp_path: Path) -> None:
    questions: list[dict[str, list[str]]] = []
    status, out, err = started(tmp_path, PROMPT, ["pingall\n", "exit\n"], questions=questions)
    assert (status, err) == (0, "")
    assert "pinged pingall" in out  # the script's own history has it, so that its file will
    assert sorted(questions[0]["first_words"]) == ["exit", "help", "pingall"]
    assert questions[0]["later_words"] == ["h1", "h2"]
    assert questions[0]["history"] == ["an earlier line"]
    assert "history" not in questions[1]


def test_what_was_typed_before_it_was_asked_for_is_read_first(tmp_path: Path) -> None:
    text = "import sys\nprint(sys.stdin.read(1), input(), input())\n"
    status, out, err = started(tmp_path, text, ["asked\n"], questions=[], typed=b"xearly\n")
    assert (status, out, err) == (0, "x early asked\n", "")


@pytest.mark.parametrize("text", ["import nowhere\n", "def f(): import nowhere\nf()\n"])
def test_a_trace_shows_the_script_alone(tmp_path: Path, text: str) -> None:
    status, _, err = started(tmp_path, text)
    assert status == 1
    assert "start.py" not in err
    assert err.startswith(f'Traceback (most recent call last):\n  File "{tmp_path / "lab.py"}"')
    assert err.endswith("ModuleNotFoundError: No module named 'nowhere'\n")
