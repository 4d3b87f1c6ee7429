"""What no network counts is refused, field by field."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from gradwire.datatypes.network_counts import BandCount, LineCount, NetworkCounts, ReplacedQueues
from gradwire.network.fabric import Fabric
from gradwire.runs.stored.network_soundness import refuse_unsound_counts

FABRIC = Fabric(2, 10e9)
BAND = BandCount("h1-eth0", 1, 1, 1, 1)
LINE = LineCount("h1-eth0", True, 1, 1, 1, 1, 1, 1)
REPLACED = ReplacedQueues("h1-eth0", ("1:1 netem",), 1, 1, 1)
COUNTS = NetworkCounts((BAND,), 1, 1, 1, 1, lines=(LINE,), replaced=(REPLACED,))


def numbers(kind: type) -> list[str]:
    return [each.name for each in fields(kind) if each.type == "int"]  # annotations are texts


def negative(counted: Any, name: str) -> Any:
    return replace(counted, **{name: -1})


CASES = [
    *((name, negative(COUNTS, name)) for name in numbers(NetworkCounts)),
    *((name, replace(COUNTS, bands=(negative(BAND, name),))) for name in numbers(BandCount)),
    *((name, replace(COUNTS, lines=(negative(LINE, name),))) for name in numbers(LineCount)),
    *((name, replace(COUNTS, replaced=(negative(REPLACED, name),))) for name in numbers(ReplacedQueues)),
]


def test_counts_of_zero_and_more_are_sound() -> None:
    refuse_unsound_counts(COUNTS, FABRIC)


@pytest.mark.parametrize(("name", "counts"), CASES, ids=[name for name, _ in CASES])
def test_no_number_is_below_zero(name: str, counts: NetworkCounts) -> None:
    with pytest.raises(ValueError, match=name):
        refuse_unsound_counts(counts, FABRIC)
