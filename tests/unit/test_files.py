"""Files that are written completely or not at all, in folders where somebody may have left links."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from gradwire.files import PARTIAL_SUFFIX, replace_text, replacing


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("old")
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
        assert partial.parent == tmp_path
        assert partial.name.endswith(PARTIAL_SUFFIX)
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["points.csv"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("years of work")
    link.symlink_to(victim)
    (tmp_path / "report.html.partial").symlink_to(victim)
    replace_text(link, "häßlich")
    assert victim.read_text() == "years of work"
    assert not link.is_symlink()
    assert link.read_bytes() == "häßlich".encode()


def test_the_name_of_a_partial_file_is_another_each_time_and_never_too_long(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    names = set()
    for _ in range(3):
        with replacing(path) as partial:
            names.add(partial.name)
    assert len(names) == 3


def test_what_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("old")

    def interrupted() -> None:
        with replacing(path) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("points.csv", "old")]


def test_a_partial_file_that_was_exchanged_is_not_taken(tmp_path: Path) -> None:
    path, victim = tmp_path / "points.csv", tmp_path / "victim"
    victim.write_text("years of work")

    def written(*, as_link: bool) -> None:
        with replacing(path) as partial:
            partial.unlink()
            if as_link:
                partial.symlink_to(victim)
            else:
                # A file of its own, while the one that was removed is still open and keeps its number.
                partial.write_text("another's")

    for as_link in (True, False):
        with pytest.raises(FileExistsError, match="exchanged"):
            written(as_link=as_link)
    assert [each.name for each in tmp_path.iterdir()] == ["victim"]


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "gone")), replacing(tmp_path / "gone" / "a.csv"):
        pass
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(IsADirectoryError) as raised, replacing(tmp_path / "a.csv"):
        pass
    assert raised.value.filename == str(tmp_path / "a.csv")
    with pytest.raises(OSError, match="No space") as full, replacing(tmp_path / "b.csv") as partial:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(partial))
    assert full.value.filename == str(tmp_path / "b.csv")
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
