"""What the command line prints arrives whatever the terminal's encoding."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gradwire.terminal_text import in_ascii


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_listing_with_letters_that_the_terminal_lacks(encoding: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gradwire", "strategies"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "200"},
        check=True,
    )
    listed = ended.stdout.decode(encoding)
    assert "ring" in listed
    assert ended.stderr == b""


@pytest.mark.parametrize(
    ("character", "spelled"), [("±", "+-"), ("✓", "ok"), ("ä", "a"), ("²", "2"), ("–", "-"), ("界", "?")]
)
def test_a_character_in_ascii(character: str, spelled: str) -> None:
    assert in_ascii(character) == spelled
