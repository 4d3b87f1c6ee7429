"""The byte code that jobs find: of the same modules whatever lies beside the sources, and written anew when a source changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gradwire.faults import MachineFault
from gradwire.vm import byte_code
from gradwire.vm.byte_code import MANIFEST, Manifest, byte_code_folder
from gradwire.vm.code_digest import machine_modules
from tests.shared.parts import in_order


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path / "cache"))
    byte_code._filled_folder.cache_clear()
    yield
    byte_code._filled_folder.cache_clear()  # later tests of this process have another cache


def filled(*modules: str) -> tuple[Path, Manifest]:
    byte_code._filled_folder.cache_clear()
    folder = byte_code_folder(modules)
    return folder, msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)


def compiled(folder: Path) -> dict[str, int]:
    return {path.name.partition(".")[0]: path.stat().st_mtime_ns for path in folder.rglob("*.pyc")}


def test_it_has_all_that_the_modules_import() -> None:
    folder, manifest = filled("gradwire.network.fabric")
    assert {"fabric", "faults", "dataclasses"} <= set(compiled(folder))
    assert {Path(source.path).stem for source in manifest.sources} >= {"fabric", "faults", "dataclasses"}


def test_it_is_written_once_and_again_when_a_source_or_the_modules_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "gradwire_test_job.py"
    source.write_text("import colorsys\n")
    monkeypatch.setattr(byte_code, "PACKAGE", tmp_path / "gradwire")  # its parent is where jobs import from
    folder, _ = filled("gradwire_test_job")
    before = compiled(folder)
    filled("gradwire_test_job")
    assert compiled(folder) == before
    source.write_text("import colorsys, sched\n")
    os.utime(source, ns=(1, 1))
    _, manifest = filled("gradwire_test_job")
    assert "sched" in compiled(folder)
    assert manifest.up_to_date
    assert filled("gradwire_test_job", "wave")[1].modules == ("gradwire_test_job", "wave")
    (folder / MANIFEST).write_text("{")
    assert filled("gradwire_test_job")[1].up_to_date


def test_another_installation_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One folder for both would look up to date to the second, with byte code that it does not find."""
    installations = [tmp_path / name for name in ("clone", "another-clone")]
    folders = set()
    for installation in installations:
        installation.mkdir()
        (installation / "gradwire_test_job.py").write_text("import colorsys\n")
        monkeypatch.setattr(byte_code, "PACKAGE", installation / "gradwire")
        folder, manifest = filled("gradwire_test_job")
        assert str(installation / "gradwire_test_job.py") in {source.path for source in manifest.sources}
        assert "gradwire_test_job" in compiled(folder)
        folders.add(folder)
    assert len(folders) == len(installations)


def test_what_cannot_be_imported_and_what_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MachineFault, match=in_order("ModuleNotFoundError", "'gradwire_no'")):
        filled("gradwire_no")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path / "file"))
    with pytest.raises(MachineFault, match="set GRADWIRE_CACHE"):
        filled("gradwire.faults")


def test_the_modules_of_a_run_are_imported_without_starting_anything() -> None:
    assert filled(*machine_modules())[1].modules == machine_modules()


def test_a_folder_that_somebody_removed_is_filled_anew() -> None:
    folder, _ = filled("gradwire.network.fabric")
    shutil.rmtree(folder)
    assert not byte_code.is_filled(folder)
    assert byte_code_folder(("gradwire.network.fabric",)) == folder
    assert {"fabric", "faults"} <= set(compiled(folder))
