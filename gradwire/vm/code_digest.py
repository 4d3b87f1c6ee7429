"""A hash of the code that a point's result depends on, so that a change of a comment, or of other code, runs nothing
anew.

To parse all this code takes a second or more, which each command would take, so what a source means is kept in the
cache, by its text.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gradwire import PACKAGE
from gradwire.cache_files import cached
from gradwire.syntax_trees import parsed
from gradwire.vm.kernel import cache_folder

SOURCE_ROOT = PACKAGE.parent
INSIDE = "gradwire/inside"
"""The folder of all that runs in the machine, but for the programs that it starts there."""
STARTED_MODULES = ("gradwire.agents.__main__", "gradwire.agents.capture.recorder", "gradwire.controller.__main__")
"""The programs that the code inside the machine starts there."""
OTHER_MODULES = ("gradwire.vm.machines", "gradwire.controller.own", "gradwire.devices")
"""Further modules that decide a result: how a machine is booted, what runs a user's controller, and what users' scripts
import."""
BUILD_MODULES = ("gradwire.vm.kernel", "gradwire.vm.kernel_source")
"""Modules that build a kernel. They are imported with the rest but do not count: a point's key has the kernel's
name."""
FAULT_MODULES = ("gradwire.vm.kernel_death", "gradwire.vm.packages")
"""Modules that explain a kernel's death. They do not count either: other words in an explanation change no result."""
NAMES_MODULES = ("gradwire",)
"""Names for Python programs, each imported when it is asked for, and where the package lies: they change no result."""
BOOT_FILES = ("gradwire/vm/init.sh", "gradwire/vm/host_init.sh")
PLAN_FOLDERS = ("gradwire/scenario", "gradwire/workloads")
"""The code that compiles plans. Whole folders count, for strategies are found through their names and not imported."""


class ModuleFacts(msgspec.Struct, frozen=True):
    """The facts of a module's text that decide the digest."""

    #: Hash of its syntax tree without docstrings, which layout and comments do not change.
    meaning: str
    #: Modules that it may import: those that it names, and what it takes from them, which may be modules too.
    imports: tuple[str, ...]


def machine_modules() -> tuple[str, ...]:
    """Returns the modules that the machine's own processes start with. Together with all that they import, they are the
    code inside the machine."""
    paths = sorted((SOURCE_ROOT / INSIDE).rglob("*.py"))
    inside = [path.relative_to(SOURCE_ROOT).with_suffix("").parts for path in paths if path.stem != "__init__"]
    return (*map(".".join, inside), *STARTED_MODULES)


@functools.cache
def run_digest() -> str:
    """Hash of the code that carries points out."""
    sources = imported_sources((*machine_modules(), *OTHER_MODULES))
    texts = [f"{module}\n{_meaning(path)}" for module, path in sorted(sources.items())]
    texts += [(SOURCE_ROOT / name).read_text(encoding="utf-8") for name in BOOT_FILES]
    return _hash(texts)


@functools.cache
def sources_digest(modules: tuple[str, ...]) -> str:
    """Hash of these modules' code and of what they import of gradwire."""
    return _hash([f"{module}\n{_meaning(path)}" for module, path in sorted(imported_sources(modules).items())])


@functools.cache
def plan_digest() -> str:
    """Hash of the code that compiles plans."""
    paths = (path for folder in PLAN_FOLDERS for path in sorted((SOURCE_ROOT / folder).rglob("*.py")))
    return _hash([f"{path.relative_to(SOURCE_ROOT)}\n{_meaning(path)}" for path in paths])


def imported_sources(modules: Sequence[str]) -> dict[str, Path]:
    """Returns the files of these modules and of what they import of gradwire, directly or not, by module."""
    sources: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = _path_of(module)
        if module in sources or module in (*BUILD_MODULES, *FAULT_MODULES, *NAMES_MODULES) or path is None:
            continue
        sources[module] = path
        waiting += _source(path.read_text(encoding="utf-8")).imports
    return sources


def _path_of(module: str) -> Path | None:
    """A module's file; None if it is not gradwire's."""
    base = SOURCE_ROOT / module.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def _meaning(path: Path) -> str:
    return _source(path.read_text(encoding="utf-8")).meaning


@functools.cache
def _source(text: str) -> ModuleFacts:
    """Returns the facts of a module's text, from the cache if they are there. The key includes `_reader`, since other
    versions of Python and of this module parse differently."""
    path = cache_folder() / "sources" / hashlib.sha256(f"{_reader()}\0{text}".encode()).hexdigest()[:32]
    return cached(path, ModuleFacts, lambda: _parsed(text))


@functools.cache
def _reader() -> str:
    """Returns a text that identifies what reads sources: the version of Python, and the text of this module."""
    return f"{platform.python_version()}\0{Path(__file__).read_text(encoding='utf-8')}"


def _parsed(text: str) -> ModuleFacts:
    tree = parsed(lambda: ast.parse(text))
    imports = tuple(_imports(tree))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [statement for statement in node.body if not _is_text(statement)] or [ast.Pass()]
    return ModuleFacts(_hash([ast.dump(tree)]), imports)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
