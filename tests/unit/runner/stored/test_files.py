"""Files that have changed since a run left them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from gradwire.faults import InputFault, InternalFault
from gradwire.runner.stored.files import reading, refuse_changed, seal, vouched


def test_a_changed_file_is_refused_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "ops.npz").write_bytes(b"times")
    seal(tmp_path, {"completed.json": b"{}"}, ["ops.npz"])
    (tmp_path / "completed.json").write_bytes(b"{}")
    for name in ("ops.npz", "completed.json"):
        refuse_changed(tmp_path / name)
    (tmp_path / "ops.npz").write_bytes(b"timez")
    with pytest.raises(InputFault, match=r"ops\.npz.*its content is not what the run left"):
        refuse_changed(tmp_path / "ops.npz")
    refuse_changed(tmp_path / "verdict.json")


def test_a_run_without_seals_is_read(tmp_path: Path) -> None:
    (tmp_path / "ops.npz").write_bytes(b"times")
    refuse_changed(tmp_path / "ops.npz")


def test_what_does_not_fit_together_is_the_folders_fault_only_where_nothing_vouches_for_it(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="its files contradict each other"), vouched(tmp_path):
        raise InternalFault("the op log lacks op 3")
    seal(tmp_path, {}, [])
    with pytest.raises(InternalFault, match="lacks op 3"), vouched(tmp_path):
        raise InternalFault("the op log lacks op 3")


def test_what_a_damaged_file_repeats_of_itself_is_cut(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="is damaged: names differ") as refused, reading(tmp_path / "ops.npz"):
        raise zipfile.BadZipFile("names differ: " + "ab " * 10_000)
    assert len(str(refused.value)) < 600
