"""The path of a run through the files, as docs/architecture.md has it, is one that the sources take."""

from __future__ import annotations

import ast

from tests.shared.one_run import one_run

FEWER_THAN_HALF_OF = 59
"""The files that a reader had to open for the same before."""
CALLED_AS = {"compile_p3": "compile"}
"""What is looked up by a name that the user gives, and called as the field of what was found."""


def referenced(source: str) -> set[str]:
    """What a module names: names, attributes, what it imports, and texts, which may be modules to start."""
    said: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            said.add(node.id)
        elif isinstance(node, ast.Attribute):
            said.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            said |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            said.add(node.value)
    return said


def defined(source: str) -> set[str]:
    """Functions and classes of a module, methods with their class."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return names


def test_a_run_is_followed_through_few_files() -> None:
    steps = one_run()
    assert 2 * len({step.file for step in steps}) < FEWER_THAN_HALF_OF
    assert len({step.file for step in steps}) == len(steps)


def test_every_step_is_where_it_is_said_to_be() -> None:
    assert [step for step in one_run() if step.name not in defined(step.source)] == []


def test_every_step_is_called_or_started_from_a_file_before_it() -> None:
    steps = one_run()
    known = referenced(steps[0].source)
    for step in steps[1:]:
        name = step.name.rpartition(".")[2]
        assert {CALLED_AS.get(name, name), step.module} & known, step
        known |= referenced(step.source)


def test_what_nobody_names_is_found() -> None:
    assert referenced("from a import b\nc.d('e')") == {"b", "c", "d", "e"}
    assert defined("class A:\n    def f(self): ...\ndef g(): ...") == {"A", "A.f", "g"}
