"""Files that have changed since a run left them."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault, InternalFault
from gradwire.runs.stored.run_files import fitting, note_made_here, read_message, reading, refuse_changed, seal
from tests.shared.parts import in_order


def test_a_changed_file_is_refused_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "ops.npz").write_bytes(b"times")
    seal(tmp_path, {"completed.json": b"{}"}, ["ops.npz"])
    (tmp_path / "completed.json").write_bytes(b"{}")
    for name in ("ops.npz", "completed.json"):
        refuse_changed(tmp_path / name)
    (tmp_path / "ops.npz").write_bytes(b"timez")
    with pytest.raises(InputFault, match=r"ops\.npz.*content is not"):
        refuse_changed(tmp_path / "ops.npz")
    refuse_changed(tmp_path / "verdict.json")


def test_a_run_without_seals_is_read(tmp_path: Path) -> None:
    (tmp_path / "ops.npz").write_bytes(b"times")
    refuse_changed(tmp_path / "ops.npz")


def test_what_does_not_fit_together_is_the_folders_fault_whether_it_has_hashes_or_not(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InputFault, match="contradict each other"), fitting(tmp_path):
            raise InternalFault("the op log lacks op 3")
        seal(tmp_path, {}, [])


def test_what_does_not_fit_together_in_a_run_of_this_process_is_a_bug_until_somebody_changes_it(tmp_path: Path) -> None:
    (tmp_path / "ops.npz").write_bytes(b"times")
    seal(tmp_path, {}, ["ops.npz"])
    note_made_here(tmp_path)
    with pytest.raises(InternalFault, match="lacks op 3"), fitting(tmp_path):
        raise InternalFault("the op log lacks op 3")
    with pytest.raises(ValueError, match="rows = 7"), reading(tmp_path / "ops.npz"):
        raise ValueError("rows = 7")
    (tmp_path / "ops.npz").write_bytes(b"other times")
    with pytest.raises(InputFault, match="contradict each other"), fitting(tmp_path):
        raise InternalFault("the op log lacks op 3")
    with pytest.raises(InputFault, match=r"ops.npz: .*another version"), reading(tmp_path / "ops.npz"):
        raise ValueError("rows = 7")


def test_what_a_damaged_file_repeats_of_itself_is_cut(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="damaged: names differ") as refused, reading(tmp_path / "ops.npz"):
        raise zipfile.BadZipFile("names differ: " + "ab " * 10_000)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("count", [1, 50_000])  # small files and large ones are looked through by different code
def test_a_key_that_is_given_twice_is_refused(tmp_path: Path, count: int) -> None:
    whole = ", ".join(f'{{"number {number}": "{"a" * 20}"}}' for number in range(count))
    path = tmp_path / "verdict.json"
    for twice in ("", ', "valid": true'):
        path.write_text(f'{{"checks": [{whole}], "valid": false{twice}}}')
        with (
            contextlib.nullcontext() if not twice else pytest.raises(InputFault, match=in_order('"valid"', "twice")),
            reading(path),
        ):
            assert read_message(path, dict[str, Any])["valid"] is False
