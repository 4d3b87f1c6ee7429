"""Opens only regular files, whose size is known before anything is read.

Files come from others: in the place of one may be a pipe, which never sends anything, a device, which never ends, or a
link to either. None of these is opened: they raise OSError, with what the file is in words.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

from gradwire.faults import InternalFault
from gradwire.input_files import note_input
from gradwire.reading_budget import is_budgeted

MESSAGE_BYTES = 16 << 20
"""Largest size of a JSON or TOML file: a hundred times the largest scenario, verdict or note of a run that comes with
gradwire."""
RECORD_BYTES = 256 << 20
"""Largest size of a run's record: a network of 1,024 hosts has 65,536 counters of some 100 bytes, and a connection's
state takes 300 bytes."""
TABLE_BYTES = 256 << 20
"""Largest size of a CSV file, and of what a program reported: a million rows of 256 bytes."""
CAPTURE_BYTES = 1 << 40
"""Largest size of a capture, which is read packet by packet: 20 minutes of a port at 10 Gbit/s."""
CHUNK_BYTES = 1 << 20
KINDS = (
    (stat.S_ISLNK, "is a link, which is not followed here"),
    (stat.S_ISDIR, "is a folder, where a file is wanted"),
    (stat.S_ISFIFO, "is a pipe, which may never say anything; write it to a file"),
    (stat.S_ISSOCK, "is a socket, and not a file"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "is a device, which may never end; write it to a file"),
)
"""Tests of a mode for kinds of files that are not regular, with the words that say so in messages."""


class IrregularFileError(OSError):
    """In the place of a file lies something else, or it is too large. `strerror` says which."""

    def __init__(self, path: Path, what: str) -> None:
        """what: goes behind the name of the file."""
        super().__init__(errno.EINVAL, what, str(path))


def opened(path: Path, most_bytes: int | None, *, follow: bool = False, bounded: bool = False) -> BinaryIO:
    """Opens a regular file of at most so many bytes for reading, without a buffer.

    follow: whether `path` may be a link, as one that the user gave on the command line may. Files of run folders may
    not. bounded: whether the reader takes no more time and memory than the file's size says, whatever is in it.

    Raises OSError; IrregularFileError for what is not a regular file, or too large; InternalFault outside of a
    `reading_budget`, if the reader is not bounded.
    """
    if not bounded and not is_budgeted():
        raise InternalFault(f"{path} is read without a limit of time and memory; report this with the command")
    # Opening some devices does something already, so what is there is looked at before; and again after, for it may
    # have changed.
    _refuse(path, path.stat(follow_symlinks=follow), most_bytes)
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW))
    try:
        status = os.fstat(file)
        _refuse(path, status, most_bytes)
        note_input(path, status, is_named=follow)
        return cast(BinaryIO, io.FileIO(file, "rb"))
    except OSError:
        os.close(file)
        raise


def read_bytes(path: Path, most_bytes: int, *, follow: bool = False, bounded: bool = False) -> bytes:
    """The content of a regular file. Raises OSError as `opened` does, also for a file that grew beyond the limit since
    it was opened."""
    with opened(path, most_bytes, follow=follow, bounded=bounded) as file:
        content = bytearray()
        while chunk := file.read(min(CHUNK_BYTES, most_bytes + 1 - len(content))):
            content += chunk
            if len(content) > most_bytes:
                raise IrregularFileError(path, _too_large(len(content), most_bytes))
        return bytes(content)


def read_text(
    path: Path, most_bytes: int, *, encoding: str = "utf-8", errors: str = "strict", follow: bool = False
) -> str:
    """Reads a file of at most `most_bytes` as text, with LF as the end of lines. Raises the errors of `read_bytes`, and
    UnicodeDecodeError."""
    text = read_bytes(path, most_bytes, follow=follow).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _refuse(path: Path, status: os.stat_result, most_bytes: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise IrregularFileError(
            path, next((what for of, what in KINDS if of(status.st_mode)), "is not a regular file")
        )
    if most_bytes is not None and status.st_size > most_bytes:
        raise IrregularFileError(path, _too_large(status.st_size, most_bytes))


def _too_large(size_bytes: int, most_bytes: int) -> str:
    return f"has {size_bytes:,} bytes, more than the {most_bytes:,} that such a file may have"
