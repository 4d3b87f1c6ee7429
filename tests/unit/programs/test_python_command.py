"""Commands that start Python, taken apart as Python and a shell take them."""

from __future__ import annotations

import subprocess

import pytest

from gradwire.faults import InputFault
from gradwire.inside.program_protocol import Runs, WarmPython
from gradwire.programs.python_command import warm_python, words_of

VARIABLES = {"size": "64M", "two": "a  b", "empty": "", "HOME": "/root"}


@pytest.mark.parametrize(
    "line",
    [
        "python train.py",
        "  exec python3  train.py --size $size ",
        "python 'a b' \"c d\" e\\ f",
        "python ${size}x\"$two\"'$size' $two",
        'python "a\\"b" "\\n" "\\$size" a""b "" \'\'',
        'python $empty x "$empty" a$empty',
        "python -c 'print(1); import os' x",
        "python a$two$size b${two}",
        'python x=$size --flag="$two" -',
        'python $unset-a "$unset"',
    ],
)
def test_words_are_those_of_a_shell(line: str) -> None:
    shown = line.strip().removeprefix("exec ")
    asked = ["/bin/sh", "-c", f"printf '%s\\0' {shown}"]
    by_shell = subprocess.run(asked, env=VARIABLES, capture_output=True, text=True, check=True).stdout
    assert words_of(line, VARIABLES) == tuple(by_shell.split("\0")[:-1])


@pytest.mark.parametrize(
    "line",
    [
        "python a.py | tee log",
        "python a.py > log",
        "python a.py; python b.py",
        "python $(which x)",
        "python `which x`",
        'python "$(which x)"',
        "python *.py",
        "python ~/a.py",
        "A=1 python a.py",
        "python ${size%M}",
        "python 'a",
        "python a.py &",
        "python a.py # note",
    ],
)
def test_what_needs_a_shell_is_refused(line: str) -> None:
    with pytest.raises(InputFault):
        words_of(line, VARIABLES)


def test_a_python_command_is_taken_apart_as_python_does() -> None:
    def apart(*argv: str) -> WarmPython:
        return warm_python(argv, ["torch"])

    assert apart("python3", "train.py", "-c", "x") == WarmPython(
        ("python3",), Runs.SCRIPT, "train.py", ("-c", "x"), ("torch",)
    )
    assert apart("/a/bin/python3.11", "-uO", "-m", "pkg.run", "--x").interpreter == ("/a/bin/python3.11", "-u", "-O")
    assert apart("python", "-m", "pkg.run", "--x").arguments == ("--x",)
    assert apart("python", "-Bcprint(1)", "y") == WarmPython(
        ("python", "-B"), Runs.CODE, "print(1)", ("y",), ("torch",)
    )
    assert apart("python", "-W", "error", "-Xdev", "-X", "utf8", "a.py").interpreter == (
        *("python", "-W", "error", "-Xdev", "-X", "utf8"),
    )


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("sh", "train.py"),
        ("python",),
        ("python", "-"),
        ("python", "-i", "a.py"),
        ("python", "--help"),
        ("python", "-m"),
    ],
)
def test_what_starts_no_script_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(InputFault):
        warm_python(argv, ["torch"])


def test_a_module_has_a_name() -> None:
    with pytest.raises(InputFault, match="not a name of a module"):
        warm_python(("python", "a.py"), ["torch; import os"])
