"""NCCL's division of a lone call among channels: how many, and how much the fullest one has.

Source: `scheduleCollTasksToPlan`, src/enqueue.cc, since 2.22, at the tags in `tables.TAGS`.
"""

from __future__ import annotations

from gradwire.workloads.engines.nccl.tables import Version

GRANULE_BYTES = 16
"""What cells are multiples of; in 2.22, their size."""
LEAST_TRAFFIC_BYTES: dict[Version, int] = {(2, 22): 512, (2, 23): 16 << 10, (2, 29): 32 << 10}
"""`MinTrafficPerChannel`, by the version that brought it."""
LL_TRAFFIC = 4
LL_TRAFFIC_SINCE: Version = (2, 26)
"""Cells of LL are a quarter as large since then, so that small calls have more channels."""


def shares_of(
    version: Version, own_bytes: int, traffic_per_byte: int, *, by_ll: bool, wanted: int, there: int
) -> tuple[int, int]:
    """Returns the channels that a lone call uses, and the bytes of the fullest one.

    Data goes to channels in cells: first ones to the first channel, as many to each in the middle, and the rest to the last.

    own_bytes: of an all-gather and a reduce-scatter those of one rank, of others the buffer. traffic_per_byte: bytes that
    each of them makes a rank send (`ncclFuncTrafficPerByte`). wanted: the channels that NCCL sizes shares for; it uses more
    where cells are small, at most those that are `there`.
    """
    least = LEAST_TRAFFIC_BYTES[max(since for since in LEAST_TRAFFIC_BYTES if since <= version)]
    traffic = max(least, own_bytes * traffic_per_byte) // wanted
    # Since 2.29, a channel may have less than the least, in cells that have no less.
    traffic = max(least, traffic) if version < (2, 29) else _rounded_up(traffic)
    cell_per_byte = traffic_per_byte * (LL_TRAFFIC if by_ll and version >= LL_TRAFFIC_SINCE else 1)
    cell_bytes = GRANULE_BYTES if version == (2, 22) else _rounded_up(-(-least // cell_per_byte))
    cells = max(1, -(-own_bytes // cell_bytes))
    cell_traffic = cell_bytes * cell_per_byte
    each = min(cells, -(-traffic // cell_traffic))
    first = min(cells, traffic // cell_traffic if version == (2, 22) else each) if there > 1 else cells
    middle, last = divmod(cells - first, each)
    if (first > 0) + middle + (last > 0) > there:
        middle = there - 2
        each, more = divmod(cells - first, middle + 1)
        last = each + more
    elif last == 0 and middle:
        middle, last = middle - 1, each
    missing = cells * cell_bytes - own_bytes
    dealt = [first * cell_bytes, each * cell_bytes if middle else 0, last * cell_bytes]
    dealt[2 if last else 0] -= missing
    return max(1, (first > 0) + middle + (last > 0)), max(1, *dealt)


def _rounded_up(size_bytes: int) -> int:
    return -(-size_bytes // GRANULE_BYTES) * GRANULE_BYTES
