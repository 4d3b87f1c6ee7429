"""Makes the copy of Mininet that scripts import."""

from __future__ import annotations

import shutil
from pathlib import Path

CHANGES = Path(__file__).with_name("changes.py")
CHANGES_MODULE = "gradwire_mininet_changes"


def copy_changed(mininet: Path, folder: Path) -> None:
    """Copies the package into a folder, for the head of a Python path. Each module of the copy hands itself to `change`
    (changes.py) at its end; otherwise it has the text of its original."""
    copy = folder / "mininet"
    shutil.copytree(mininet, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for module in copy.glob("*.py"):
        with module.open("a") as file:
            file.write(f"\n\n__import__({CHANGES_MODULE!r}).change(globals())\n")
    shutil.copy(CHANGES, folder / f"{CHANGES_MODULE}.py")
