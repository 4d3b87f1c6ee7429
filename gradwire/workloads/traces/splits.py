"""All-to-alls whose parts differ in size, as PyTorch records them: how much a rank puts in for each member, and gets
from each.

Lists of splits count rows of the first dimension, or elements where tensors are in lists; either way a part has the
same share of the rank's bytes as its number has of the sum. What one rank says that it gets from another has to be
what that one says that it puts in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradwire.workloads.traces.workload import Int64

CUT_SHORT = "..."
"""PyTorch writes so behind the first 30 entries of a long list."""


@dataclass(frozen=True)
class Parts:
    """Bytes of a rank's parts in one all-to-all, by member of its group."""

    put_in: tuple[int, ...]
    got: tuple[int, ...]


def is_uneven(split: str) -> bool:
    """Whether a recorded list has different numbers."""
    return len(set(re.findall(r"\d+", split))) > 1


def part_sizes(split: str, members: int, size_bytes: int) -> tuple[int, ...]:
    """Bytes of each part, given the recorded list, which is empty where parts are alike. Raises ValueError, with what
    is wrong."""
    counts = [int(number) for number in re.findall(r"\d+", split)] or [1] * members
    if CUT_SHORT in split:
        raise ValueError(f"the list of their sizes is cut short ('{CUT_SHORT}')")
    if len(counts) != members:
        raise ValueError(f"{len(counts)} sizes are listed for {members} ranks")
    total = sum(counts)
    if total == 0 and size_bytes == 0:
        return (0,) * members
    if total == 0 or size_bytes % total:
        raise ValueError(f"sizes that add up to {total:,} do not divide its {size_bytes:,} bytes")
    return tuple(count * (size_bytes // total) for count in counts)


class Disagreement(ValueError):
    """Members of a call do not agree on its parts."""

    def __init__(self, member: int, what: str) -> None:
        super().__init__(what)
        #: Place of the member in the group.
        self.member = member


def agreed(recorded: Sequence[Parts | None], sizes: Sequence[int]) -> list[Parts]:
    """The parts of all members of a call, in the order of the group, given what each has recorded and puts in.

    Those of a member that has recorded none are alike. Raises Disagreement.
    """
    found = []
    for member, (parts, size_bytes) in enumerate(zip(recorded, sizes, strict=True)):
        if parts is None and size_bytes % len(sizes):
            raise Disagreement(member, f"{size_bytes:,} bytes are not alike for {len(sizes)} ranks")
        alike = (size_bytes // len(sizes),) * len(sizes)
        found.append(parts or Parts(alike, alike))
    put_in, got = (np.array([getattr(each, name) for each in found], np.int64) for name in ("put_in", "got"))
    for receiver in np.flatnonzero((got != put_in.T).any(axis=1)).tolist():
        sender = int((put_in[:, receiver] != got[receiver]).argmax())
        what = f"gets {got[receiver, sender]:,} bytes of a part of {put_in[sender, receiver]:,} bytes"
        raise Disagreement(receiver, f"an all-to-all in which the rank {what}")
    return found


def matrix(splits: Int64, first: Int64) -> Int64:
    """Bytes that each member puts in for each, given where the parts of each one begin."""
    found: Int64 = splits[first[:, None] + np.arange(len(first))]
    return found
