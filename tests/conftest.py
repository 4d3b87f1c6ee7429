"""What all tests share: some take minutes, and are left to a command of their own."""

from __future__ import annotations

import pytest

LONG = "long"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves what takes minutes to `make test-long`."""
    if LONG in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker(LONG):
            item.add_marker(pytest.mark.skip(reason="minutes of two cores: make test-long"))
