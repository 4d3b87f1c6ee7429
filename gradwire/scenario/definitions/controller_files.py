"""Files with a user's controller, whose code runs inside the machines of points and nowhere else.

A scenario says where the file is, and the hash of what was in it when the scenario was read. Which files are handed to a
machine `gradwire.named_code` decides.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.named_code import code_in, running

MOST_BYTES = 1 << 20
"""Of a controller's file."""


def controller_in(path: Path) -> dict[str, str]:
    """What a scenario keeps of a controller's file. Raises InputFault for one that may not run or is not Python, without running it."""
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
