"""Where `gradwire reproduce` finds the study of the papers, and what it says where there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from gradwire import PACKAGE
from gradwire.cli import reproducing
from gradwire.faults import InputFault
from gradwire.runs.executing.executor_choice import Where


def test_a_clone_has_the_study_beside_the_package() -> None:
    command = reproducing.study()
    assert isinstance(command, ModuleType)
    assert command.__file__ == str(PACKAGE.parent / "reproduction" / "command.py")


def test_another_package_of_that_name_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "reproduction"}
    other = tmp_path / "reproduction"
    other.mkdir()
    (other / "__init__.py").write_text("")
    (other / "command.py").write_text("raise AssertionError('this is not the study')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    try:
        assert __import__("reproduction").__file__ == str(other / "__init__.py")
        command = reproducing.study()
        assert isinstance(command, ModuleType)
        assert command.__file__ == str(PACKAGE.parent / "reproduction" / "command.py")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "reproduction"]:
            del sys.modules[name]
        sys.modules.update(before)


def test_an_installed_package_says_where_the_study_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where the folder that it is installed in has another package of the study's name."""
    monkeypatch.setattr(reproducing, "PACKAGE", tmp_path / "gradwire")
    (tmp_path / "reproduction").mkdir()
    (tmp_path / "reproduction" / "__init__.py").write_text("")
    (tmp_path / "reproduction" / "command.py").write_text("")
    with pytest.raises(InputFault, match="`reproduction`"):
        reproducing.study()


def test_pages_that_cannot_be_written_are_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "pages").touch()
    with pytest.raises(InputFault, match="--pages"):
        reproducing.study().reproduce(reproducing.ReproduceOptions(pages=tmp_path / "pages"), Where())
