"""The compiled agent, built once for the tests of a process."""

from __future__ import annotations

import ctypes

import pytest

from tests.unit.agents.compiled.driven import build


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The agent with what tests need beside it."""
    return build(tmp_path_factory.mktemp("agent"))
