"""Whose something is, and whether the owner still lives."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from gradwire.vm import owners
from gradwire.vm.owners import is_gone, owner_of_folder, owner_of_process, temporary_folder, this_process


def test_a_process_lives_until_it_has_ended() -> None:
    mine = this_process()
    assert not is_gone(mine)
    pid, start, namespace = mine.split(".")
    assert is_gone(f"{pid}.{int(start) - 1:020d}.{namespace}"), "a number that another process had before"
    assert not is_gone(f"{pid}.{int(start) - 1:020d}.{1:010d}"), "of another process namespace"
    with pytest.raises(ValueError, match="names no process"):
        is_gone("12.5")


def test_a_temporary_folder_names_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as folder:
        assert owner_of_folder(folder) == this_process()
    assert not folder.exists()
    assert owner_of_folder(tmp_path / "gradwire-x1y2") is None


def test_a_process_tells_for_whom_it_was_started() -> None:
    environment = {owners.OWNER_VARIABLE: this_process()}
    child = subprocess.Popen(["sleep", "100"], env={"PATH": "/usr/bin:/bin", **environment})
    try:
        while owner_of_process(child.pid) is None and child.poll() is None:
            pass  # it has not begun the program yet
        assert owner_of_process(child.pid) == this_process()
    finally:
        child.kill()
        child.wait(120)
    assert owner_of_process(child.pid) is None
