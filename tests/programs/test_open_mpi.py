"""Open MPI's ring, unmodified, beside its ideal time; and the same again, to the nanosecond."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import Executed, execute
from tests.end_to_end.programs.test_rates import ALLREDUCE, RING
from tests.programs.conftest import needs

pytestmark = [
    pytest.mark.programs,
    pytest.mark.kernel,
    pytest.mark.usefixtures("virtual_kernel"),
    needs("mpirun", "mpicc"),
]

HOSTS, WALL_LIMIT_S = 8, 1800.0


def all_reduce(folder: Path, rate_gbps: int) -> Executed:
    """16 MB over all hosts."""
    folder.mkdir()
    subprocess.run(["mpicc", "-O1", "-o", str(folder / "allreduce"), str(ALLREDUCE)], check=True)
    command = ("mpirun", *RING, "-np", str(HOSTS), "./allreduce", "16e6", f"{rate_gbps}e9")
    size = ("--workers", str(HOSTS), "--rate", f"{rate_gbps}gbit", "--launch", "mpi")
    done = execute(folder, *size, "--", *command, wall_limit_s=WALL_LIMIT_S)
    assert done.status == 0, done.err
    return done


@pytest.mark.parametrize("rate_gbps", [10, 100])
def test_open_mpis_ring_has_its_time_and_repeats(tmp_path: Path, rate_gbps: int) -> None:
    first, again = (all_reduce(tmp_path / name, rate_gbps) for name in ("first", "again"))
    print(f"\nOpen MPI at {rate_gbps} Gbit/s: median {first.output('h1').strip()}")
    assert float(first.output("h1")) == pytest.approx(1, abs=0.05)
    assert first.output("h1") == again.output("h1")
    assert first.summary()["report"] == again.summary()["report"]
