"""Places that a command was asked to write to. A place that cannot be written is rejected in one message, before long work if possible."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradwire.faults import InputFault, MachineFault
from gradwire.files import NO_ROOM, TOO_MANY, unfit_for_writing


def refuse_unusable(folder: Path, option: str = "--out") -> None:
    """Raises InputFault if no folder can be made at a path, or written; makes nothing. option: what named the path."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise InputFault(f"{there}: is a file, where a folder is wanted; give another {option}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputFault(f"{there}: may not be written; give another {option}, or make it writable")


def refuse_unusable_file(file: Path) -> None:
    """Raises InputFault if a path is anything but a file, or lies in a folder that cannot be made or written; makes nothing.

    What is written replaces the file as a whole, and so would a link, such as /dev/stdout, and a device.
    """
    if file.is_symlink():
        raise InputFault(
            f"--out {file}: is a link, which would be replaced; give the file that it leads to, {file.resolve()}"
        )
    if file.is_dir():
        raise InputFault(f"--out {file}: is a folder; give a file, like {file / 'trace.json'}")
    if file.exists() and not file.is_file():
        raise InputFault(f"--out {file}: is not a regular file, and would be replaced by one; give the name of a file")
    refuse_unusable(file.parent)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Wraps what writes to `path`, or into it. Raises InputFault or MachineFault instead of OSError, unless a reader of output is gone."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        where = error.filename or path
        if error.errno in NO_ROOM:
            raise unfit_for_writing(error, path) from error
        if error.errno in TOO_MANY:
            raise MachineFault(f"the machine refuses: {error.strerror}; see `ulimit -a`, and what else runs") from error
        raise InputFault(
            f"{where}: cannot be written: {error.strerror}; give another place, or make it writable"
        ) from error
