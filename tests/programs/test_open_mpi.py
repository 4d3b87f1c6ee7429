"""Open MPI's ring, unmodified, beside its ideal time; and the same again, to the nanosecond."""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.programs.test_rates import ALLREDUCE
from tests.programs.scenarios import figures_of

pytestmark = [
    pytest.mark.programs,
    pytest.mark.kernel,
    pytest.mark.usefixtures("virtual_kernel"),
]

REPETITIONS = 5


@pytest.mark.parametrize("rate", ["10gbit", "100gbit"])
def test_open_mpis_ring_has_its_time_and_repeats(tmp_path: Path, rate: str) -> None:
    binary = tmp_path / "allreduce"
    subprocess.run(["mpicc", "-O1", "-o", str(binary), str(ALLREDUCE)], check=True)
    settings = (f"fabric.rate={rate}", f"program.mpi.arguments.binary={binary}")
    first, again = (figures_of("open-mpi", tmp_path / name, *settings) for name in ("first", "again"))
    ratios = [float(row["ratio"]) for row in first]
    assert len(ratios) == REPETITIONS
    print(f"\nOpen MPI at {rate}: median {statistics.median(ratios):.4f}, worst {max(ratios):.4f}")
    assert statistics.median(ratios) == pytest.approx(1, abs=0.05)
    assert first == again
