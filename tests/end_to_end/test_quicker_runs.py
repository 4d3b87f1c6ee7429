"""Runs that are made quicker: divided bytes give the times of the whole, and a few blocks those of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradwire
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

ASKED = 0.01


@pytest.mark.parametrize("strategy", ["ring", pytest.param("vanilla", marks=pytest.mark.long)])
def test_a_divided_run_is_off_by_less_than_was_asked_for(tmp_path: Path, strategy: str) -> None:
    scenario = {
        "title": "divided",
        "cluster": {"workers": 4},
        "fabric": {"rate": "25gbit"},
        "model": {"name": "alexnet", "device": "k40"},
        "strategy": {"name": strategy},
        "run": {"iterations": 2},
    }
    exact = gradwire.run(scenario, out=tmp_path / "exact", progress=False)
    divided = gradwire.run(scenario, set={"run.fidelity": f"{ASKED:%}"}, out=tmp_path / "divided", progress=False)
    assert exact.valid
    assert divided.valid
    (whole, quick) = (run.points.iloc[0] for run in (exact, divided))
    assert quick["bytes_sent"] < whole["bytes_sent"] / 4
    assert quick["iteration_time_s"] == pytest.approx(whole["iteration_time_s"], rel=ASKED)
    assert tells((tmp_path / "divided" / "table.md").read_text(), "fidelity:", "1 point", "divided by")


@pytest.mark.long
def test_a_few_blocks_say_what_all_of_them_take(tmp_path: Path) -> None:
    """BERT-large on four GPUs of two machines, ranked by 8 of its 24 blocks, and run with all of them."""
    asked: dict[str, Any] = {"model": "bert-large", "parallel": "data=2,tensor=2", "device": "h100", "rate": "100gbit"}
    few = gradwire.compare(**asked, out=tmp_path / "few", progress=False)
    every = gradwire.compare(**asked, set={"model.blocks": 24}, out=tmp_path / "every", progress=False)
    assert few.valid
    assert every.valid
    ranked, measured = (run.compare().set_index("options")["iteration_time_s"] for run in (few, every))
    assert (ranked / measured).to_numpy() == pytest.approx(1.0, abs=ASKED)
    short = few.points["iteration_time_s"].to_numpy()
    assert (short < 0.6 * measured.to_numpy()).all()
