"""Files that are written completely or not at all, and the disk that has no room for them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradwire.faults import UnfitMachine

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a disk, where another place on it would not help."""
TOO_MANY = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of no file in particular: too many processes or open files, or too little memory."""
ROOM_BYTES = 1 << 20
"""A disk with less room is full: what a point writes has to fit, and the message that it did not."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write to. At the end of the block, the file written there replaces `path`.

    Readers see the old file or the new one and nothing in between, even if the writer is killed. If the block raises, `path` stays as it
    was, and the partial file stays beside it until the next attempt.
    """
    partial = path.with_name(path.name + ".partial")
    yield partial
    partial.replace(path)


def lack_of_room(folder: Path, said: str = "") -> str:
    """What the disk of `folder` lacks; "" if it has room. said: by a program that wrote there, which may have met a quota."""
    status = os.statvfs(folder)
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < ROOM_BYTES:
        return f"its disk is full, with {free_bytes >> 10} KiB left"
    if status.f_files and not status.f_favail:
        return "its disk has no inode left"
    return next((f"its disk refuses: {text}" for text in map(os.strerror, NO_ROOM) if text in said), "")


def refuse_full_disk(folder: Path, said: str = "") -> None:
    """Raises UnfitMachine if the disk of a folder lacks room, so that what was written there may be lost."""
    if lack := lack_of_room(folder, said):
        raise UnfitMachine(f"{folder}: {lack}; make room, and give the command again: what is complete is kept")


def unfit_for_writing(error: OSError, folder: Path) -> UnfitMachine:
    """The fault for what the system refused while files were written in a folder."""
    where = error.filename or folder
    remedy = "make room" if error.errno in NO_ROOM else "make that possible"
    if error.errno == errno.EFBIG:
        remedy = "`ulimit -f unlimited`"
    return UnfitMachine(
        f"{where}: cannot be written: {error.strerror}; {remedy}, and give the command again: what is complete is kept"
    )
