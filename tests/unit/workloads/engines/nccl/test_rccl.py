"""RCCL on eight MI300X, by the formulas of its tuning model, worked by hand."""

from __future__ import annotations

import pytest

from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.chooser import KINDS, LL, RING, SIMPLE
from gradwire.workloads.engines.nccl.rccl import LINKS_SHARE, choose

GIB = 1 << 30


def test_small_calls_take_the_hops_of_a_ring() -> None:
    one = choose(Collective.ALL_REDUCE, 8)
    assert (one.algorithm, one.protocol) == (RING, LL)
    assert one.time_us == pytest.approx(12 + 14 * 0.8, abs=0.01)


def test_large_calls_use_all_links() -> None:
    one = choose(Collective.ALL_REDUCE, GIB)
    assert (one.algorithm, one.protocol) == (RING, SIMPLE)
    assert one.time_us == pytest.approx(17 + 14 * 2.1 + GIB * 14 / 8 / (7 * 48e3 * LINKS_SHARE))


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_is_faster_than_its_links_or_than_a_smaller_one(kind: Collective) -> None:
    """What a GPU must get at least comes by its seven links, and RCCL takes what it expects to be fastest."""
    before_us = 0.0
    share = (
        14 / 8 if kind is Collective.ALL_REDUCE else 1.0 if kind in (Collective.BROADCAST, Collective.REDUCE) else 7 / 8
    )
    for power in range(3, 36):
        one = choose(kind, 1 << power)
        assert one.time_us > before_us
        assert (1 << power) * share / one.time_us < 7 * 48e3
        before_us = one.expected_us
