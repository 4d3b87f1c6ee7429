"""Files with a user's controller, whose code runs inside the machines of points and nowhere else.

A scenario has the path of the file, and the hash of its content at the time when the scenario was read.
`gradwire.named_code` decides which files are handed to a machine.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.named_code import code_in, running

MOST_BYTES = 1 << 20
"""Largest size of a controller's file."""


def controller_in(path: Path) -> dict[str, str]:
    """Table of a controller's file in a scenario: its path and its hash. Raises InputFault for a file that may not run
    or is not Python, without running it."""
    text = code_in(path, MOST_BYTES)
    with running(f"{path}: is not Python: "):
        compile(text, str(path), "exec", dont_inherit=True)
    return {"file": str(path), "sha256": _digest(text)}


def controller_text(file: str, sha256: str) -> str:
    """The code of a controller. Raises InputFault for a file that may not run, and for one that has changed since the
    scenario was read."""
    text = code_in(Path(file), MOST_BYTES)
    if _digest(text) != sha256:
        raise InputFault(f"fabric.controller: {file} has changed since the scenario was read; run it again")
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
