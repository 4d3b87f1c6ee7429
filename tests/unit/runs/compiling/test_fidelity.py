"""Bytes and rates divided for a wanted fidelity: by as much as the ideal network allows, and told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.fluid.estimate import Buffered, Departure
from gradwire.faults import InputFault
from gradwire.runs.compiling import scale_division as fidelity
from gradwire.runs.compiling.scale_division import (
    ScaleDivision,
    division_error,
    division_for,
    forced_division,
    forced_error,
)
from gradwire.runs.planned import PlannedRun, plan_runs
from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.resolution.compilation import Compiled, compile_point
from gradwire.vm.machines import Clock
from tests.shared.parts import in_order

SMALL: dict[str, Any] = {
    "title": "small",
    "cluster": {"workers": 4},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "ring"},
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "cache_folder", lambda: tmp_path / "cache")


def point(strategy: str = "ring", **run: Any) -> Point:
    (found,) = resolve({**SMALL, "strategy": {"name": strategy}, "run": run}, "test", "test").points
    return found


def compiled(strategy: str = "ring") -> Compiled:
    return compile_point(point(strategy).section)


def planned(clock: Clock | None = None, **run: Any) -> PlannedRun:
    (found,) = plan_runs([point(**run)], Path("/nonexistent"), clock or Clock())
    return found


def test_the_error_grows_with_the_division_and_the_largest_that_fits_is_taken() -> None:
    ring = compiled()
    errors = {number: division_error(ring.plans["ring"], ring.fabric, Departure(), number) for number in (1, 4, 16, 64)}
    assert sorted(errors.values()) == list(errors.values())
    found = division_for(ring.plans, ring.fabric, Departure(), 0.01)
    assert found.error <= 0.01 < division_error(ring.plans["ring"], ring.fabric, Departure(), 2 * found.number)
    assert division_for(ring.plans, ring.fabric, Departure(), 1e-7) == ScaleDivision(1, 0.0)


def test_it_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = compiled()
    found = division_for(ring.plans, ring.fabric, Departure(), 0.01)
    monkeypatch.setattr(fidelity, "division_error", None)
    assert division_for(ring.plans, ring.fabric, Departure(), 0.01) == found


def test_a_chain_of_messages_is_delayed_at_each_step_and_a_busy_port_is_not() -> None:
    """A ring of whole buckets passes on what it has received; a star of as many bytes only fills ports."""
    chain, star = (
        division_error(plan, found.fabric, Departure(), 16)
        for found in (compiled("layer-allreduce"), compiled("netops-ps"))
        for plan in [next(iter(found.plans.values()))]
    )
    assert chain > 2 * star


def test_what_sockets_hold_counts_where_messages_are_buffered() -> None:
    aggregated = compiled("aggregation-ps")
    plan = aggregated.plans["aggregation-ps"]
    departs = division_error(plan, aggregated.fabric, Departure(), 4)
    assert division_error(plan, aggregated.fabric, Buffered(1 << 20), 4) > 2 * departs


def test_messages_no_longer_than_bursts_are_not_divided() -> None:
    ring = compiled()
    plan = ring.plans["ring"]
    tiny = replace(plan, ops=replace(plan.ops, size_bytes=plan.ops.size_bytes.clip(max=1000)))
    assert division_for({"ring": tiny}, ring.fabric, Departure(), 0.1).number == 1


def test_a_plan_is_divided_and_its_key_knows() -> None:
    whole, divided = planned(), planned(fidelity="1%")
    number = divided.division.number
    assert number > 1
    assert divided.fabric.rate_bps == pytest.approx(whole.fabric.rate_bps / number)
    assert divided.fabric.gso_bytes == whole.fabric.gso_bytes
    assert divided.key != whole.key
    assert divided.cost_bytes == pytest.approx(whole.cost_bytes / number, rel=1e-4)


def test_a_division_that_the_clock_asks_for_is_told_with_its_error() -> None:
    ring = compiled()
    error = forced_error(ring.plans["ring"], ring.fabric, Departure(), 16)
    assert 0 < error < division_error(ring.plans["ring"], ring.fabric, Departure(), 16), (
        "a ring's ports have one flow each"
    )
    forced = ScaleDivision(16, error)
    assert forced_division(ring.plans, ring.fabric, Departure(), 16) == forced
    assert planned(Clock(scale=16)).division == forced
    small = planned(fidelity="0.1%").division
    assert small.number < 16
    assert planned(Clock(scale=16), fidelity="0.1%").division == forced, (
        "not that of the smaller one, which is asked for"
    )
    assert planned(Clock(scale=small.number), fidelity="0.1%").division == small


def test_a_fidelity_that_divides_nothing_is_the_same_run() -> None:
    assert planned(fidelity="0.00001%").key == planned().key


@pytest.mark.parametrize("wrong", ["0%", "11%", "1", 1])
def test_a_fidelity_is_a_small_share(wrong: object) -> None:
    with pytest.raises(InputFault, match=in_order("run.fidelity = ", "share", "0.5%")):
        point(fidelity=wrong)


def test_the_wall_clock_has_a_scale_of_its_own() -> None:
    with pytest.raises(InputFault, match=in_order("run.fidelity:", "virtual clock")):
        planned(Clock("wall", 10), fidelity="1%")
