"""Message headers survive a round trip, and anything else is rejected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwire.datatypes.plan import Contributions
from gradwire.datatypes.wire.framing import FIXED_BYTES, HEADER_DTYPE, Framing, Header
from gradwire.faults import InternalFault
from tests.shared.examples import examples

int32 = st.integers(-(2**31), 2**31 - 1)
uint32 = st.integers(0, 2**32 - 1)


@st.composite
def framed(draw: st.DrawFn) -> tuple[int, Header]:
    workers = draw(st.integers(1, 200))
    contributions = Contributions(draw(int32), draw(st.integers(0, (1 << workers) - 1)))
    sizes = st.integers(0, 2**63 - 1)
    fields = draw(uint32), draw(sizes), draw(int32), draw(int32), draw(int32), draw(int32), draw(sizes)
    return workers, Header(*fields, contributions)


@settings(max_examples=examples(80))
@given(framed())
def test_round_trip(case: tuple[int, Header]) -> None:
    workers, header = case
    framing = Framing(workers)
    data = framing.pack(header)
    assert len(data) == framing.header_bytes == 48 + (workers + 7) // 8
    assert framing.unpack(data) == header
    assert framing.unpack(memoryview(data)) == header


HEADER = Header(1, 2, 3, 4, 5, 6, 7, Contributions(0, 0b101))


def test_layout_on_the_wire() -> None:
    """The written format, byte by byte."""
    data = Framing(9).pack(HEADER)
    assert data[:8] == b"GWIR\x01\x00\x00\x02"
    assert [int.from_bytes(data[at : at + 4], "big") for at in (8, 12, 24, 28, 32, 36)] == [1, 0, 3, 4, 5, 6]
    assert [int.from_bytes(data[at : at + 8], "big") for at in (16, 40)] == [2, 7]
    assert data[48:] == b"\x05\x00"


def test_the_columns_of_many_headers_are_those_of_one() -> None:
    assert HEADER_DTYPE.itemsize == FIXED_BYTES
    (row,) = np.frombuffer(Framing(9).pack(HEADER)[:FIXED_BYTES], HEADER_DTYPE)
    names = (
        "mask_bytes",
        "iteration",
        "contributed_to",
        "message",
        "src_rank",
        "dst_rank",
        "tensor",
        "chunk",
        "size_bytes",
    )
    assert [row[name] for name in names] == [2, 1, 0, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("at", [0, 3, 4, 7])
def test_bytes_that_are_not_a_header_of_this_plan_are_rejected(at: int) -> None:
    data = bytearray(Framing(9).pack(HEADER))
    data[at] ^= 0x20
    with pytest.raises(InternalFault, match="lost its framing"):
        Framing(9).unpack(bytes(data))
    with pytest.raises(InternalFault, match="mask of 2 bytes"):
        Framing(17).unpack(Framing(9).pack(HEADER))
