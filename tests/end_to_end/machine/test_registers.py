"""Vector registers live through all that makes the virtual-time kernel save, restore or copy them.

Its patch leaves them in the host process for as long as it can (gradwire/vm/patches/6.12/register-state.patch).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gradwire.vm.batch_job import run_virtual
from gradwire.vm.machine import Boot

SOURCE = Path(__file__).with_name("registers.c")

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.avx,
]


def test_threads_signals_forks_and_faults_lose_no_register(virtual_kernel: Path, tmp_path: Path) -> None:
    program = tmp_path / "registers"
    subprocess.run(["gcc", "-O1", "-mavx", "-pthread", "-o", str(program), str(SOURCE)], check=True)
    subprocess.run([program], check=True, capture_output=True)  # the program itself, on the machine's own kernel
    lines: list[str] = []
    status = run_virtual(
        Boot(
            ["./registers"],
            env={},
            cpu=max(os.sched_getaffinity(0)),
            memory_mb=512,
            workdir=tmp_path,
            openvswitch=False,
            kernel=virtual_kernel,
        ),
        time_limit_s=60,
        on_line=lines.append,
    )
    assert (status, lines) == (0, ["registers kept"])
