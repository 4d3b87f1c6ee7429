"""Sizes that no call can have are refused where calls are noted, whatever format said them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import MOST_BYTES, AllToAllParts, Call, Findings, RankRecord
from gradwire.workloads.traces.workload import Kind


@pytest.mark.parametrize("size_bytes", [-1, MOST_BYTES + 1, 2**80])
@pytest.mark.parametrize("place", ["whole", "put in", "got"])
def test_sizes_beyond_reason_are_refused(size_bytes: int, place: str) -> None:
    sizes = {"whole": 8, "put in": 4, "got": 4} | {place: size_bytes}
    parts = AllToAllParts((4, sizes["put in"]), (4, sizes["got"]))
    record = RankRecord(Path("0.log"), "made up", Findings())
    with pytest.raises(InputFault, match=r"0\.log"):
        record.call(Call(Kind.ALL_TO_ALL, "line 1", sizes["whole"], parts=parts))


def test_the_largest_sizes_are_taken() -> None:
    record = RankRecord(Path("0.log"), "made up", Findings())
    parts = AllToAllParts((MOST_BYTES, 0), (0, MOST_BYTES))
    assert record.call(Call(Kind.ALL_TO_ALL, "line 1", MOST_BYTES, parts=parts)) == 0
