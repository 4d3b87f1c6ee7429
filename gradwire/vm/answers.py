"""Answers that a job in the virtual-time kernel waits for while no virtual time passes at all.

Whatever comes over a terminal is noticed by the kernel when its processes wait, and so when time passes: a microsecond
for each look, as often as the other side lets it look. A symbolic link of the machine is different. To read it is a call
that succeeds, says something and takes no time (vm/patches/6.12/unchanging.patch), and the process that makes it never
leaves the CPU. So the job reads a link until it names the next answer, which stops the clock and everything else that
runs in the kernel, however long it takes.

How often it does so is chance, so a look must leave nothing behind in the kernel. Of one that follows a path, records of
its folders are left, which are freed when time passes; of one that lists a folder, addresses, and when these are many the
kernel wakes one of its processes to give them back. So the folder and the link are kept open, which keeps their records,
and the machine is asked for the link's text alone.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_NAME = "answers"
"""Name of the folder of answers, in that through which caller and kernel exchange data (vm/machine.py)."""
LAST_NAME, PARTIAL_NAME = "last", "partial"
READ_BYTES = 1 << 16


def _name(number: int) -> str:
    """Returns the name of an answer. All are equally long, since the content of memory may not depend on it, and sort
    by number."""
    return f"{number:09d}"


class Answering:
    """The side outside, which makes the folder in `box`."""

    def __init__(self, box: Path) -> None:
        self._folder, self._count = box / FOLDER_NAME, 0
        self._folder.mkdir()
        self._show()

    def give(self, answer: bytes) -> None:
        """Gives the next answer."""
        self._count += 1
        (self._folder / _name(self._count)).write_bytes(answer)
        self._show()

    def _show(self) -> None:
        """Makes the link name the last answer, which is complete."""
        partial = self._folder / PARTIAL_NAME
        partial.symlink_to(_name(self._count))
        partial.rename(self._folder / LAST_NAME)


class Answers:
    """The side in the kernel."""

    def __init__(self, box: Path) -> None:
        folder = box / FOLDER_NAME
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._last = os.open(folder / LAST_NAME, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._count = 0

    def next(self) -> bytes:
        """The next answer, for which it waits while the virtual clock and all other processes stand still."""
        self._count += 1
        name = _name(self._count)
        while os.readlink(LAST_NAME, dir_fd=self._folder) < name:
            pass
        return self._take(name)

    def _take(self, name: str) -> bytes:
        """Reads and removes an answer. It does not use Python's own files: they ask whether they are terminals, and the
        call that says no lets a microsecond pass."""
        file, parts = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder), []
        while part := os.read(file, READ_BYTES):
            parts.append(part)
        os.close(file)
        os.unlink(name, dir_fd=self._folder)
        return b"".join(parts)
