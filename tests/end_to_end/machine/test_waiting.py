"""Processes that wait in a loop let virtual time pass, as much at once as they can wait, and hold nobody up
(empty-poll.patch, 6.12/turns.patch,
6.12/yields-and-polls.patch)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gradwire.vm.batch_job import run_virtual
from gradwire.vm.machine import Boot

LATEST_NS = 3_000
"""Two processes that read an empty pipe in turn, which takes 1 us each, and the waking process's own calls."""

MOST_QUESTIONS = 20_000
"""So many take a third of a second of CPU time. 300 ms are 6 million, at 48 ns each as before."""

pytestmark = [
    pytest.mark.kernel,
]


def _said_by(program: str, arguments: list[str], kernel: Path, folder: Path) -> list[int]:
    """Compiles a program of this folder, runs it in a kernel of its own, and returns the numbers that it prints."""
    source = Path(__file__).with_name(f"{program}.c")
    subprocess.run(["gcc", "-O1", "-o", str(folder / program), str(source)], check=True)
    lines: list[str] = []
    status = run_virtual(
        Boot(
            [f"./{program}", *arguments],
            env={},
            cpu=max(os.sched_getaffinity(0)),
            memory_mb=512,
            workdir=folder,
            openvswitch=False,
            kernel=kernel,
        ),
        time_limit_s=100,
        on_line=lines.append,
    )
    assert status == 0
    return [int(number) for number in lines[0].split()]


@pytest.mark.parametrize(
    "way", ["read", "poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait2", "sched_yield"]
)
def test_a_process_wakes_in_time_beside_two_that_wait_in_a_loop(virtual_kernel: Path, tmp_path: Path, way: str) -> None:
    (latest_ns,) = _said_by("beside", [way, "2"], virtual_kernel, tmp_path)
    assert latest_ns < LATEST_NS


@pytest.mark.parametrize("wait_ms", [20, 300])
@pytest.mark.parametrize("way", ["both", "poll", "epoll", "zero"])
def test_a_descriptor_that_says_something_is_noticed_at_once(
    virtual_kernel: Path, tmp_path: Path, way: str, wait_ms: int
) -> None:
    late_ns, asked = _said_by("vain", [way, str(wait_ms)], virtual_kernel, tmp_path)
    assert 0 <= late_ns < LATEST_NS
    assert asked < MOST_QUESTIONS


@pytest.mark.parametrize("wait_ms", [20, 300])
@pytest.mark.parametrize("way", ["deadline", "again"])
def test_what_no_descriptor_says_is_noticed_after_a_thousandth_of_the_wait(
    virtual_kernel: Path, tmp_path: Path, way: str, wait_ms: int
) -> None:
    late_ns, asked = _said_by("vain", [way, str(wait_ms)], virtual_kernel, tmp_path)
    assert 0 <= late_ns < wait_ms * 1_000_000 / 1024 + LATEST_NS
    assert asked < MOST_QUESTIONS
