"""Files that are replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.files import replacing


def test_a_file_changes_at_the_end_of_the_block(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fill_the_disk() -> None:
        with replacing(path) as partial:
            partial.write_text("ne")
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        fill_the_disk()
    assert path.read_text() == "old"
