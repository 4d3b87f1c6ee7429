"""Files with a user's controller, whose code runs inside the machines of points and nowhere else.

A scenario says where the file is, and the hash of what was in it when the scenario was read. The code is handed to a
machine only by a process that was given the scenario to run: what only reads a run folder hands over no code that the
folder names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault
from gradwire.regular_files import read_text

MOST_BYTES = 1 << 20
"""Of a controller's file."""
_ALLOWED: set[str] = set()
"""Paths of files that this process may hand to a machine."""


def allow_controllers(controllers: Any) -> None:
    """Lets `allowed_text` read the files of these definitions, which a scenario has that was given to be run."""
    for content in controllers.values() if isinstance(controllers, Mapping) else ():
        if isinstance(content, Mapping):
            _ALLOWED.add(str(content.get("file")))


def controller_in(path: Path) -> dict[str, str]:
    """What a scenario keeps of a controller's file. Raises InputFault for a file that is not Python, without running it."""
    text = _read(path)
    try:
        compile(text, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InputFault(f"{path}: is not Python: {error}") from error
    return {"file": str(path), "sha256": _digest(text)}


def allowed_text(file: str, sha256: str) -> str:
    """The code of a controller. Raises InputFault if nobody allowed to run it, and for a file that has changed since
    the scenario was read."""
    if file not in _ALLOWED:
        raise InputFault(
            f"fabric.controller: its file {file} is not run, since what only reads a run folder runs no code that the folder names; "
            "`gradwire run` of the scenario runs it"
        )
    text = _read(Path(file))
    if _digest(text) != sha256:
        raise InputFault(f"fabric.controller: {file} has changed since the scenario was read; run it again")
    return text


def _read(path: Path) -> str:
    try:
        return read_text(path, MOST_BYTES, follow=True)
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such file") from error
    except OSError as error:
        raise InputFault(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputFault(f"{path}: is not text in UTF-8: {error}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
