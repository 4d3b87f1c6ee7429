"""A part of the test files: continuous integration runs one part of `make test-broad` with each change, and all parts within a few."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path


def part_of(text: str) -> tuple[int, int]:
    """The numbers of "K/N": which part, from 1 on, of how many.

    Raises:
        argparse.ArgumentTypeError: It is something else.
    """
    numbers = re.fullmatch(r"(\d+)/(\d+)", text)
    if numbers is None or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not K/N, the number of a part and how many there are, such as 2/4"
        )
    return int(numbers[1]), int(numbers[2])


def files_in_part(files: Iterable[Path], number: int, count: int) -> frozenset[Path]:
    """Every `count`-th of the files in the order of their names, beginning with the `number`-th: parts of like length, each file in one."""
    return frozenset(sorted(set(files))[number - 1 :: count])
