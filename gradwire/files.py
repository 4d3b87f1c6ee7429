"""Files that are written completely or not at all, and never through a link; and the disk that has no room for them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gradwire.faults import InputFault, UnfitMachine
from gradwire.input_files import refuse_input

PARTIAL_SUFFIX = ".partial"
"""Suffix of files that are not complete. They remain only if their command was killed; `gradwire clean` removes
them."""
NAME_KEPT = 50
"""Characters of a file's name in that of its partial file: four bytes each at most, and names have up to 255."""
TOKEN_BYTES = 8
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
WHOLE_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a disk, where another place on it would not help."""
TOO_MANY = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of no file in particular: too many processes or open files, or too little memory."""
ROOM_BYTES = 1 << 20
"""A disk with less room is full: what a point writes has to fit, and the message that it did not."""


def without_links(path: Path) -> Path:
    """The absolute path of where a file lies. Links that go round stay as they are, and cannot be opened.

    Raises InputFault for what cannot be a path.
    """
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise InputFault(f"{str(path)!r}: is not a path: {error}") from error


@contextmanager
def replacing(path: Path, *, on_disk: bool = True) -> Iterator[Path]:
    """Yields the path of an empty file next to `path` to write to. At the end of the block, that file replaces `path`.

    Readers see the old file or the new one and nothing in between, even if the writer is killed. The file's name
    cannot be foreseen, and a link at `path` is itself replaced, so that nothing is written through a link that
    somebody left in the folder. If the block raises, `path` stays as it was and the partial file is removed. Raises
    OSError, which names `path`, and InputFault if `path` is what the command was given to read.

    on_disk: this holds also if the machine loses power, which takes some milliseconds (fsync); not worth it for what
    is made again where it cannot be read.
    """
    name = f"{path.name[:NAME_KEPT]}.{os.urandom(TOKEN_BYTES).hex()}{PARTIAL_SUFFIX}"
    partial = path.with_name(name)
    with _naming(path, {name, path.name, str(partial)}):
        folder = os.open(path.parent, WHOLE_FOLDER)
        try:
            file = os.open(name, CREATE, 0o666, dir_fd=folder)
            try:
                yield partial
                if on_disk:
                    os.fsync(file)
                _refuse_another(file, name, folder)
                refuse_input(path)
                os.replace(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
                raise
            finally:
                os.close(file)
        finally:
            os.close(folder)


def replace_text(path: Path, text: str) -> None:
    """Replaces a file by one with this text, in UTF-8, as `replacing` does."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def as_one_set(folder: Path) -> Iterator[None]:
    """Makes a folder for files that belong together, such as a table and its chart, and lets no other command write such
    a set into it until the block ends: it waits, for a moment, and the later set replaces the earlier as a whole.

    Where folders cannot be locked, as on NFS, files of two commands at once may still be mixed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    opened = os.open(folder, WHOLE_FOLDER)
    try:
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _refuse_another(file: int, name: str, folder: int) -> None:
    """Raises OSError if the file of this name is not the one that was made."""
    made, found = os.fstat(file), os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode) or (found.st_dev, found.st_ino) != (made.st_dev, made.st_ino):
        raise OSError(errno.EEXIST, "it was exchanged for another file while it was written", name)


@contextmanager
def _naming(path: Path, partial: set[str]) -> Iterator[None]:
    """Names `path` in an error that names its partial file, which no user has heard of."""
    try:
        yield
    except OSError as error:
        if error.filename in partial and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def lack_of_room(folder: Path, said: str = "") -> str:
    """Reason why nothing more can be written to the disk of `folder`; "" if it has room. said: the output of a program
    that wrote there, which may report a quota."""
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
