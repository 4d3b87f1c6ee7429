"""Processes that wait in a loop let virtual time pass, and hold nobody up (empty-poll.patch, 6.12/turns.patch)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gradwire.vm.batch_job import run_virtual
from gradwire.vm.machine import Boot

SOURCE = Path(__file__).with_name("beside.c")
LATEST_NS = 3_000
"""Two processes that read an empty pipe in turn, which takes 1 us each, and the waking process's own calls."""

pytestmark = [
    pytest.mark.kernel,
]


@pytest.mark.parametrize(
    "way", ["read", "poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait2", "sched_yield"]
)
def test_a_process_wakes_in_time_beside_two_that_wait_in_a_loop(virtual_kernel: Path, tmp_path: Path, way: str) -> None:
    program = tmp_path / "beside"
    subprocess.run(["gcc", "-O1", "-o", str(program), str(SOURCE)], check=True)
    lines: list[str] = []
    status = run_virtual(
        Boot(
            ["./beside", way, "2"],
            env={},
            cpu=max(os.sched_getaffinity(0)),
            memory_mb=512,
            workdir=tmp_path,
            openvswitch=False,
            kernel=virtual_kernel,
        ),
        time_limit_s=100,
        on_line=lines.append,
    )
    assert status == 0
    assert int(lines[0]) < LATEST_NS
