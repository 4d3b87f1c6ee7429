"""What the virtual clock has to divide, by how much, and when that is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.fluid.estimate import Departure
from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.runs.compiling import scale_division as fidelity
from gradwire.runs.compiling.scale_division import ScaleDivision, division_error, forced_division, forced_error
from gradwire.runs.expected_cost import warnings
from gradwire.runs.planned import PlannedRun, plan_runs, refuse_coarse, too_coarse, virtual_clock
from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.resolution.compilation import Compiled, compile_point
from tests.shared.parts import in_order

LAYER = {"name": "a", "kind": "conv", "forward": "0.2ms", "backward": "0.2ms"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "cache_folder", lambda: tmp_path / "cache")


def point(strategy: str, workers: int, rate: str, size: str, **run: Any) -> Point:
    document: Document = {
        "title": "many fast hosts",
        "cluster": {"workers": workers},
        "fabric": {"rate": rate},
        "model": {"name": "made-up", "layers": [{**LAYER, "size": [size]}]},
        "strategy": {"name": strategy},
        "run": run,
    }
    (found,) = resolve(document, "test", "test").points
    return found


def planned(point: Point) -> PlannedRun:
    (found,) = plan_runs([point], Path("/nonexistent"), virtual_clock([point]))
    return found


def error(compiled: Compiled, number: int) -> float:
    (plan,) = compiled.plans.values()
    return forced_error(plan, compiled.fabric, Departure(), number)


def test_where_each_port_has_one_flow_and_messages_several_bursts_none_is_late() -> None:
    ring = compile_point(point("ring", 64, "100gbit", "64MB").section)
    assert error(ring, 2) < 0.002
    (plan,) = ring.plans.values()
    assert division_error(plan, ring.fabric, Departure(), 2) > 0.1, "a bound for every plan, which run.fidelity keeps"


def test_a_message_shorter_than_a_burst_is_late_by_its_own_time() -> None:
    """And so its ring takes nearly twice as long, whatever it is divided by."""
    ring = compile_point(point("ring", 64, "100gbit", "2MB").section)
    assert error(ring, 2) == pytest.approx(error(ring, 8), abs=0.1)
    assert error(ring, 8) > 0.4


def test_where_flows_share_ports_a_message_waits_for_a_burst() -> None:
    tree = compile_point(point("double-tree", 16, "100gbit", "8MB").section)
    (plan,) = tree.plans.values()
    assert error(tree, 4) == pytest.approx(division_error(plan, tree.fabric, Departure(), 4), rel=0.05)


def test_less_is_divided_where_bursts_would_do_more_harm_than_the_clock() -> None:
    tree = compile_point(point("double-tree", 16, "100gbit", "32MB").section)
    errors = {number: error(tree, number) for number in (8, 16)}
    assert errors[8] < 0.05 < errors[16]
    assert forced_division(tree.plans, tree.fabric, Departure(), 16) == ScaleDivision(8, errors[8])
    assert forced_division(tree.plans, tree.fabric, Departure(), 16, least=16) == ScaleDivision(16, errors[16])
    assert forced_division(tree.plans, tree.fabric, Departure(), 16, fidelity=0.1) == ScaleDivision(16, errors[16])
    assert forced_division(tree.plans, tree.fabric, Departure(), 2, fidelity=1e-6) == ScaleDivision(), (
        "nothing is off by nothing"
    )


def test_a_point_whose_verdict_is_known_is_refused_before_it_runs() -> None:
    coarse = planned(point("ring", 128, "100gbit", "4MB"))
    assert coarse.division.number == 2  # 128 hosts at 100 Gbit/s are more than the clock carries undivided
    parts = ("test: made-up ring", "128 hosts", "100 Gbit/s", "divided by 2", "5.0%")
    with pytest.raises(InputFault, match=in_order(*parts)):
        refuse_coarse(coarse)
    assert [line for line in warnings([coarse]) if "`gradwire run` refuses" in line]
    sound = planned(point("ring", 128, "100gbit", "64MB"))
    assert too_coarse(sound) == ""
    refuse_coarse(sound)
