"""The engine's machine code, for caches that tests make: to compile it takes half a minute of a core."""

from __future__ import annotations

from pathlib import Path

from gradwire.analysis.fluid import compiled


def bring_machine_code(cache: Path) -> None:
    """Lets a cache of a test's use the machine code of this one."""
    cache.mkdir(exist_ok=True)
    if compiled.KEPT:
        (cache / compiled.FOLDER.name).symlink_to(compiled.FOLDER)
