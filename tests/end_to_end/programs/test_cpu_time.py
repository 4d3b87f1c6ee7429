"""Computation that takes the CPU time which the machine counts for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

LOOP = "import time; b = time.monotonic(); sum(range(3_000_000)); print('took', time.monotonic() - b)"
FACTOR = 4
WALL_S = 0.01
"""Less than any machine needs for the loop."""


def took_s(folder: Path, *options: str) -> list[float]:
    """How long the loop takes on each of two hosts, in virtual time."""
    done = execute(folder, "--workers", "2", "--rate", "10gbit", *options, "--", "python3", "-c", LOOP)
    assert done.status == 0, done.err
    return [float(found) for found in re.findall(r"took ([\d.e-]+)", done.out)]


def test_computation_takes_time_where_it_is_asked_to_and_on_all_hosts_at_once(tmp_path: Path) -> None:
    for name in ("free", "charged"):
        (tmp_path / name).mkdir()
    free, charged = took_s(tmp_path / "free"), took_s(tmp_path / "charged", "--cpu-time", str(FACTOR))
    assert all(each < 1e-5 for each in free)
    assert len(charged) == 2
    assert all(each > FACTOR * WALL_S for each in charged)
