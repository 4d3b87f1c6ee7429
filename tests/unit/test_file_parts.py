"""The parts of the broad tests: together they are all files, and none is in two."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.file_parts import files_in_part, part_of

FILES = st.lists(st.integers(0, 200), max_size=200).map(
    lambda numbers: [Path(f"tests/test_{number}.py") for number in numbers]
)


@given(files=FILES, count=st.integers(1, 9))
def test_each_file_is_in_one_part_and_parts_are_alike(files: list[Path], count: int) -> None:
    parts = [files_in_part(files, number, count) for number in range(1, count + 1)]
    assert Counter(file for part in parts for file in part) == Counter(set(files))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_part_is_said_by_its_number_and_their_count() -> None:
    assert part_of("2/4") == (2, 4)
    for wrong in ("0/4", "5/4", "2", "2/0", "-1/4", "2/4/6", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            part_of(wrong)
