"""`gradwire.map`: what the command draws, for Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import gradwire
from gradwire.faults import InputFault
from tests.unit.runs.mapping.test_mapping import question

OVER = {"fabric.rate": "1gbit..100gbit:3", "cluster.workers": [2, 4]}


def test_a_map_has_cells_borders_a_chart_and_files(tmp_path: Path) -> None:
    found = gradwire.map(question(), over=OVER, strategies=["ring", "vanilla"])
    assert len(found.cells) == 3 * 2 * 2
    assert found.conclusion.startswith("Of 6 cells")
    assert list(found.borders) == ["at", "from", "to", "changes at"]
    assert found.plot()._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    files = found.save(tmp_path / "map")
    assert files["map"].read_text().startswith("<!")
    texts = ["fabric.rate=1gbit..100gbit:3", "cluster.workers=2,4"]
    assert gradwire.map(question(), over=texts, strategies=["ring", "vanilla"]).cells.equals(found.cells)


def test_wrong_axes_and_numbers_are_refused() -> None:
    for one in ("fabric.rate=1gbit,2gbit", {"fabric.rate": ["1gbit", "2gbit"]}):
        with pytest.raises(InputFault, match="two axes"):
            gradwire.map(question(), over=one)
    with pytest.raises(InputFault, match="jobs = 0"):
        gradwire.map(question(), over=OVER, jobs=0)
    with pytest.raises(InputFault, match="tie = 2"):
        gradwire.map(question(), over=OVER, tie=2.0)
