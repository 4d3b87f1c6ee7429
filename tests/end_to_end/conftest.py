"""The virtual-time kernel for end-to-end tests: built on first use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwire.vm.kernel import ensure_kernel


@pytest.fixture(scope="session", autouse=True)
def _own_core() -> None:
    """Test processes side by side (pytest-xdist) keep to a core each, and so do the kernels that they boot."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[int(worker.removeprefix("gw")) % len(cpus)]})


@pytest.fixture(scope="session")
def virtual_kernel() -> Path:
    """The kernel's path. Raises MachineFault where it cannot be built."""
    return ensure_kernel(lambda *_: None)
