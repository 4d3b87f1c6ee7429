"""The files that `make test` takes of those that boot machines are there."""

from __future__ import annotations

from pathlib import Path

from tests.core import CORE

TESTS = Path(__file__).resolve().parents[1]


def test_each_file_is_there() -> None:
    assert {file for file in CORE if not (TESTS / file).is_file()} == set()
