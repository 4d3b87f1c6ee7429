"""Why a virtual clock that stands still does so."""

from __future__ import annotations

import pytest

from gradwire.vm.session import MIB, stalled

ACTIVITY = "python on h8 (process 109)"


@pytest.mark.parametrize(
    ("share", "named", "option"),
    [(0.96, "1024 MiB of memory are full", "--memory"), (0.9, "must not wait", "--stall-limit")],
)
def test_full_memory_is_told_by_name(share: float, named: str, option: str) -> None:
    said = str(stalled(20, ACTIVITY, int(share * 1024 * MIB), 1024))
    assert f"no virtual time has passed for 20 s of wall time, while {ACTIVITY} had the CPU" in said
    assert named in said
    assert said.count("--") == 1
    assert option in said
