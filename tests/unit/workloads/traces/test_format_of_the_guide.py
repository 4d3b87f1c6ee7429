"""The format that the guide adds: as short as it says, and read like the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces import trace_import
from tests.shared.snippets import shown_file
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_traces import imported

MOST_LINES = 80


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's format among the known ones."""
    text = shown_file("~/line_format.py").text
    assert len(text.splitlines()) < MOST_LINES
    module: dict[str, Any] = {}
    exec(text, module)
    added = trace_import.Format(module["NAME"], module["recognises"], module["read"])
    monkeypatch.setattr(trace_import, "FORMATS", (*trace_import.FORMATS, added))


def test_the_guides_format_is_read(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"job.{rank}").write_text("compute 250\nall-reduce 4096\ncompute 10\n")
    outcome = imported(tmp_path / "job.0", tmp_path / "job.1")
    assert outcome.workload is not None
    assert chain(outcome.workload, 1) == [("compute", 250, []), ("all-reduce", 4096, [0]), ("compute", 10, [1])]


def test_its_mistakes_have_a_place(tmp_path: Path) -> None:
    (tmp_path / "job.0").write_text("compute 250\nall-reduce many\n")
    with pytest.raises(InputFault, match="line 2: "):
        imported(tmp_path / "job.0")
