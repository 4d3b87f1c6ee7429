"""Answers that a job in the virtual-time kernel waits for while no virtual time passes at all.

Whatever comes over a terminal is noticed by the kernel when its processes wait, and so when time passes: a microsecond
for each look, as often as the other side lets it look. A folder of the machine is different. To list it is a call that
succeeds, says something and takes no time (vm/patches/6.12/unchanging.patch), and the process that makes it never
leaves the CPU. So the job lists its folder until the next answer lies there, which stops the clock and everything else
that runs in the kernel, however long it takes.

How often it lists the folder is chance, so a listing must leave nothing behind in the kernel. The folder stays open:
whenever a path is followed, the kernel makes a new record of each of its folders, and frees the old one only when time
passes. For the same reason the other side makes an answer elsewhere, and moves it here when it is whole.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_NAME, PARTIAL_NAME = "answers", "answer.partial"
"""In the folder through which caller and kernel exchange data (vm/machine.py)."""
READ_BYTES = 1 << 16


def _name(number: int) -> str:
    """Equally long for all, since what is in memory may not depend on it."""
    return f"{number:09d}"


class Answering:
    """The side outside, which makes the folder in `box`."""

    def __init__(self, box: Path) -> None:
        self._folder, self._count = box / FOLDER_NAME, 0
        self._partial = box / PARTIAL_NAME
        self._folder.mkdir()

    def give(self, answer: bytes) -> None:
        """Gives the next answer."""
        self._partial.write_bytes(answer)
        self._partial.rename(self._folder / _name(self._count))
        self._count += 1


class Answers:
    """The side in the kernel."""

    def __init__(self, box: Path) -> None:
        self._folder, self._count = os.open(box / FOLDER_NAME, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), 0

    def next(self) -> bytes:
        """The next answer, for which it waits while the virtual clock and all other processes stand still."""
        name = _name(self._count)
        self._count += 1
        while name not in os.listdir(self._folder):  # noqa: PTH208 (a path would be followed anew each time)
            pass
        return self._take(name)

    def _take(self, name: str) -> bytes:
        """Python's own files ask whether they are terminals, and the call that says no lets a microsecond pass."""
        file, parts = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder), []
        while part := os.read(file, READ_BYTES):
            parts.append(part)
        os.close(file)
        os.unlink(name, dir_fd=self._folder)
        return b"".join(parts)
