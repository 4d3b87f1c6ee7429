"""The virtual-time kernel for end-to-end tests: built on first use, or skipped with the reason why it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from vm.faults import MachineFault
from vm.kernel import ensure_kernel


@pytest.fixture(scope="session")
def virtual_kernel() -> Path:
    """The kernel's path."""
    try:
        return ensure_kernel(lambda *_: None)
    except MachineFault as fault:
        pytest.skip(f"no virtual-time kernel: {fault}")
