"""`gradwire reproduce`: finds the study of the papers and hands it the command.

The study is the package `reproduction` at the top of gradwire's repository. It is a client of gradwire and not in the
wheel, so gradwire never imports it by name. Here, and nowhere else, it is looked for next to the package, where a
clone has it, and loaded from there.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from gradwire import PACKAGE
from gradwire.faults import InputFault
from gradwire.runs.executing.executor_choice import Where

STUDY = "reproduction"
COMMAND = "command.py"
"""The module of the study with the functions of `Study`."""
CLONE_FILES = ("pyproject.toml", f"{STUDY}/{COMMAND}")
"""Files next to the package in a clone. Next to an installed package are other packages, one of which may have the
study's name."""


@dataclass(frozen=True)
class ReproduceOptions:
    """The options of a `gradwire reproduce`, as they were typed."""

    #: Papers or scenarios; all if empty.
    names: Sequence[str] = ()
    #: Folder of the report.
    out: Path | None = None
    #: Folder to write pages into as well, and the one of those to say what moved since.
    pages: Path | None = None
    moved_from: Path | None = None
    #: Whether to run one representative scenario per paper; then whether to compare the score, and whether to keep it.
    quick: bool = False
    check: bool = False
    accept: bool = False
    #: A Python that has PyTorch, for printed measurements of real programs.
    python: Path | None = None


class Study(Protocol):
    """The functions that the command line calls in the study's module."""

    def list_scenarios(self, names: Sequence[str]) -> None:
        """`gradwire reproduce --list`."""

    def reproduce(self, asked: ReproduceOptions, where: Where) -> None:
        """`gradwire reproduce`."""


def study() -> Study:
    """The study's command, loaded from the clone that this package lies in. Raises InputFault where it lies in none."""
    clone = PACKAGE.parent
    if not all((clone / name).is_file() for name in CLONE_FILES):
        raise InputFault(
            f"gradwire reproduce: the study of the papers is not in the installed package. It is the folder `{STUDY}` "
            "of gradwire's repository: clone that, run `make setup` in it, and give the command there as "
            "`.venv/bin/gradwire reproduce`"
        )
    loaded = sys.modules.get(STUDY)
    if loaded is None or loaded.__file__ != str(clone / STUDY / "__init__.py"):
        _load_package(clone / STUDY)
    return cast(Study, importlib.import_module(f"{STUDY}.{Path(COMMAND).stem}"))


def _load_package(folder: Path) -> None:
    """Makes the package in `folder` the one that its name means, wherever else Python's path has one of that name."""
    spec = importlib.util.spec_from_file_location(
        STUDY, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    for name in [name for name in sys.modules if name.partition(".")[0] == STUDY]:
        del sys.modules[name]
    sys.modules[STUDY] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[STUDY])
