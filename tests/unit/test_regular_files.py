"""Files of others: only regular ones are opened, of a size that is known before."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradwire.reading_budget import reading_budget
from gradwire.regular_files import IrregularFileError, opened, read_bytes, read_text
from tests.shared.parts import in_order


@pytest.fixture(autouse=True)
def budget() -> Iterator[None]:
    """What the whole test may take."""
    with reading_budget("a test"):
        yield


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\r\nb\rc")
    assert read_bytes(tmp_path / "file", 6) == b"a\r\nb\rc"
    assert read_text(tmp_path / "file", 6) == "a\nb\nc"


def test_a_larger_one_is_refused_before_it_is_read_and_so_is_one_that_grows(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, 1 << 40)
    with pytest.raises(IrregularFileError, match=in_order("1,099,511,627,776 bytes", "100")):
        read_bytes(file, 100)
    # What /proc tells has no size until it is read.
    with pytest.raises(IrregularFileError, match=in_order("more than", " 2 ")):
        read_bytes(Path("/proc/self/status"), 2)


@pytest.mark.parametrize("target", ["/dev/zero", "file", "itself", "nowhere"])
def test_a_link_is_not_followed_unless_whoever_gave_it_may_choose(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_bytes(b"content")
    link = tmp_path / "itself"
    link.symlink_to(target)
    with pytest.raises(IrregularFileError, match="is a link"):
        opened(link, 100)
    if target == "file":
        assert read_bytes(link, 100, follow=True) == b"content"
    else:
        with pytest.raises(OSError, match=r"device|No such file|levels"):
            opened(link, 100, follow=True)


def test_pipes_folders_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path, what in (
        (tmp_path / "pipe", "is a pipe"),
        (tmp_path / "folder", "is a folder"),
        (Path("/dev/zero"), "is a device"),
    ):
        with pytest.raises(IrregularFileError, match=what):
            opened(path, 100)


def test_what_takes_a_files_place_after_it_was_looked_at_is_refused_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    regular = (tmp_path / "file").lstat()
    monkeypatch.setattr(Path, "stat", lambda *_, **__: regular)
    with pytest.raises(IrregularFileError, match="is a pipe"):
        opened(tmp_path / "pipe", 100)


@pytest.mark.devices
def test_a_device_node_is_refused(tmp_path: Path) -> None:
    os.mknod(tmp_path / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    with pytest.raises(IrregularFileError, match="is a device"):
        opened(tmp_path / "zero", 100)
