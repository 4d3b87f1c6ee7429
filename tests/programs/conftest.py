"""What the programs need, or why a test of them is skipped."""

from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest

from tests.end_to_end.conftest import virtual_kernel  # noqa: F401 (a fixture)

MARKER = "programs"
PACKAGES = {"iperf3": "iperf3", "mpirun": "openmpi-bin", "mpicc": "libopenmpi-dev"}
"""Debian's, by the program that they bring."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves these tests to `make test-programs`: most of them take minutes, and 8 GiB."""
    if MARKER in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker(MARKER):
            item.add_marker(pytest.mark.skip(reason="minutes each: make test-programs"))


@pytest.fixture(scope="session")
def torch_python() -> str:
    """The Python that runs scripts with PyTorch on hosts: the one of the tests."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install '.[torch]'")
    return sys.executable


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skips a test where programs are missing."""
    missing = [name for name in programs if shutil.which(name) is None]
    packages = " ".join(PACKAGES[name] for name in missing)
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed: apt-get install {packages}")
