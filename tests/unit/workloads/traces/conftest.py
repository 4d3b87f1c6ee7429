"""Readers of formats are tried by themselves here; whoever calls them gives them a budget."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gradwire.reading_budget import reading_budget


@pytest.fixture(autouse=True)
def budget() -> Iterator[None]:
    """What the whole test may take."""
    with reading_budget("a test", 100_000_000):
        yield
