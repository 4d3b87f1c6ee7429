"""The files that a command is given, over which it never writes.

A command has two kinds of them: those that its line names beside an output, and those that it reads because the line or
a file of the user's names them (`regular_files.opened`, with `follow`). What is to be written is compared with them by
device and inode, so that another spelling of the path is found out as well. Only the command line begins this: a
program that uses gradwire as a library may write over what it has read an hour ago.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from gradwire.faults import InputFault

Identity = tuple[int, int]
"""Device and inode of a file."""
_known: dict[Identity, Path] = {}
"""Files that the command line and files of users name."""
_read: dict[Identity, Path] = {}
"""Other files that were read, such as those of a run folder."""
_is_begun: list[bool] = []


def begin_command(words: Iterable[str]) -> None:
    """Begins to note what a command is given, whose line has these words. A file that two of them name is an input,
    whatever else it is to be."""
    end_command()
    _is_begun.append(True)
    named: Counter[Identity] = Counter()
    for word in words:
        for path, identity in _files_in(word):
            named[identity] += 1
            if named[identity] > 1:
                _known[identity] = path


def end_command() -> None:
    """Ends what `begin_command` began."""
    _known.clear()
    _read.clear()
    _is_begun.clear()


def note_input(path: Path, status: os.stat_result, *, is_named: bool) -> None:
    """Notes a file that the command reads. is_named: whether the user, or a file of the user's, names it."""
    if _is_begun:
        (_known if is_named else _read).setdefault((status.st_dev, status.st_ino), path)


def refuse_input(path: Path, option: str = "") -> None:
    """Raises InputFault if a file that is to be replaced is one that the command was given. option: that names it; a file
    that an option names may be none that the command has read at all, such as one of a run."""
    if not _is_begun:
        return
    with suppress(OSError):  # it is not there yet
        status = path.stat(follow_symlinks=False)
        identity = (status.st_dev, status.st_ino)
        noted = _known.get(identity) or (_read.get(identity) if option else None)
        # A file that was read and removed since may have left its inode to another.
        if noted is not None and noted.samefile(path):
            raise InputFault(
                f"{option} {path}: is a file that this command reads, and would be overwritten; give another".lstrip()
            )


def forget_input(path: Path) -> None:
    """Lets the command write a file over that it was given, because it is the command's own, such as the scenario of a
    run folder."""
    with suppress(OSError):
        status = path.stat(follow_symlinks=False)
        _known.pop((status.st_dev, status.st_ino), None)


def _files_in(word: str) -> Iterator[tuple[Path, Identity]]:
    """Yields the regular file that a word names, whole or behind its `=`."""
    for name in dict.fromkeys((word, word.partition("=")[2])):
        with suppress(OSError, ValueError):  # it is no path
            path = Path(name)
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield path, (status.st_dev, status.st_ino)
