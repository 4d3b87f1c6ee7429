"""What the tests of real programs share."""

from __future__ import annotations

import sys

import pytest

from tests.end_to_end.conftest import virtual_kernel  # noqa: F401 (a fixture)


@pytest.fixture(scope="session")
def torch_python() -> str:
    """The Python that runs scripts with PyTorch on hosts: the one of the tests."""
    return sys.executable
