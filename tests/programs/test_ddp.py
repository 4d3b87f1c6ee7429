"""Real training beside the plan: examples/ddp.py, with the gradients, the buckets and the computation of a scenario."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

import pytest

import gradwire
from tests.end_to_end.programs.running import execute
from tests.programs.ddp_plan import BUCKET_MIB, HOSTS, ITERATION_S, LAYERS, scenario
from tests.shared.snippets import ROOT

pytestmark = [pytest.mark.programs, pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SCRIPT = ROOT / "examples" / "ddp.py"
ITERATION = re.compile(r"iteration \d+: (?P<seconds>[\d.]+) s")
ITERATIONS, WARMUP = 8, 2
"""In its first iteration DDP reduces all gradients at once, and then makes its buckets, for which the second one waits."""
WALL_LIMIT_S = 1800.0


def iteration_times_s(folder: Path, python: str, rate_gbps: int) -> list[float]:
    """Of the iterations after the warm-up, as the script prints them."""
    folder.mkdir()
    size = ("--workers", str(HOSTS), "--rate", f"{rate_gbps}gbit", "--memory", "8G", "--launch", "torch")
    computation = ("--iteration-s", str(ITERATION_S), "--layers", str(LAYERS), "--image", "2")
    words = (python, str(SCRIPT), *computation, "--bucket-mb", str(BUCKET_MIB), "--iterations", str(ITERATIONS))
    done = execute(folder, *size, "--", *words, wall_limit_s=WALL_LIMIT_S)
    assert done.status == 0, done.err
    return [float(found["seconds"]) for found in ITERATION.finditer(done.output("h1"))][WARMUP:]


@pytest.mark.parametrize("rate_gbps", [10, 25, 100])
def test_training_takes_the_plans_time(tmp_path: Path, torch_python: str, rate_gbps: int) -> None:
    planned_s = (
        gradwire.run(scenario(rate_gbps), out=tmp_path / "plan", progress=False).points["iteration_time_s"].item()
    )
    times_s = iteration_times_s(tmp_path / "real", torch_python, rate_gbps)
    print(f"\nDDP at {rate_gbps} Gbit/s: {times_s}, planned {planned_s}")
    assert len(times_s) == ITERATIONS - WARMUP
    assert statistics.mean(times_s) == pytest.approx(planned_s, rel=0.01)


def test_training_repeats(tmp_path: Path, torch_python: str) -> None:
    first, again = (iteration_times_s(tmp_path / name, torch_python, 25) for name in ("first", "again"))
    assert again == pytest.approx(first, rel=0.001)
