"""PyTorch's all-reduces over Gloo, unmodified, beside a ring's ideal time."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.programs.scenarios import figures_of

pytestmark = [pytest.mark.programs, pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

REPETITIONS = 25


@pytest.mark.parametrize("rate", ["10gbit", "25gbit", "100gbit"])
def test_gloo_has_a_rings_time(tmp_path: Path, torch_python: str, rate: str) -> None:
    rows = figures_of("gloo", tmp_path / "run", f"fabric.rate={rate}", f"program.gloo.arguments.python={torch_python}")
    ratios = [float(row["ratio"]) for row in rows]
    assert len(ratios) == REPETITIONS
    print(f"\nGloo at {rate}: median {statistics.median(ratios):.4f}, worst {max(ratios):.4f}")
    assert statistics.median(ratios) == pytest.approx(1, abs=0.01)
    assert max(ratios) == pytest.approx(1, abs=0.05)
