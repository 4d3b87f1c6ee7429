"""The changes that `python -m benchmarks.mutants` makes, and what it says of them in a tree of one module and its test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mutants.changes import changes_of
from benchmarks.mutants.reach import Reach

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = '''"""A module."""


def larger(a: int, b: int = 2) -> int:
    """Of two numbers."""
    if a >= b:
        return a
    return b


def uncalled() -> int:
    return 1 - 3


def noted(found: list[int]) -> None:
    found.append(7)
'''
TEST = """from threading import Thread
from package.module import larger, noted

def test_larger() -> None:
    assert larger(5, 3) == 5
    assert larger(1) == 2

def test_in_a_thread() -> None:
    found = []
    thread = Thread(target=noted, args=(found,))
    thread.start()
    thread.join()
    assert found == [7]
"""


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("x = a < b", ["x = (a <= b)"]),
        ("x = a == b", ["x = (a != b)"]),
        ("x = a + 2", ["x = (a - 2)", "x = (a)", "x = (2)", "x = a + (3)"]),
        ("x = a and b", ["x = (a or b)", "x = (a)", "x = (b)"]),
        ("x = not a", ["x = (a)"]),
        ("x = a if b else c", ["x = (c if b else a)"]),
        ("x = [a for a in b if a]", ["x = ([a for a in b])"]),
        ("x = max(a, b)", ["x = (min(a, b))"]),
        ("f(a, b)", ["(f(b, a))", "pass"]),
        ("f(a, *b)", ["pass"]),
        ("x: Literal[3] = True", ["x: Literal[3] = (False)"]),
        ("raise ValueError(f'{a + b}')", ["pass"]),
        ("'a text'", []),
        ("é = 1  # ü\nx = é < 2", ["é = (2)  # ü\nx = é < 2", "é = 1  # ü\nx = (é <= 2)", "é = 1  # ü\nx = é < (3)"]),
    ],
)
def test_changes_are_made_where_they_belong(source: str, changed: list[str]) -> None:
    made = [change.made_in(source) for change in changes_of(source)]
    assert sorted(made) == sorted(changed)


def test_a_change_is_tried_against_tests_that_call_its_function_and_then_their_files() -> None:
    calls = {4: ["tests/test_a.py::slow"], 11: ["tests/test_b.py"]}
    seconds = {"tests/test_a.py::quick": 1.0, "tests/test_a.py::slow": 2.0, "tests/test_b.py::other": 0.5}
    reach = Reach({"package/module.py": calls}, seconds)

    def tests_of(line: int) -> list[str]:
        return reach.tests_of("package/module.py", SOURCE, line)

    assert tests_of(6) == ["tests/test_a.py::slow", "tests/test_a.py::quick"]
    assert tests_of(12) == ["tests/test_b.py::other"]
    assert tests_of(1) == ["tests/test_a.py::slow", "tests/test_b.py::other", "tests/test_a.py::quick"]


def test_changes_that_no_test_notices_are_told(tmp_path: Path) -> None:
    for name, text in {"package/module.py": SOURCE, "tests/test_module.py": TEST, "pyproject.toml": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = f"from pathlib import Path; from benchmarks.mutants.__main__ import main; main(Path({str(tmp_path)!r}))"
    arguments = ["package/module.py", "--tests", "tests", "--sample", "100"]
    told = subprocess.run(
        [sys.executable, "-c", command, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == [
        "package/module.py:6: survived: a >= b  ->  (a > b)",
        *[
            f"package/module.py:12: no test calls it: {change}"
            for change in ("1  ->  (2)", "1 - 3  ->  (1 + 3)", "1 - 3  ->  (1)", "1 - 3  ->  (3)", "3  ->  (4)")
        ],
        "package/module.py: 9 changes: 3 killed, 1 survived, 5 no test calls it",
    ]
    assert (tmp_path / "package" / "module.py").read_text() == SOURCE
