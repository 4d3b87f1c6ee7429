"""Answers that a job in the virtual-time kernel waits for while no virtual time passes at all.

Whatever comes over a terminal is noticed by the kernel when its processes wait, and so when time passes: a microsecond
for each look, as often as the other side lets it look. A folder of the machine is different. To list it is a call that
succeeds, says something and takes no time (vm/patches/6.12/unchanging.patch), and the process that makes it never
leaves the CPU. So the job lists its folder until the next answer lies there, which stops the clock and everything else
that runs in the kernel, however long it takes.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_NAME = "answers"
"""In the folder through which caller and kernel exchange data (vm/machine.py)."""


def _name(number: int) -> str:
    """Equally long for all, since what is in memory may not depend on it."""
    return f"{number:09d}"


class Answering:
    """The side outside, which makes the folder in `box`."""

    def __init__(self, box: Path) -> None:
        self._folder, self._count = box / FOLDER_NAME, 0
        self._folder.mkdir()

    def give(self, answer: bytes) -> None:
        """Gives the next answer."""
        partial, whole = self._folder / "partial", self._folder / _name(self._count)
        partial.write_bytes(answer)
        partial.rename(whole)
        self._count += 1


class Answers:
    """The side in the kernel."""

    def __init__(self, box: Path) -> None:
        self._folder, self._count = box / FOLDER_NAME, 0

    def next(self) -> bytes:
        """The next answer, for which it waits while the virtual clock and all other processes stand still."""
        name = _name(self._count)
        self._count += 1
        while name not in os.listdir(self._folder):  # noqa: PTH208 (a path for each name would be made in vain)
            pass
        file = self._folder / name
        answer = file.read_bytes()
        file.unlink()
        return answer
