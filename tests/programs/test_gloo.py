"""PyTorch's all-reduces over Gloo, unmodified, beside a ring's ideal time."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute
from tests.programs.ideal import ring_s

pytestmark = [pytest.mark.programs, pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SCRIPT = Path(__file__).with_name("allreduce.py")
HOSTS, SIZE_BYTES, REPETITIONS, WALL_LIMIT_S = 8, 64_000_000, 25, 1800.0


@pytest.mark.parametrize("rate_gbps", [10, 25, 100])
def test_gloo_has_a_rings_time(tmp_path: Path, torch_python: str, rate_gbps: int) -> None:
    size = ("--workers", str(HOSTS), "--rate", f"{rate_gbps}gbit", "--memory", "8G", "--launch", "torch")
    words = (torch_python, str(SCRIPT), str(SIZE_BYTES), str(REPETITIONS))
    done = execute(tmp_path, *size, "--", *words, wall_limit_s=WALL_LIMIT_S)
    assert done.status == 0, done.err
    ideal_s = ring_s(HOSTS, SIZE_BYTES, rate_gbps * 1e9)
    ratios = [took_s / ideal_s for took_s in json.loads(done.output("h1"))]
    print(f"\nGloo at {rate_gbps} Gbit/s: median {statistics.median(ratios):.4f}, worst {max(ratios):.4f}")
    assert statistics.median(ratios) == pytest.approx(1, abs=0.01)
    assert max(ratios) == pytest.approx(1, abs=0.05)
