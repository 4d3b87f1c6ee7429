"""Cleaning beside others who clean, and beside commands that remove their own."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gradwire.runs import cleaning
from gradwire.vm.owners import FOLDER_PREFIX


@pytest.fixture
def dead_commands_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two temporary folders of commands that are gone; nothing else of this machine is looked at."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(cleaning, "_processes", list)
    monkeypatch.setattr(cleaning, "owner_of_folder", lambda _: "dead")
    monkeypatch.setattr(cleaning, "is_gone", lambda _: True)
    folders = [tmp_path / f"{FOLDER_PREFIX}{name}" for name in "ab"]
    for folder in folders:
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "file").touch()
    return folders


def test_a_full_disk_is_cleaned(
    dead_commands_folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_usable() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none_usable)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert sorted(cleaned(tmp_path / "cache")) == sorted(map(str, dead_commands_folders))
    assert not any(folder.exists() for folder in dead_commands_folders)


def cleaned(cache: Path) -> list[str]:
    return [leaving.what for leaving in cleaning.clean([], cache, dry_run=False)]


def test_a_folder_that_goes_after_it_was_listed_is_passed_over(
    tmp_path: Path, dead_commands_folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = dead_commands_folders
    listed = Path.glob

    def then_gone(path: Path, pattern: str, **options: Any) -> Any:
        found = list(listed(path, pattern, **options))
        shutil.rmtree(first, ignore_errors=True)
        return iter(found)

    monkeypatch.setattr(Path, "glob", then_gone)
    assert cleaned(tmp_path / "cache") == [str(second)]
    assert not second.exists()


def test_two_may_clean_at_once(
    tmp_path: Path, dead_commands_folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = shutil.rmtree

    def overtaken(path: Path) -> None:
        (path / "inner" / "file").unlink(missing_ok=True)
        monkeypatch.setattr(shutil, "rmtree", removed)
        raise FileNotFoundError(path / "inner" / "file")

    monkeypatch.setattr(shutil, "rmtree", overtaken)
    assert cleaned(tmp_path / "cache") == [str(folder) for folder in dead_commands_folders]
    assert not any(folder.exists() for folder in dead_commands_folders)
