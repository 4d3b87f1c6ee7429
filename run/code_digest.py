"""Which code a point's result depends on, as one hash: so that a change elsewhere, or of a comment, does not run everything anew."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradwire import PACKAGE

SOURCE_ROOT = PACKAGE.parent
RUN_MODULES = (
    "gradwire.run.point",
    "gradwire.vm.machines",
    "gradwire.agents.__main__",
    "gradwire.agents.capture.recorder",
    "gradwire.controller.__main__",
)
"""What the machine boots with and what it starts; with all that they import, this is the code that carries plans out."""
BUILD_MODULES = ("gradwire.vm.kernel", "gradwire.vm.kernel_source")
"""How a kernel is built, which is imported with the rest and does not count: a point's key has the kernel's name."""
FAULT_MODULES = ("gradwire.vm.causes", "gradwire.vm.packages")
"""What a kernel's death is told with, which does not count either: other words for it change no result."""
BOOT_FILES = ("gradwire/vm/init.sh",)
PLAN_FOLDER = "gradwire/workloads"
"""What plans are compiled by. All of it: strategies are looked up by name, not imported."""


@functools.cache
def run_digest() -> str:
    """Of the code that carries plans out."""
    texts = [f"{module}\n{_meaning(path)}" for module, path in sorted(imported_sources(RUN_MODULES).items())]
    texts += [(SOURCE_ROOT / name).read_text() for name in BOOT_FILES]
    return _hash(texts)


@functools.cache
def plan_digest() -> str:
    """Of the code that compiles plans."""
    root = SOURCE_ROOT / PLAN_FOLDER
    return _hash([f"{path.relative_to(root)}\n{_meaning(path)}" for path in sorted(root.rglob("*.py"))])


def imported_sources(modules: Sequence[str]) -> dict[str, Path]:
    """Our modules that these import, directly or not, themselves included: their files by name."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = _path_of(module)
        if module in found or module in (*BUILD_MODULES, *FAULT_MODULES) or path is None:
            continue
        found[module] = path
        waiting += _imports(ast.parse(path.read_text()))
    return found


def _path_of(module: str) -> Path | None:
    """Its file, or None if it is not ours."""
    base = SOURCE_ROOT / module.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _meaning(path: Path) -> str:
    """The syntax tree without docstrings: what is left of a source when layout and comments do not count."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [statement for statement in node.body if not _is_text(statement)] or [ast.Pass()]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
