"""What lies in the cache is read or made again, whatever lies there, and nobody waits for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwire.cache_files import cached, kept
from gradwire.runs.compiling.scale_division import ScaleDivision
from tests.hostile.stand_ins import STAND_INS

FOUND = ScaleDivision(4, 0.25)


def test_what_was_computed_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "divisions" / "one"
    assert cached(path, ScaleDivision, lambda: FOUND) == FOUND
    assert cached(path, ScaleDivision, ScaleDivision) == FOUND


@pytest.mark.parametrize(
    "content", [b"", b'{"number": 4', b"[" * 100_000, b'{"number": "4"}', b"\xff", b'{"x": ' + b"[" * 9999]
)
def test_what_cannot_be_read_is_computed_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "one"
    path.write_bytes(content)
    assert kept(path, ScaleDivision) is None
    assert cached(path, ScaleDivision, lambda: FOUND) == FOUND
    assert kept(path, ScaleDivision) == FOUND


@pytest.mark.parametrize("number", range(len(STAND_INS)))
def test_what_is_no_file_is_none(tmp_path: Path, number: int) -> None:
    path = tmp_path / "one"
    STAND_INS[number](path)
    assert kept(path, ScaleDivision) is None
    assert cached(path, ScaleDivision, lambda: FOUND) == FOUND


def test_a_pipe_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "one"
    os.mkfifo(path)
    cached(path, ScaleDivision, lambda: FOUND)
    assert kept(path, ScaleDivision) == FOUND
