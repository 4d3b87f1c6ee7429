"""The owner of a process or a temporary folder: the command that made it. From its name it can be told at any later
time whether that command still runs.

A process id alone would not do, for ids are used again. With the time at which the process began, counted from the
machine's start, and the process namespace that the id belongs to, it does.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWNER_VARIABLE = "GRADWIRE_OWNER"
"""Environment variable that names the owner of the processes that a command starts outside its own process group."""
FOLDER_PREFIX = "gradwire-"
START_FIELD = 19
"""Index in /proc/PID/stat, counted behind the name, of the time at which the process began, in clock ticks since the
machine's start (proc_pid_stat(5))."""
OWNER = re.compile(r"(\d{10})\.(\d{20})\.(\d{10})")


def this_process() -> str:
    """Returns this process as an owner. The text is equally long for all, since the content of memory may not depend on
    it."""
    return f"{os.getpid():010d}.{_start_ticks(os.getpid()):020d}.{_namespace():010d}"


def is_gone(owner: str) -> bool:
    """Returns whether the process of an owner is known to have ended. False for one in another process namespace, such
    as a container's, since it cannot be seen from here.

    Raises ValueError for a text that is not an owner.
    """
    match = OWNER.fullmatch(owner)
    if match is None:
        raise ValueError(f"{owner!r} names no process and its start")
    if int(match[3]) != _namespace():
        return False
    try:
        return _start_ticks(int(match[1])) != int(match[2])
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder that says whose it is, and is removed at the end."""
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{this_process()}-") as name:
        yield Path(name)


def owner_of_folder(folder: Path) -> str | None:
    """The owner that a temporary folder names; None if it names none, and so is nobody's that is known."""
    match = OWNER.match(folder.name.removeprefix(FOLDER_PREFIX))
    return match[0] if match and folder.name.startswith(FOLDER_PREFIX) else None


def owner_of_process(pid: int) -> str | None:
    """The owner that a process was started for; None if it was for none, or if this user may not know."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{OWNER_VARIABLE}=".encode()
    named = [word.removeprefix(prefix).decode(errors="replace") for word in variables if word.startswith(prefix)]
    return named[0] if named and OWNER.fullmatch(named[0]) else None


def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_ticks(pid: int) -> int:
    state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if state in "ZX":  # dead, and not yet reaped
        raise ProcessLookupError(pid)
    return int(fields[START_FIELD - 1])
