"""The scale of the wall clock, chosen on machines that are made up."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gradwire.faults import MachineFault
from gradwire.inside.wall_scale_job import Carried
from gradwire.network.fabric import Fabric
from gradwire.runs.wall_scale import HOLD_S, Measure, choose_scale
from tests.shared.parts import in_order, tells


def machine(carries_bps: float, asked: list[tuple[float, float]]) -> Measure:
    """A machine that carries so much of all hosts together, and takes proportionally longer for more."""

    def measure(fabric: Fabric, duration_s: float) -> Carried:
        load = fabric.hosts * fabric.rate_bps / carries_bps
        asked.append((fabric.rate_bps, duration_s))
        return Carried(max(1.0, load), min(1.0, load), 0.0, load)

    return measure


@pytest.mark.parametrize("carries_bps", [1e8, 5e8, 3e9, 1e12])
def test_the_machine_carries_what_is_chosen_and_was_tried_for_long(carries_bps: float) -> None:
    asked: list[tuple[float, float]] = []
    chosen = choose_scale([Fabric(4, 1e9), Fabric(8, 1e10)], machine(carries_bps, asked))
    assert 8 * 1e10 / chosen.number <= carries_bps
    assert asked[-1] == (1e10 / chosen.number, HOLD_S)
    assert all(later <= earlier for (earlier, _), (later, _) in pairwise(asked))
    assert tells(chosen.announcement(), f"divided by {chosen.number}:", "8 hosts")


def test_no_more_is_divided_than_needed() -> None:
    assert choose_scale([Fabric(2, 1e9)], machine(1e12, [])).number == 1
    assert choose_scale([Fabric(8, 1e10)], machine(1e9, [])).number <= 160


def test_a_machine_that_carries_nothing_is_told() -> None:
    with pytest.raises(MachineFault, match=in_order("8 hosts", "--clock virtual")):
        choose_scale([Fabric(8, 1e10)], machine(1e5, []))


def test_a_machine_whose_threads_are_always_busy_is_told() -> None:
    with pytest.raises(MachineFault, match="other work"):
        choose_scale([Fabric(8, 1e10)], lambda *_: Carried(1.0, 1.0, 0.5, 2.0))
