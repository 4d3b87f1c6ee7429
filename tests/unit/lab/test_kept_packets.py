"""The captures of a lab are copied into a folder of the user's whole, and through no link that lies there."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from gradwire.faults import InputFault, MachineFault
from gradwire.lab.network import _copied


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    file = tmp_path / "h1-eth0.pcapng"
    file.write_bytes(b"packets")
    return file


def test_a_link_is_replaced_and_not_what_it_leads_to(captured: Path, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "kept"
    victim.write_text("years of work")
    folder.mkdir()
    (folder / captured.name).symlink_to(victim)
    (folder / "h2-eth0.pcapng").write_text("of another lab")
    assert _copied([captured], folder) == [folder / captured.name]
    assert [(each.name, each.read_bytes()) for each in folder.iterdir()] == [(captured.name, b"packets")]
    assert victim.read_text() == "years of work"


def test_what_is_no_folder_is_named(captured: Path) -> None:
    with pytest.raises(InputFault, match=captured.name):
        _copied([captured], captured)


def test_half_a_capture_is_not_kept(captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(_: Path, to: Path) -> None:
        to.write_bytes(b"pack")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(to))

    monkeypatch.setattr(shutil, "copyfile", half)
    with pytest.raises(MachineFault, match=captured.name):
        _copied([captured], tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []
