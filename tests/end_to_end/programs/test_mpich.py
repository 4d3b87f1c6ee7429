"""MPICH's mpirun starts a process on each host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.usefixtures("virtual_kernel"),
]


def test_mpich_starts_a_process_on_each_host(tmp_path: Path) -> None:
    size = ("--workers", "3", "--rate", "10gbit", "--launch", "mpi")
    done = execute(tmp_path, *size, "--", "mpirun.mpich", "-n", "3", "hostname")
    assert done.status == 0, done.err
    assert sorted(done.output("h1").splitlines()) == ["h1", "h2", "h3"]
    assert "valid: " in done.out
