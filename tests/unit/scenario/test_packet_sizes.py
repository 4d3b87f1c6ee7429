"""Packets as large as switches take them, and none that are larger."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gradwire.scenario.sections.fabric import FabricSection


def test_packets_are_up_to_9216_bytes() -> None:
    document = {"rate": "10gbit", "mtu_bytes": 9216}
    assert FabricSection.model_validate(document).mtu_bytes == 9216
    with pytest.raises(ValidationError, match="9216"):
        FabricSection.model_validate(document | {"mtu_bytes": 9217})
