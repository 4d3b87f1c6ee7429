"""How NCCL divides a lone call among channels.

The values were printed by the part of `scheduleCollTasksToPlan` that does so (src/enqueue.cc of each tag in
`tables.TAGS`), compiled by itself.
"""

from __future__ import annotations

import pytest

from gradwire.workloads.engines.nccl.channel_shares import shares_of
from gradwire.workloads.engines.nccl.tables import version_of

SMALL_BY_LL = (3562, 2, True, 1, 24)
MIB_BY_LL = (1 << 20, 2, True, 16, 16)
MIB = (1 << 20, 2, False, 16, 16)
KB_100 = (100_000, 2, False, 16, 16)
OF_24_RANKS = (4096, 24, True, 2, 16)
ONE_CHANNEL = (5000, 2, True, 1, 1)


@pytest.mark.parametrize(
    ("call", "version", "channels", "fullest"),
    [
        (SMALL_BY_LL, "2.22", 2, 3552),
        (SMALL_BY_LL, "2.23", 1, 3562),
        (SMALL_BY_LL, "2.26", 2, 2048),
        (SMALL_BY_LL, "2.29", 1, 3562),
        (MIB_BY_LL, "2.25", 16, 65536),
        (MIB_BY_LL, "2.27", 16, 86016),
        (MIB_BY_LL, "2.30", 16, 114688),
        (MIB, "2.22", 16, 65536),
        (MIB, "2.30", 16, 65536),
        (KB_100, "2.22", 16, 6256),
        (KB_100, "2.28", 13, 8192),
        (KB_100, "2.29", 7, 16384),
        (OF_24_RANKS, "2.24", 2, 2064),
        (OF_24_RANKS, "2.28", 8, 528),
        (OF_24_RANKS, "2.30", 6, 704),
        (ONE_CHANNEL, "2.22", 1, 5000),
        (ONE_CHANNEL, "2.30", 1, 5000),
    ],
)
def test_channels_and_the_fullest_of_them_are_those_of_nccls_own_code(
    call: tuple[int, int, bool, int, int], version: str, channels: int, fullest: int
) -> None:
    own_bytes, traffic_per_byte, by_ll, wanted, there = call
    shares = shares_of(version_of(version), own_bytes, traffic_per_byte, by_ll=by_ll, wanted=wanted, there=there)
    assert shares == (channels, fullest)
