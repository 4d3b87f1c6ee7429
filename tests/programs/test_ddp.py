"""Real training beside the plan: examples/ddp.py, with the gradients, the buckets and the computation of a scenario."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

import gradwire
from tests.programs.scenarios import figures_of
from tests.shared.snippets import ROOT

pytestmark = [pytest.mark.programs, pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SCRIPT = ROOT / "examples" / "ddp.py"
ITERATIONS, WARMUP = 8, 2
"""In its first iteration DDP reduces all gradients at once, and then makes its buckets, for which the second one waits."""


def iteration_times_s(folder: Path, python: str, rate_gbps: int) -> list[float]:
    """Of the iterations after the warm-up."""
    rows = figures_of("ddp", folder, f"fabric.rate={rate_gbps}gbit", f"program.training.arguments.python={python}")
    return [float(row["iteration_s"]) for row in rows][WARMUP:]


@pytest.mark.parametrize("rate_gbps", [10, 25, 100])
def test_training_takes_the_plans_time(tmp_path: Path, torch_python: str, rate_gbps: int) -> None:
    plan = ROOT / "examples" / "programs" / "ddp-plan.toml"
    points = gradwire.run(plan, set={"fabric.rate": f"{rate_gbps}gbit"}, out=tmp_path / "plan", progress=False).points
    planned_s = points["iteration_time_s"].item()
    times_s = iteration_times_s(tmp_path / "real", torch_python, rate_gbps)
    print(f"\nDDP at {rate_gbps} Gbit/s: {times_s}, planned {planned_s}")
    assert len(times_s) == ITERATIONS - WARMUP
    assert statistics.mean(times_s) == pytest.approx(planned_s, rel=0.01)


def test_training_repeats(tmp_path: Path, torch_python: str) -> None:
    first, again = (iteration_times_s(tmp_path / name, torch_python, 25) for name in ("first", "again"))
    assert again == pytest.approx(first, rel=0.001)
